//! The time of a round while some members are slow: coded rounds beside others that train on the same parts of the
//! data.
//!
//! | scheme | what a member trains on | when a round ends |
//! |---|---|---|
//! | star | its part | all members have answered |
//! | star, over-selected | its part | all but the stragglers have answered: their parts are not in the model |
//! | coded | the s + 1 parts of its block | each block has an answer |
//! | coded tree | its (s + 1)^2 of the parts, which are smaller | all but s relays have answered |
//! | ring | its part | all members have added up among themselves |
//!
//! | file | content |
//! |---|---|
//! | [`args`] | what is played |
//! | [`scheme`] | which member trains on what, and the job of a scheme |
//! | [`member`] | a client whose training takes a given time |
//!
//! Members are clients of the SDK in this process; the coordinator is a process, and so is each relay of the tree.
//! Training waits for a time per part and computes next to nothing. An update depends on the model and the part alone,
//! so the last model shows whether all parts are in it.

mod args;
mod member;
mod scheme;

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use serde::Serialize;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tributary_client::{AlwaysOn, Client, MemoryStore};
use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{JobId, Name, Secret};
use tributary_protocol::operator::Round;
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::state::{Phase, Task};

use crate::error::BenchError;
use crate::process::{CoordinatorProcess, Options, database_of, operator_token, population_name};
use crate::relays::{RelayProcess, relay_token};
use args::{ROUND_S_MAX, WARM_UP_ROUNDS};
use member::{Member, mean_changes, noise};
use scheme::{Scheme, job_file};
use tributary::api::collect;
use tributary::error::CliError;
use tributary::format::bytes;
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

pub(crate) use args::CodedArgs;

/// Longest work of a member in a round, in milliseconds: members of a ring wait for each other for 0.6 of a round.
const WORK_MS_MAX: u64 = 1_800_000;
/// How far a decoded model may be from that of all parts.
const ROUNDING_MAX: f64 = 1e-4;
/// How often the benchmark looks whether a round has ended. Each look takes processor time of the coordinator.
const LOOK: Duration = Duration::from_millis(200);
/// A coordinator that admits so many check-ins never lets a client pause between two of them.
const CHECKINS_PER_SECOND: u32 = 2_000;

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
    /// Processor time of the coordinator, and of the relays of a tree.
    cpu_s: f64,
    /// To and from the coordinator. What members of a ring send each other, and clients their relays, is not in it.
    bytes: u64,
    /// Whether the last model has the updates of all parts: that of the star bit for bit, in a coded tree up to
    /// rounding.
    has_all_parts: bool,
}

/// What rounds of a scheme cost, each.
struct Cost {
    times: Times,
    cpu_s: f64,
    /// Of the last model.
    sha256: Sha256Hash,
    /// In a coded tree: how far that is from the first model with the mean of all parts in each round, relative to
    /// what one round changes at most.
    apart: Option<f64>,
}

/// What the coordinator says of rounds, each.
struct Times {
    iteration_s: f64,
    cycle_s: f64,
    bytes: u64,
}

pub(crate) async fn run(args: &CodedArgs, output: &Output) -> Result<(), CliError> {
    check(args)?;
    let noise = Arc::new(noise(args.parameters));
    let (mut rows, mut star) = (Vec::new(), None);
    for scheme in Scheme::all(args) {
        output.note(scheme.as_str());
        let Cost { times, cpu_s, sha256, apart } = cost(args, scheme, &noise).await?;
        let is_star = *star.get_or_insert(sha256) == sha256;
        let measured = Measured {
            scheme: scheme.as_str(),
            iteration_s: times.iteration_s,
            cycle_s: times.cycle_s,
            load: scheme.load(args),
            cpu_s,
            bytes: times.bytes,
            has_all_parts: is_star || apart.is_some_and(|apart| apart < ROUNDING_MAX),
        };
        // Programs need not wait for the last row.
        match output.json {
            true => print(&[measured], output)?,
            false => rows.push(measured),
        }
    }
    if Scheme::all(args).all(|scheme| scheme != Scheme::Tree) {
        output.note("no coded tree has so many members, or its relays have no code, so it is left out");
    }
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
    let load = Scheme::all(args).map(|scheme| scheme.load(args)).fold(0.0, f64::max);
    let work_ms = (load * (compute_ms * u64::from(slow.times) * u64::from(members)) as f64) as u64;
    if work_ms > WORK_MS_MAX {
        let detail =
            format!("a slow member would work for {work_ms} ms in a coded round: at most {WORK_MS_MAX} are possible");
        return Err(CliError::BadSetting(detail));
    }
    for scheme in Scheme::all(args) {
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
            if row.has_all_parts { "yes".into() } else { "no".into() },
        ]
    })
}

/// The processes of a scheme.
struct Site {
    coordinator: CoordinatorProcess,
    relays: Vec<RelayProcess>,
    population: Name,
    /// The enrolment token of clients of the coordinator.
    token: Secret,
    _folder: TempDir,
}

impl Site {
    async fn start(args: &CodedArgs, scheme: Scheme) -> Result<Self, CliError> {
        let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
        let database = database_of(None, folder.path());
        let options = Options { checkins_per_second: Some(CHECKINS_PER_SECOND), ..Options::default() };
        let coordinator = CoordinatorProcess::start_with(&database, &operator_token()?, options).await?;
        let population = population_name()?;
        let token = coordinator.population(&population).await?;
        let mut relays = Vec::new();
        if let Some(clients) = scheme.per_relay(args) {
            let token = relay_token(&coordinator, &population).await?;
            for number in 0..u32::from(args.members) / clients {
                relays.push(RelayProcess::start(&coordinator, &token, folder.path(), number).await?);
            }
        }
        Ok(Self { coordinator, relays, population, token, _folder: folder })
    }

    /// Where a member enrols, and with which token.
    fn entrance(&self, args: &CodedArgs, place: u16) -> (&Url, &Secret) {
        let relay = usize::from(place) * self.relays.len() / usize::from(args.members);
        match self.relays.get(relay) {
            Some(relay) => (&relay.url, &relay.enrolment),
            None => (&self.coordinator.url, &self.token),
        }
    }

    fn cpu_s(&self) -> Result<f64, CliError> {
        self.relays.iter().try_fold(self.coordinator.cpu_s()?, |sum, relay| Ok(sum + relay.cpu_s()?))
    }
}

/// Plays all rounds of a scheme, with a coordinator and members of its own.
async fn cost(args: &CodedArgs, scheme: Scheme, noise: &Arc<Vec<f32>>) -> Result<Cost, CliError> {
    let site = Site::start(args, scheme).await?;
    let (mut members, ended) = (JoinSet::new(), CancellationToken::new());
    for place in 0..args.members {
        let client = client(site.entrance(args, place), scheme)?;
        client.enrol().await?;
        let mut member = Member::new(args, scheme, place, Arc::clone(noise), ended.clone());
        let ended = ended.clone();
        members.spawn(async move { client.run(&mut member, &AlwaysOn, ended.cancelled()).await });
    }
    let played = played(&site, args, scheme, noise).await;
    // The thread of a member that trains is free once the member stops.
    ended.cancel();
    members.shutdown().await;
    played
}

fn client((url, token): (&Url, &Secret), scheme: Scheme) -> Result<Client, CliError> {
    let builder = Client::builder(url.as_str(), &*token.expose()).store(Arc::new(MemoryStore::new()));
    let listens = scheme == Scheme::Ring;
    let builder = if listens { builder.listen("127.0.0.1:0", None) } else { builder };
    Ok(builder.build()?)
}

async fn played(site: &Site, args: &CodedArgs, scheme: Scheme, noise: &[f32]) -> Result<Cost, CliError> {
    let (coordinator, api) = (&site.coordinator, &site.coordinator.api);
    let job = api.create_job(job_file(args, scheme, &site.population)?).await?.head.id;
    for round in 1..=WARM_UP_ROUNDS {
        committed(coordinator, job, round).await?;
    }
    let began_s = site.cpu_s()?;
    for round in 1..=args.rounds {
        committed(coordinator, job, WARM_UP_ROUNDS + round).await?;
    }
    let cpu_s = (site.cpu_s()? - began_s) / f64::from(args.rounds);
    let mut rounds = collect(None, async |page| api.rounds(job, Task::Train, page).await).await?.items;
    rounds.retain(|round| round.phase == Phase::Committed);
    rounds.sort_by_key(|round| round.number);
    let times = times(&rounds).ok_or_else(|| BenchError::Start("its rounds have no times".into()))?;
    let versions = collect(None, async |page| api.model_versions(job, page).await).await?.items;
    let last = versions.iter().max_by_key(|version| version.version);
    let last = last.ok_or_else(|| BenchError::Start("it made no model".into()))?;
    let apart = match scheme {
        Scheme::Tree => {
            let [first, made] = [values(coordinator, job, 0).await?, values(coordinator, job, last.version).await?];
            Some(apart((&first, &made), last.version, &mean_changes(noise, scheme.parts(args))))
        }
        Scheme::Star | Scheme::OverSelected | Scheme::Coded | Scheme::Ring => None,
    };
    Ok(Cost { times, cpu_s, sha256: last.sha256, apart })
}

/// The values of a version.
async fn values(coordinator: &CoordinatorProcess, job: JobId, version: u32) -> Result<Vec<f32>, CliError> {
    let file = coordinator.api.model(job, version, ModelForm::F32).await?.bytes().await;
    let file = file.map_err(|error| BenchError::Connection(error.to_string()))?;
    let model = model_from_bytes(&file).map_err(|error| BenchError::Start(format!("its model: {error}")))?;
    Ok(model.into_values())
}

/// How far a model is from the first one with `rounds` such changes, relative to the largest change of a round.
fn apart((first, made): (&[f32], &[f32]), rounds: u32, changes: &[f64]) -> f64 {
    let apart = |((first, made), change): ((&f32, &f32), &f64)| {
        (f64::from(*made) - f64::from(*first) - f64::from(rounds) * change).abs()
    };
    let apart = first.iter().zip(made).zip(changes).map(apart).fold(0.0, f64::max);
    apart / changes.iter().fold(0.0, |largest, change| change.abs().max(largest))
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

#[cfg(test)]
mod tests {
    use tributary_protocol::job_file::Coded;

    use super::args::parsed;
    use super::*;

    #[test]
    fn every_scheme_has_a_valid_job_that_draws_all_members() {
        for (members, stragglers) in [(12, 1), (12, 2), (12, 5), (64, 7), (2, 1)] {
            let args = CodedArgs { members, stragglers, ..parsed(&[]) };
            check(&args).unwrap();
            for scheme in Scheme::all(&args) {
                let file = job_file(&args, scheme, &population_name().unwrap()).unwrap();
                let drawn = file.coded.as_ref().map_or(file.round.cohort_size(), Coded::clients);
                let relays = scheme.per_relay(&args).map(|clients| u32::from(members) / clients);
                assert_eq!(drawn, relays.unwrap_or(members.into()), "{scheme:?}");
            }
        }
        let has_tree = |members, stragglers| {
            Scheme::all(&CodedArgs { members, stragglers, ..parsed(&[]) }).any(|scheme| scheme == Scheme::Tree)
        };
        assert_eq!(
            [(12, 1), (12, 3), (20, 1), (13, 1)].map(|(members, out)| has_tree(members, out)),
            [true, false, true, false]
        );
        for wrong in [&["--members", "13"][..], &["--members", "2", "--stragglers", "2"], &["--slow", "13x2"]] {
            check(&parsed(wrong)).unwrap_err();
        }
        check(&parsed(&["--compute-ms", "600000"])).unwrap_err();
    }
}
