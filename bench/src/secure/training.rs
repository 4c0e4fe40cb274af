//! What masked updates learn: the same training with `int8` updates and with the sums of groups, and while one client
//! lies.

use std::collections::VecDeque;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tributary_engine::job::JobSpec;
use tributary_engine::privacy::resolve;
use tributary_engine::round::masking::MaskingPolicy;
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::{Clip, Combine, JobFile, Privacy, RoundPolicy, SecureAggregation, StopPolicy};
use tributary_protocol::noise::epsilon_of_integers;
use tributary_protocol::seed::Seed;
use tributary_protocol::update::{Codec, CodecName};
use tributary_simulation::Rounds;

use super::course::{Course, Lie, Played};
use crate::error::BenchError;
use crate::simulated::{Split, failed};
use tributary::data::partition::Partition;
use tributary::demo::args::Network;
use tributary::demo::data::DemoData;
use tributary::error::CliError;
use tributary::format::{or_dash, percent};
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// Last rounds whose mean accuracy is reported: a single round varies too much.
const LAST_ROUNDS: usize = 5;
/// The chance that a promise of privacy does not hold.
const DELTA: f64 = 1e-6;
/// Groups that a rule needs which follows the middle of their means.
const MIDDLE_GROUPS: u32 = 3;

#[derive(Clone, Debug, Args)]
pub(crate) struct SecureTrainingArgs {
    /// Folder of MNIST's four IDX files; missing files are downloaded into it. Without it, the embedded digits are
    /// learned.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The network.
    #[arg(long, value_enum, default_value_t = Network::Mlp)]
    model: Network,
    /// How the examples are split among the clients: iid, dirichlet:A or shards:N.
    #[arg(long, default_value = "iid", value_name = "PARTITION")]
    partition: Partition,
    /// Clients, all of which train in each round.
    #[arg(long, default_value_t = 100, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(3..=1000))]
    clients: u32,
    /// Most members of a group.
    #[arg(long, default_value_t = 32, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(3..=1000))]
    group: u32,
    /// Share of the members of each group that are lost after they joined; may be repeated, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "0.1,0.3", value_name = "SHARE", value_parser = parse_share)]
    lost: Vec<f64>,
    /// Share of the values that are sent; may be repeated, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,0.25", value_name = "SHARE")]
    keep: Vec<f64>,
    /// The clip, as a job file has it: a number, or a JSON object for one that moves [default: that of a job].
    #[arg(long, value_name = "CLIP", value_parser = parse_clip)]
    clip: Option<Clip>,
    /// Standard deviation, in clips, of the noise that the members of a group add to its sum; 0 for none. May be
    /// repeated. Without an attack.
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "CLIPS")]
    noise: Vec<f64>,
    /// Rounds of a training.
    #[arg(long, default_value_t = 60, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Rounds are counted up to this accuracy, from 0 to 1.
    #[arg(long, default_value_t = 0.9, value_name = "ACCURACY")]
    target: f64,
    /// A seed of every random choice. May be repeated, separated by commas.
    #[arg(long = "seed", value_delimiter = ',', value_name = "NUMBER", default_values_t = [1, 2, 3])]
    seeds: Vec<u64>,
    /// What one client sends in each round in place of its update. May be repeated. Without it, masked updates are
    /// compared with `int8` ones; with it, rules over the sums of groups, with and without a liar and the check of
    /// norms, and with members of failed groups set apart.
    #[arg(long = "attack", value_enum, value_name = "ATTACK")]
    attacks: Vec<Lie>,
    /// A rule over the sums of groups while a client lies. May be repeated.
    #[arg(long = "combine", value_name = "RULE", default_values = RULES, value_parser = clap::builder::PossibleValuesParser::new(RULES))]
    rules: Vec<String>,
    /// Largest norm of a group's mean with `norm_clipping`: about that of an honest one.
    #[arg(long, default_value_t = 0.3, value_name = "NORM")]
    norm: f64,
}

const RULES: [&str; 4] = ["uniform_mean", "norm_clipping", "median", "trimmed_mean"];

/// One training.
#[derive(Clone, Debug)]
struct Case {
    /// None for `int8` updates without masks.
    keep: Option<f64>,
    noise: f64,
    rule: String,
    lost: f64,
    lie: Option<Lie>,
    is_checked: bool,
    /// Whether clients of failed groups are grouped apart.
    is_apart: bool,
    seed: u64,
}

/// Programs rely on the names of its members.
#[derive(Clone, Debug, Serialize)]
struct Row {
    /// `int8` or `masked`.
    update: &'static str,
    combine: String,
    keep: Option<f64>,
    noise: f64,
    /// What a client that takes part in all rounds spends against the coordinator, but for a chance of 1e-6.
    epsilon: Option<f64>,
    lost: f64,
    attack: Option<Lie>,
    /// Whether a sum that is longer than honest members could make it is dropped.
    is_checked: bool,
    /// Whether clients of failed groups are grouped apart.
    is_apart: bool,
    seed: u64,
    rounds: u32,
    /// The first round whose model reached the target accuracy.
    rounds_to_target: Option<u32>,
    /// Mean of the last five rounds.
    accuracy: f64,
    /// Of the last round.
    accuracy_last: f64,
    /// Bits sent for a parameter, on average.
    bits_per_parameter: f64,
    /// Members of summed groups in a round, on average.
    updates: f64,
    groups: u32,
    groups_failed: u32,
    /// Mean norm of the means of groups.
    group_norm: Option<f64>,
    /// The clip of the first and of the last round.
    clip_first: Option<f64>,
    clip: Option<f64>,
    seconds: f64,
}

pub(crate) async fn run(args: &SecureTrainingArgs, output: &Output) -> Result<(), CliError> {
    for seed in &args.seeds {
        let split = Split { clients: args.clients, partition: args.partition, network: args.model, seed: *seed };
        let (file, data) = split.load(args.data_dir.as_deref(), output).await?;
        for case in cases(args, *seed) {
            let (args, file, data) = (args.clone(), file.clone(), data.clone());
            // The computation takes minutes and would block other tasks.
            let row = tokio::task::spawn_blocking(move || measure(&args, &case, &split, &file, &data));
            let row = row.await.map_err(CliError::task)??;
            output.object(&row, || text(&row))?;
        }
    }
    Ok(())
}

/// The trainings of a seed.
fn cases(args: &SecureTrainingArgs, seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for lost in args.lost.iter().copied() {
        let case = |rule: &str, keep| Case {
            keep,
            noise: 0.0,
            rule: rule.to_owned(),
            lost,
            lie: None,
            is_checked: true,
            is_apart: true,
            seed,
        };
        let masked = args.keep.iter().copied().map(Some);
        if args.attacks.is_empty() {
            cases.push(case("uniform_mean", None));
            for keep in masked {
                cases.extend(args.noise.iter().map(|noise| Case { noise: *noise, ..case("uniform_mean", keep) }));
            }
            continue;
        }
        for (rule, keep) in args.rules.iter().flat_map(|rule| masked.clone().map(move |keep| (rule, keep))) {
            cases.push(case(rule, keep));
            for lie in args.attacks.iter().copied().map(Some) {
                let checks = [(false, false), (true, false), (true, true)];
                cases.extend(checks.map(|(is_checked, is_apart)| Case {
                    lie,
                    is_checked,
                    is_apart,
                    ..case(rule, keep)
                }));
            }
        }
    }
    cases
}

fn measure(
    args: &SecureTrainingArgs,
    case: &Case,
    split: &Split,
    file: &JobFile,
    data: &DemoData,
) -> Result<Row, BenchError> {
    let clock = Stopwatch::start();
    let file = job(args, case, file)?;
    let policy = MaskingPolicy::of(&file, args.clients).unwrap_or_else(|| policy(args));
    let rounds = Rounds::new(JobSpec::new(JobId::from_random([1; 16]), file).map_err(failed)?)?;
    let Case { lost, lie, is_checked, is_apart, .. } = *case;
    let (learner, clients) = (split.learner(data)?, args.clients as usize);
    let (past, seed) = (VecDeque::new(), Seed(case.seed));
    let mut course = Course { rounds, learner, clients, policy, lost, lie, is_checked, is_apart, past, seed };
    let (mut accuracies, mut played) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        played.push(course.round()?);
        accuracies.push(course.rounds.accuracy(&mut course.learner)?);
    }
    let row = row(args, case, &accuracies, &played);
    Ok(Row { seconds: clock.elapsed().as_secs_f64(), ..row })
}

/// The job of a case: all clients take part in each round.
fn job(args: &SecureTrainingArgs, case: &Case, file: &JobFile) -> Result<JobFile, BenchError> {
    let mut file = file.clone();
    let needed = if case.rule == "median" || case.rule == "trimmed_mean" { MIDDLE_GROUPS } else { 1 };
    // Fewer updates would fit into one group less.
    let updates_min = (args.group * (needed - 1) + 1).min(args.clients);
    file.round = RoundPolicy { updates_goal: args.clients, updates_min, over_selection: 1.0, ..RoundPolicy::default() };
    file.aggregation.combine = combine(&case.rule, args.norm)?;
    file.evaluation = None;
    file.stop = StopPolicy { rounds: Some(args.rounds), ..StopPolicy::default() };
    match case.keep {
        Some(keep) => {
            file.update.codec = Codec::default();
            let secure = SecureAggregation { group: Some(args.group), keep, ..SecureAggregation::default() };
            let clip = args.clip.unwrap_or(secure.clip);
            if case.noise > 0.0 {
                file.privacy = Some(privacy(args.rounds, case.noise, clip)?);
                file.secure_aggregation = Some(secure);
                resolve(&mut file).map_err(failed)?;
            } else {
                file.secure_aggregation = Some(SecureAggregation { clip, ..secure });
            }
        }
        None => file.update.codec = CodecName::Int8.with_defaults(),
    }
    Ok(file)
}

/// The terms of a job in which every client takes part in every round.
fn privacy(rounds: u32, noise: f64, clip: Clip) -> Result<Privacy, BenchError> {
    let terms = json!({
        "epsilon": 100.0, "delta": DELTA, "mechanism": "distributed", "noise_multiplier": noise,
        "participations_max": rounds, "separation": 1, "clip": clip,
    });
    serde_json::from_value(terms).map_err(failed)
}

/// The groups that clients would form whose updates are not masked.
fn policy(args: &SecureTrainingArgs) -> MaskingPolicy {
    let secure = SecureAggregation { group: Some(args.group), ..SecureAggregation::default() };
    let (group, group_min) = (secure.group(args.clients), secure.group_min(args.clients));
    MaskingPolicy { group, group_min, ..MaskingPolicy::default() }
}

fn combine(rule: &str, norm: f64) -> Result<Combine, BenchError> {
    let settings = match rule {
        "norm_clipping" => json!({ "kind": rule, "norm": norm }),
        // One of three means is dropped at each end.
        "trimmed_mean" => json!({ "kind": rule, "trim": 0.34 }),
        rule => json!(rule),
    };
    serde_json::from_value(settings).map_err(failed)
}

fn row(args: &SecureTrainingArgs, case: &Case, accuracies: &[f64], played: &[Played]) -> Row {
    let last = &accuracies[accuracies.len().saturating_sub(LAST_ROUNDS)..];
    let sums: u32 = played.iter().map(|round| round.sums).sum();
    let bits = played.iter().map(|round| round.bits).max().unwrap_or(0);
    Row {
        update: if case.keep.is_some() { "masked" } else { "int8" },
        combine: case.rule.clone(),
        keep: case.keep,
        noise: case.noise,
        epsilon: (case.noise > 0.0).then(|| epsilon_of_integers(case.noise, args.rounds, DELTA)),
        lost: case.lost,
        attack: case.lie,
        is_checked: case.is_checked && case.keep.is_some(),
        is_apart: case.is_apart && case.keep.is_some(),
        seed: case.seed,
        rounds: args.rounds,
        rounds_to_target: accuracies.iter().zip(1..).find(|(accuracy, _)| **accuracy >= args.target).map(|(_, at)| at),
        accuracy: last.iter().sum::<f64>() / last.len().max(1) as f64,
        accuracy_last: last.last().copied().unwrap_or(0.0),
        bits_per_parameter: case.keep.map_or(8.0, |keep| keep * f64::from(bits)),
        updates: played.iter().map(|round| f64::from(round.updates)).sum::<f64>() / played.len() as f64,
        groups: played.iter().map(|round| round.groups).sum(),
        groups_failed: played.iter().map(|round| round.groups_failed).sum(),
        group_norm: (sums > 0).then(|| played.iter().map(|round| round.norms).sum::<f64>() / f64::from(sums)),
        clip_first: played.first().and_then(|round| round.clip),
        clip: played.last().and_then(|round| round.clip),
        seconds: 0.0,
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=0.5).contains(share));
    share.ok_or_else(|| "it must be from 0 to 0.5".to_owned())
}

fn parse_clip(text: &str) -> Result<Clip, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn text(row: &Row) -> String {
    let mut keep = row.keep.map_or(String::new(), |keep| format!(" keep {keep}"));
    if let Some(epsilon) = row.epsilon {
        keep.push_str(&format!(" noise {} (epsilon {epsilon:.1})", row.noise));
    }
    let attack = row.attack.map_or("no attack", |lie| match lie {
        Lie::Random => "random",
        Lie::Reversed => "reversed",
        Lie::Large => "large",
    });
    format!(
        "{}{keep}  {:<13} {:.0} % lost  {attack}{}  seed {}  to target {:>3} rounds  accuracy {} after {} rounds  {} of {} groups failed  {:.0} s",
        row.update,
        row.combine,
        row.lost * 100.0,
        match (row.is_checked, row.is_apart) {
            (true, true) => "",
            (true, false) => ", not set apart",
            (false, _) => ", unchecked",
        },
        row.seed,
        or_dash(row.rounds_to_target, |rounds| rounds.to_string()),
        percent(row.accuracy),
        row.rounds,
        row.groups_failed,
        row.groups,
        row.seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> SecureTrainingArgs {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            training: SecureTrainingArgs,
        }
        <Line as clap::Parser>::parse_from(std::iter::once("secure-training").chain(line.split_whitespace())).training
    }

    async fn rows(line: &str) -> Vec<serde_json::Value> {
        let (output, printed) = Output::kept(true);
        run(&args(line), &output).await.unwrap();
        let printed = printed.lock().unwrap();
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Goal: rows with and without masks, of clients that are lost alike; the first group of each masked training is
    /// summed with real masks.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn masked_updates_are_trained_beside_plain_ones() {
        let rows = rows("--clients 12 --group 6 --lost 0.3 --keep 1,0.5 --rounds 3 --seed 1").await;
        let updates: Vec<_> = rows.iter().map(|row| row["update"].as_str().unwrap()).collect();
        assert_eq!(updates, ["int8", "masked", "masked"]);
        for row in &rows {
            assert_eq!((&row["groups"], &row["groups_failed"], &row["updates"]), (&6.into(), &0.into(), &10.0.into()));
            assert!(row["accuracy"].as_f64().unwrap() > 0.05, "{row}");
        }
        assert!(rows[1]["clip"].as_f64().unwrap() > 0.1, "the clip follows longer updates: {}", rows[1]);
        assert!(rows[2]["bits_per_parameter"].as_f64() < rows[1]["bits_per_parameter"].as_f64());
    }

    /// Goal: a liar costs fewer others their updates once it is set apart. Method: groups of twelve, of which one fails
    /// in each round; from the fourth round on its small group does.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_liar_that_is_set_apart_costs_few_others_their_updates() {
        let line = "--clients 48 --group 12 --lost 0 --keep 1 --clip 1 --rounds 12 --seed 1 --attack large \
                    --combine uniform_mean";
        let rows = rows(line).await;
        let updates: Vec<f64> = rows.iter().map(|row| row["updates"].as_f64().unwrap()).collect();
        let [clean, unchecked, checked, apart] = updates[..] else { panic!("{rows:?}") };
        assert_eq!((clean, unchecked, checked), (48.0, 48.0, 36.0));
        assert!(apart > 41.0, "{apart}");
    }

    /// Goal: a large lie ruins the mean of groups that nobody checks. The check drops its group, and clipping bounds
    /// what it does.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_liar_ruins_plain_addition_and_neither_the_check_nor_clipping() {
        let line = "--clients 18 --group 3 --lost 0 --keep 1 --clip 1 --rounds 10 --seed 1 --attack large \
                    --combine uniform_mean --combine norm_clipping --norm 0.5";
        let rows = rows(line).await;
        let accuracies: Vec<f64> = rows.iter().map(|row| row["accuracy"].as_f64().unwrap()).collect();
        let failed: Vec<_> = rows.iter().map(|row| row["groups_failed"].as_u64().unwrap()).collect();
        let [clean, plain, checked, apart, clean_clipped, clipped, both, _] = accuracies[..] else {
            panic!("{rows:?}")
        };
        assert!(clean > 0.85 && plain < clean - 0.2, "plain addition: {accuracies:?}");
        assert!(checked.min(apart) > clean - 0.03 && both > clean_clipped - 0.03, "the check: {accuracies:?}");
        assert!(clipped > clean_clipped - 0.1, "clipping: {accuracies:?}");
        assert_eq!(failed, [0, 0, 10, 10, 0, 0, 10, 10]);
    }
}
