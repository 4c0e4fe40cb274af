//! The time of a round while some members are slow: coded rounds beside others that train on the same parts of the
//! data.
//!
//! | scheme | what a member trains on | when a round ends |
//! |---|---|---|
//! | star | its part | all members have answered |
//! | star, over-selected | its part | all but the stragglers have answered: their parts are not in the model |
//! | coded | the s + 1 parts of its block | each block has an answer |
//! | ring | its part | all members have added up among themselves |
//!
//! Members are clients of the SDK in this process, and the coordinator is a process. Training waits for a time per part
//! and computes next to nothing. An update depends on the model and the part alone, so the last model shows whether all
//! parts are in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tributary_client::{
    AlwaysOn, Client, EvaluateTask, Evaluated, MemoryStore, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::example_sets::{ExampleSet, ExampleSets};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{JobId, Name, Secret};
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::Round;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{Phase, Task};

use crate::error::BenchError;
use crate::fleet;
use crate::process::{CoordinatorProcess, Options, database_of, operator_token, population_name};
use tributary::api::collect;
use tributary::error::CliError;
use tributary::format::bytes;
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// Rounds before the measured ones, in which files grow and caches fill.
const WARM_UP_ROUNDS: u32 = 1;
/// Longest time of a round and of the wait for its members, in seconds.
const ROUND_S_MAX: u64 = 3600;
/// Longest work of a member in a round, in milliseconds: members of a ring wait for each other for 0.6 of a round.
const WORK_MS_MAX: u64 = 1_800_000;
/// How often a member that works asks whether it should stop.
const STEP: Duration = Duration::from_millis(10);
/// How often the benchmark looks whether a round has ended. Each look takes processor time of the coordinator.
const LOOK: Duration = Duration::from_millis(200);
/// A coordinator that admits so many check-ins never lets a client pause between two of them.
const CHECKINS_PER_SECOND: u32 = 2_000;
/// Largest absolute value of an update.
const MAGNITUDE: f32 = 0.01;
const SEED: Seed = Seed(7);

#[derive(Clone, Debug, Args)]
pub(crate) struct CodedArgs {
    /// Members, and parts of the data. With the code, a multiple of --stragglers + 1.
    #[arg(long, default_value_t = 12, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(2..=64))]
    members: u16,
    /// Members without whose answers a coded round and an over-selected one end.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=31))]
    stragglers: u16,
    /// Slow members, and by how many times: 1x10 is one that takes ten times as long. They are the first ones, which
    /// hold the same parts.
    #[arg(long, default_value = "1x10", value_name = "MEMBERSxTIMES", value_parser = parse_slow)]
    slow: Slow,
    /// Parameters of the model.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    parameters: u32,
    /// Time in which a member that is not slow trains on a part, in milliseconds.
    #[arg(long, default_value_t = 1_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    compute_ms: u64,
    /// Rounds to measure of each scheme, after one that is not measured.
    #[arg(long, default_value_t = 3, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

/// Members that take longer for the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slow {
    members: u16,
    times: u16,
}

/// What members train on, and when a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Star,
    OverSelected,
    Coded,
    Ring,
}

/// Programs rely on the names of its members. Seconds and bytes are per round.
#[derive(Debug, Serialize)]
struct Measured {
    scheme: &'static str,
    /// From the draw of a round to its commit.
    iteration_s: f64,
    /// From one commit to the next: an iteration, and the wait until all members are there for the next draw.
    cycle_s: f64,
    /// The share of all data that each member trains on.
    load: f64,
    /// Processor time of the coordinator.
    cpu_s: f64,
    /// To and from the coordinator. What members of a ring send each other is not in it.
    bytes: u64,
    /// Whether the last model is that of the star, bit for bit: it has the updates of all parts.
    sha256_equal: bool,
}

/// What rounds of a scheme cost, each.
struct Cost {
    times: Times,
    cpu_s: f64,
    /// Of the last model.
    sha256: Sha256Hash,
}

/// What the coordinator says of rounds, each.
struct Times {
    iteration_s: f64,
    cycle_s: f64,
    bytes: u64,
}

impl Scheme {
    /// The star comes first: its model is that of all parts.
    const ALL: [Self; 4] = [Self::Star, Self::OverSelected, Self::Coded, Self::Ring];

    fn as_str(self) -> &'static str {
        match self {
            Self::Star => "star",
            Self::OverSelected => "star, over-selected",
            Self::Coded => "coded",
            Self::Ring => "ring",
        }
    }

    /// Parts of each member.
    fn parts(self, args: &CodedArgs) -> u16 {
        match self {
            Self::Coded => args.stragglers + 1,
            Self::Star | Self::OverSelected | Self::Ring => 1,
        }
    }
}

pub(crate) async fn run(args: &CodedArgs, output: &Output) -> Result<(), CliError> {
    check(args)?;
    let noise = Arc::new(noise(args.parameters));
    let (mut rows, mut star) = (Vec::new(), None);
    for scheme in Scheme::ALL {
        output.note(scheme.as_str());
        let Cost { times, cpu_s, sha256 } = cost(args, scheme, &noise).await?;
        let measured = Measured {
            scheme: scheme.as_str(),
            iteration_s: times.iteration_s,
            cycle_s: times.cycle_s,
            load: f64::from(scheme.parts(args)) / f64::from(args.members),
            cpu_s,
            bytes: times.bytes,
            sha256_equal: *star.get_or_insert(sha256) == sha256,
        };
        // Programs need not wait for the last row.
        match output.json {
            true => print(&[measured], output)?,
            false => rows.push(measured),
        }
    }
    output.note("a coded tree is only planned, so it is left out: `tributary tree plan` has the times to expect of it");
    if output.json { Ok(()) } else { print(&rows, output) }
}

/// Refuses what could not be played, before anything is started.
fn check(args: &CodedArgs) -> Result<(), CliError> {
    let CodedArgs { members, stragglers, slow, compute_ms, .. } = *args;
    if stragglers >= members || slow.members > members {
        return Err(CliError::BadSetting(
            "--stragglers must be below --members, and --slow at most all of them".into(),
        ));
    }
    let work_ms = compute_ms * u64::from(stragglers + 1) * u64::from(slow.times);
    if work_ms > WORK_MS_MAX {
        let detail =
            format!("a slow member would work for {work_ms} ms in a coded round: at most {WORK_MS_MAX} are possible");
        return Err(CliError::BadSetting(detail));
    }
    for scheme in Scheme::ALL {
        job_file(args, scheme, &population_name()?)?;
    }
    Ok(())
}

fn print(rows: &[Measured], output: &Output) -> Result<(), CliError> {
    let header = ["scheme", "iteration", "commit to commit", "load", "processor", "bytes", "all parts"];
    output.list(rows, &header, |row| {
        vec![
            row.scheme.to_owned(),
            format!("{:.2} s", row.iteration_s),
            format!("{:.2} s", row.cycle_s),
            format!("{:.1} %", 100.0 * row.load),
            format!("{:.2} s", row.cpu_s),
            bytes(row.bytes),
            if row.sha256_equal { "yes".into() } else { "no".into() },
        ]
    })
}

/// Plays all rounds of a scheme, with a coordinator and members of its own.
async fn cost(args: &CodedArgs, scheme: Scheme, noise: &Arc<Vec<f32>>) -> Result<Cost, CliError> {
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let database = database_of(None, folder.path());
    let options = Options { checkins_per_second: Some(CHECKINS_PER_SECOND), ..Options::default() };
    let coordinator = CoordinatorProcess::start_with(&database, &operator_token()?, options).await?;
    let population = population_name()?;
    let token = coordinator.population(&population).await?;
    let (mut members, ended) = (JoinSet::new(), CancellationToken::new());
    for place in 0..args.members {
        let client = client(&coordinator, &token, scheme)?;
        client.enrol().await?;
        let mut member = Member::new(args, scheme, place, Arc::clone(noise), ended.clone());
        let ended = ended.clone();
        members.spawn(async move { client.run(&mut member, &AlwaysOn, ended.cancelled()).await });
    }
    let played = played(&coordinator, args, job_file(args, scheme, &population)?).await;
    // The thread of a member that trains is free once the member stops.
    ended.cancel();
    members.shutdown().await;
    played
}

fn client(coordinator: &CoordinatorProcess, token: &Secret, scheme: Scheme) -> Result<Client, CliError> {
    let builder = Client::builder(coordinator.url.as_str(), &*token.expose()).store(Arc::new(MemoryStore::new()));
    let listens = scheme == Scheme::Ring;
    let builder = if listens { builder.listen("127.0.0.1:0", None) } else { builder };
    Ok(builder.build()?)
}

async fn played(coordinator: &CoordinatorProcess, args: &CodedArgs, file: JobFile) -> Result<Cost, CliError> {
    let api = &coordinator.api;
    let job = api.create_job(file).await?.head.id;
    for round in 1..=WARM_UP_ROUNDS {
        committed(coordinator, job, round).await?;
    }
    let began_s = coordinator.cpu_s()?;
    for round in 1..=args.rounds {
        committed(coordinator, job, WARM_UP_ROUNDS + round).await?;
    }
    let cpu_s = (coordinator.cpu_s()? - began_s) / f64::from(args.rounds);
    let mut rounds = collect(None, async |page| api.rounds(job, Task::Train, page).await).await?.items;
    rounds.retain(|round| round.phase == Phase::Committed);
    rounds.sort_by_key(|round| round.number);
    let times = times(&rounds).ok_or_else(|| BenchError::Start("its rounds have no times".into()))?;
    let versions = collect(None, async |page| api.model_versions(job, page).await).await?.items;
    let last = versions.iter().max_by_key(|version| version.version);
    let sha256 = last.ok_or_else(|| BenchError::Start("it made no model".into()))?.sha256;
    Ok(Cost { times, cpu_s, sha256 })
}

/// Waits until so many rounds are committed.
pub(crate) async fn committed(coordinator: &CoordinatorProcess, job: JobId, rounds: u32) -> Result<(), CliError> {
    let clock = Stopwatch::start();
    while clock.elapsed().as_secs() < ROUND_S_MAX {
        if coordinator.api.job(job).await?.head.rounds_committed >= rounds {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(BenchError::TooSlow { what: "the commit of a round", limit_s: ROUND_S_MAX }.into())
}

/// The means over committed rounds, in their order, without those of the warm-up.
fn times(rounds: &[Round]) -> Option<Times> {
    let (first, measured) = rounds.split_at_checked(WARM_UP_ROUNDS as usize)?;
    let iterations_ms: Option<i64> =
        measured.iter().map(|round| Some(round.ended_at_ms? - round.selected_at_ms?)).sum();
    let all_ms = measured.last()?.ended_at_ms? - first.last()?.ended_at_ms?;
    let bytes: u64 = measured.iter().map(|round| round.traffic.bytes_up + round.traffic.bytes_down).sum();
    let each_s = |ms: i64| ms as f64 / 1e3 / measured.len() as f64;
    Some(Times { iteration_s: each_s(iterations_ms?), cycle_s: each_s(all_ms), bytes: bytes / measured.len() as u64 })
}

/// A client whose training takes a given time for each part.
struct Member {
    /// Its part where a job names none.
    own: usize,
    /// The parts that it holds by name.
    named: BTreeMap<Name, usize>,
    /// The time of a part.
    work: Duration,
    /// What all updates are made of.
    noise: Arc<Vec<f32>>,
    /// Whether the benchmark needs it no more.
    ended: CancellationToken,
}

impl Member {
    fn new(args: &CodedArgs, scheme: Scheme, place: u16, noise: Arc<Vec<f32>>, ended: CancellationToken) -> Self {
        let load = args.stragglers + 1;
        let block = place / load * load;
        let named = match scheme {
            Scheme::Coded => (block..block + load).map(|part| (part_name(part), usize::from(part))).collect(),
            Scheme::Star | Scheme::OverSelected | Scheme::Ring => BTreeMap::new(),
        };
        let times = if place < args.slow.members { args.slow.times } else { 1 };
        let work = Duration::from_millis(args.compute_ms * u64::from(times));
        Self { own: place.into(), named, work, noise, ended }
    }

    /// The model after training on a part: each part adds the same values in another order.
    fn learned(&self, model: &[f32], part: usize) -> Vec<f32> {
        let (end, begin) = self.noise.split_at(part % self.noise.len());
        model.iter().zip(begin.iter().chain(end)).map(|(value, change)| value + change).collect()
    }
}

impl Trainer for Member {
    fn examples(&self) -> u64 {
        u64::from(self.named.is_empty())
    }

    fn sets(&self) -> ExampleSets {
        let sets: BTreeMap<_, _> = self.named.keys().map(|name| (name.clone(), ExampleSet::of(1))).collect();
        sets.try_into().expect("a member of a code holds at most 32 parts")
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let part = match task.data {
            Some(name) => *self.named.get(name).ok_or(TrainError::NoExamples)?,
            None => self.own,
        };
        let clock = Stopwatch::start();
        while let Some(left) = self.work.checked_sub(clock.elapsed()) {
            if self.ended.is_cancelled() || should_stop() {
                return Err(TrainError::Interrupted);
            }
            std::thread::sleep(left.min(STEP));
        }
        Ok(Trained::new(self.learned(task.model.values(), part), 1, 1, 0.5))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

fn noise(parameters: u32) -> Vec<f32> {
    let mut stream = SEED.stream();
    (0..parameters).map(|_| stream.uniform(-MAGNITUDE, MAGNITUDE)).collect()
}

fn part_name(part: u16) -> Name {
    format!("part-{part}").parse().expect("letters, digits and a dash make a name")
}

fn job_file(args: &CodedArgs, scheme: Scheme, population: &Name) -> Result<JobFile, CliError> {
    let CodedArgs { members, stragglers, parameters, .. } = args;
    let (rounds, round_ms) = (args.rounds + WARM_UP_ROUNDS, 1000 * ROUND_S_MAX);
    let goal = |goal: u16| {
        let over_selection = f64::from(*members) / f64::from(goal);
        format!("updates_goal = {goal}, updates_min = {goal}, over_selection = {over_selection:?}, ")
    };
    let (counts, table) = match scheme {
        Scheme::Star => (goal(*members), String::new()),
        Scheme::OverSelected => (goal(members - stragglers), String::new()),
        Scheme::Ring => (goal(*members), "group = { topology = { kind = 'ring' } }".to_owned()),
        Scheme::Coded => {
            let parts: Vec<String> = (0..*members).map(|part| format!("'{}'", part_name(part))).collect();
            let parts = parts.join(", ");
            (String::new(), format!("coded = {{ parts = [{parts}], stragglers = {stragglers}, code = 'fractional' }}"))
        }
    };
    fleet::job_file(&format!(
        "name = 'coded'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [{parameters}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         update = {{ codec = 'f32' }}\n\
         round = {{ {counts}selection_timeout_ms = {round_ms}, deadline_ms = {round_ms} }}\n\
         stop = {{ rounds = {rounds} }}\n{table}\n"
    ))
}

fn parse_slow(text: &str) -> Result<Slow, String> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|number| (1..=1000).contains(number));
    let slow = text.split_once('x').and_then(|(members, times)| Some((number(members)?, number(times)?)));
    let (members, times) = slow.ok_or("members and how many times as long they take, such as 1x10")?;
    Ok(Slow { members, times })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tributary_protocol::job_file::Coded;
    use tributary_protocol::layers::ModelSpec;
    use tributary_protocol::model::Model;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: CodedArgs,
    }

    fn parsed(arguments: &[&str]) -> CodedArgs {
        CommandLine::parse_from(["coded"].iter().chain(arguments)).args
    }

    fn member(args: &CodedArgs, scheme: Scheme, place: u16) -> Member {
        Member::new(args, scheme, place, Arc::new(noise(args.parameters)), CancellationToken::new())
    }

    #[test]
    fn slow_members_are_a_count_and_a_factor() {
        assert_eq!(parse_slow("1x10"), Ok(Slow { members: 1, times: 10 }));
        assert_eq!(parse_slow("12x1"), Ok(Slow { members: 12, times: 1 }));
        for text in ["", "1", "x10", "1x", "0x10", "1x0", "1x-1", "1x1.5", "1x2x3", "1x1001"] {
            parse_slow(text).unwrap_err();
        }
    }

    #[test]
    fn every_scheme_has_a_valid_job_that_draws_all_members() {
        for (members, stragglers) in [(12, 1), (12, 2), (12, 5), (64, 7), (2, 1)] {
            let args = CodedArgs { members, stragglers, ..parsed(&[]) };
            check(&args).unwrap();
            for scheme in Scheme::ALL {
                let file = job_file(&args, scheme, &population_name().unwrap()).unwrap();
                let drawn = file.coded.as_ref().map_or(file.round.cohort_size(), Coded::clients);
                assert_eq!(drawn, u32::from(members), "{scheme:?}");
            }
        }
        for wrong in [&["--members", "13"][..], &["--members", "2", "--stragglers", "2"], &["--slow", "13x2"]] {
            check(&parsed(wrong)).unwrap_err();
        }
        check(&parsed(&["--compute-ms", "600000"])).unwrap_err();
    }

    #[test]
    fn holders_of_a_block_have_its_parts_and_the_first_members_are_slow() {
        let args = parsed(&["--members", "6", "--stragglers", "2", "--slow", "2x10", "--compute-ms", "7"]);
        let parts = |place| member(&args, Scheme::Coded, place).named.into_values().collect::<Vec<_>>();
        assert_eq!(
            (parts(0), parts(2), parts(3), parts(5)),
            (vec![0, 1, 2], vec![0, 1, 2], vec![3, 4, 5], vec![3, 4, 5])
        );
        let work_ms: Vec<_> = (0..4).map(|place| member(&args, Scheme::Star, place).work.as_millis()).collect();
        assert_eq!(work_ms, [70, 70, 7, 7]);
    }

    /// Goal: all holders of a part make the same update of it. A member stops when its round is closed.
    #[test]
    fn an_update_depends_on_the_part_alone() {
        let args = parsed(&["--parameters", "5", "--compute-ms", "1", "--slow", "1x1"]);
        let file = job_file(&args, Scheme::Coded, &population_name().unwrap()).unwrap();
        let ModelSpec::Parameters(_) = &file.model.spec else { panic!("{:?}", file.model.spec) };
        let model = Model::new(Arc::new(file.model.spec.parameters().unwrap()), vec![0.0; 5]).unwrap();
        let task = TrainTask::new(&model, &file.model.spec, &file.training, Seed(1));
        let (name, mut coded) = (part_name(1), task);
        coded.data = Some(&name);
        let star = member(&args, Scheme::Star, 1).train(&task, &|| false).unwrap();
        for place in [0, 1] {
            assert_eq!(member(&args, Scheme::Coded, place).train(&coded, &|| false).unwrap(), star);
        }
        assert_ne!(member(&args, Scheme::Star, 0).train(&task, &|| false).unwrap(), star);
        assert_eq!(member(&args, Scheme::Coded, 2).train(&coded, &|| false), Err(TrainError::NoExamples));
        let slow = CodedArgs { compute_ms: 600_000, ..args };
        assert_eq!(member(&slow, Scheme::Star, 0).train(&task, &|| true), Err(TrainError::Interrupted));
    }
}
