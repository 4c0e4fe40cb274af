//! What rules withstand: the same federated training once per combine rule and attack.

use clap::Args;
use serde_json::json;

use crate::rules::{Learning, Row, aggregation_of, demo, measure};
use tributary::demo::attack::Attack;
use tributary::demo::changes::Changes;
use tributary::demo::job_file;
use tributary::error::CliError;
use tributary::format::{or_dash, percent};
use tributary::output::Output;

#[derive(Clone, Debug, Args)]
pub(crate) struct AttackArgs {
    /// A rule of `[aggregation] combine`. May be repeated.
    #[arg(long = "combine", value_name = "RULE", default_values = RULES, value_parser = clap::builder::PossibleValuesParser::new(RULES))]
    rules: Vec<String>,
    /// An attack. May be repeated.
    #[arg(long = "attack", value_enum, value_name = "ATTACK", default_values_t = [Attack::SignFlip, Attack::Noise, Attack::Alie, Attack::Ipm])]
    attacks: Vec<Attack>,
    /// The share of clients that attack. May be repeated.
    #[arg(long = "share", value_name = "SHARE", default_values_t = [0.1, 0.2, 0.3], value_parser = parse_share)]
    shares: Vec<f64>,
    /// Largest norm of `norm_clipping`, for the adaptive one in the first round, and radius of `centered_clipping`:
    /// about the norm of an honest update.
    #[arg(long, default_value_t = 1.0, value_name = "NORM")]
    norm: f64,
    #[command(flatten)]
    learning: Learning,
}

/// `norm_clipping` whose norm adapts.
const ADAPTIVE_CLIPPING: &str = "adaptive_norm_clipping";
const RULES: [&str; 10] = [
    "weighted_mean",
    "norm_clipping",
    ADAPTIVE_CLIPPING,
    "median",
    "trimmed_mean",
    "krum",
    "multi_krum",
    "bulyan",
    "geometric_median",
    "centered_clipping",
];

/// A rule's row without attackers, then one for each attack and share. Rules are set for the largest share.
pub(crate) async fn run(args: &AttackArgs, output: &Output) -> Result<(), CliError> {
    let clients = demo(&args.learning, 0, Changes::default()).clients();
    let attackers = |share: f64| (share * f64::from(clients)).ceil() as u32;
    let most = args.shares.iter().copied().map(attackers).max().unwrap_or_default();
    let cohort = args.learning.cohort.unwrap_or(clients);
    for rule in &args.rules {
        let aggregation = aggregation_of(json!({ "combine": combine(rule, most, clients, args.norm) }))?;
        let changes = Changes { aggregation, cohort: Some(cohort), ..Changes::default() };
        if let Err(error) = job_file(&demo(&args.learning, 0, changes.clone()))?.check() {
            output.note(&format!("{rule} is left out: {error}"));
            continue;
        }
        let attacks = args.attacks.iter().flat_map(|attack| args.shares.iter().map(|share| Some((*attack, *share))));
        for attack in std::iter::once(None).chain(attacks) {
            for seed in &args.learning.seeds {
                let changes =
                    Changes { attack: attack.map(|(attack, share)| (attack, attackers(share))), ..changes.clone() };
                let row = measure(&args.learning, *seed, changes, output).await?;
                let share = attack.map_or(0.0, |(_, share)| share);
                let attack = attack.map(|(attack, _)| attack.as_str());
                let row = Row { rule: rule.clone(), attack, share, ..row };
                output.object(&row, || text(&row))?;
            }
        }
    }
    Ok(())
}

/// The rule with settings for this many attackers.
fn combine(rule: &str, attackers: u32, clients: u32, norm: f64) -> serde_json::Value {
    match rule {
        "krum" | "multi_krum" | "bulyan" => json!({ "kind": rule, "byzantine": attackers }),
        // One more than the attackers' share would drop too few after rounding down.
        "trimmed_mean" => {
            json!({ "kind": rule, "trim": (f64::from(attackers) / f64::from(clients)).clamp(0.05, 0.45) })
        }
        "norm_clipping" => json!({ "kind": rule, "norm": norm }),
        ADAPTIVE_CLIPPING => json!({ "kind": "norm_clipping", "norm": norm, "adaptive": { "quantile": 0.5 } }),
        "centered_clipping" => json!({ "kind": rule, "radius": norm }),
        rule => json!(rule),
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..0.5).contains(share) && *share > 0.0);
    share.ok_or_else(|| "it must be above 0 and below 0.5".to_owned())
}

fn text(row: &Row) -> String {
    let attack = match row.attack {
        Some(attack) => format!("{attack} by {}", percent(row.share)),
        None => "no attack".to_owned(),
    };
    format!(
        "{:<18} {attack:<20} seed {:>3}  accuracy {}  loss {}  {:.0} s",
        row.rule,
        row.seed,
        or_dash(row.accuracy, percent),
        or_dash(row.loss, |loss| format!("{loss:.4}")),
        row.seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<AttackArgs, clap::Error> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            attack: AttackArgs,
        }
        <Line as clap::Parser>::try_parse_from(std::iter::once("attack").chain(line.split(' '))).map(|line| line.attack)
    }

    #[test]
    fn every_rule_withstands_a_fifth_of_its_clients_by_its_settings() {
        let args = args("--clients 30").unwrap();
        for rule in RULES {
            let aggregation = aggregation_of(json!({ "combine": combine(rule, 6, 30, 1.0) })).unwrap();
            let changes = Changes { aggregation, cohort: Some(30), ..Changes::default() };
            let file = job_file(&demo(&args.learning, 1, changes)).unwrap();
            file.check().unwrap_or_else(|error| panic!("{rule}: {error}"));
        }
        for wrong in ["--share 0", "--share 0.5", "--attack nothing", "--combine fed_avg"] {
            assert!(self::args(wrong).is_err(), "{wrong}");
        }
    }

    /// Goal: flipped signs ruin the mean and not the median, through coordinator and clients.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn flipped_signs_ruin_the_mean_and_not_the_median() {
        let line = "--clients 5 --rounds 3 --seed 1 --epochs 2 --partition iid --share 0.2 --attack sign_flip \
                    --combine weighted_mean --combine median";
        let args = args(&line.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap();
        let (output, printed) = Output::kept(true);
        run(&args, &output).await.unwrap();
        let printed = printed.lock().unwrap();
        let rows: Vec<serde_json::Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let accuracy = |rule: &str, attack: serde_json::Value| {
            let row = rows.iter().find(|row| row["rule"] == rule && row["attack"] == attack).unwrap();
            row["accuracy"].as_f64().unwrap()
        };
        assert_eq!(rows.len(), 4);
        let clean = accuracy("median", serde_json::Value::Null);
        assert!(accuracy("median", json!("sign_flip")) > clean - 0.1 && clean > 0.6, "{rows:?}");
        assert!(accuracy("weighted_mean", json!("sign_flip")) < clean - 0.3, "{rows:?}");
    }
}
