//! Time to an accuracy with clients of different speeds: the rules of rounds in simulated time, and real training.
//!
//! The fleet is made up: log-normal speeds, a tenth of the clients ten times slower, one piece of work in twenty dies
//! with its client. The decisions are those of the coordinator's engine, the updates those of the SDK's trainer.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tributary::data::partition::Partition;
use tributary::demo::args::Network;
use tributary::demo::data::DemoData;
use tributary::error::CliError;
use tributary::format::{bytes, or_dash, percent};
use tributary::output::Output;
use tributary_engine::job::JobSpec;
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::{
    Adapt, AdaptiveClip, Combine, Divisor, JobFile, Mode, NormClipping, RoundPolicy, StalenessWeight, StopPolicy,
};
use tributary_protocol::plan::{AdaptiveMu, Algorithm};
use tributary_protocol::seed::Seed;
use tributary_simulation::{Fleet, Simulation};

use crate::error::BenchError;
use crate::simulated::{Split, failed};

/// Shards of one label that each client has.
const SHARDS: u32 = 2;
/// Time of a client for its work; the slowest regular ones take about a third of it.
const DEADLINE_MS: u64 = 1_800_000;
/// Clients drawn per update of the goal in the mode that is named after it.
const OVER_SELECTION: f64 = 1.3;
/// Largest staleness in the buffered modes: that of a slow client while one update makes a version.
const STALENESS_MAX: u32 = 1_000;
/// How far a member may be ahead of the slowest when it begins.
const SLACK: u32 = 3;

#[derive(Clone, Debug, Args)]
pub(crate) struct TempoArgs {
    /// A mode to play. May be repeated [default: all].
    #[arg(long = "mode", value_enum, value_name = "MODE")]
    modes: Vec<Tempo>,
    /// Clients of the fleet.
    #[arg(long, default_value_t = 100, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(2..=600))]
    clients: u32,
    /// Clients at work at a time; the goal of a synchronous round.
    #[arg(long, default_value_t = 20, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=600))]
    at_work: u32,
    /// Updates of a buffer in the mode `buffered`.
    #[arg(long, default_value_t = 10, value_name = "UPDATES", value_parser = clap::value_parser!(u32).range(1..=600))]
    buffer: u32,
    /// Folder of MNIST's four IDX files; missing files are downloaded into it. Without it, the embedded digits are
    /// learned.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The accuracy to reach, from 0 to 1.
    #[arg(long, default_value_t = 0.9, value_name = "ACCURACY")]
    target: f64,
    /// A mode gives up after this many updates.
    #[arg(long, default_value_t = 20_000, value_name = "UPDATES", value_parser = clap::value_parser!(u32).range(1..))]
    updates: u32,
    /// The seed of every random choice.
    #[arg(long, default_value_t = 7, value_name = "NUMBER")]
    seed: u64,
    /// Deadlines, and the cohorts of rounds, follow the measured times.
    #[arg(long)]
    adapt: bool,
    /// Trains with FedProx, beginning with this weight, which adapts in rounds with cohorts.
    #[arg(long, value_name = "MU")]
    mu: Option<f64>,
    /// Clips updates, beginning with this norm, which follows the median.
    #[arg(long, value_name = "NORM")]
    clip: Option<f64>,
}

/// When updates meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
enum Tempo {
    /// Rounds that wait for every client of their cohort, until the deadline.
    Synchronous,
    /// Rounds that draw 1.3 clients per update that they want.
    OverSelected,
    /// A full buffer makes a version.
    Buffered,
    /// Every update makes a version.
    Asynchronous,
    /// Members that wait for the slowest of them once they are three updates ahead.
    StaleSynchronous,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    mode: Tempo,
    /// Simulated time until a version had the accuracy; none if no version had it.
    hours_to_target: Option<f64>,
    /// Updates that counted until then.
    updates: u64,
    /// Their bytes as f32 files.
    bytes_up: u64,
    /// Of the last evaluated version.
    accuracy: f64,
    /// Mean number of versions that an update was behind.
    staleness_mean: f64,
}

pub(crate) async fn run(args: &TempoArgs, output: &Output) -> Result<(), CliError> {
    let (file, data) = split(args).load(args.data_dir.as_deref(), output).await?;
    let modes = if args.modes.is_empty() { Tempo::value_variants() } else { &args.modes };
    for mode in modes {
        let (args, file, data, mode) = (args.clone(), file.clone(), data.clone(), *mode);
        // The computation takes minutes and would block other tasks.
        let measured = tokio::task::spawn_blocking(move || measure(&args, mode, &file, &data));
        let measured = measured.await.map_err(CliError::task)??;
        output.object(&measured, || text(&measured))?;
    }
    Ok(())
}

fn measure(args: &TempoArgs, mode: Tempo, file: &JobFile, data: &DemoData) -> Result<Measured, BenchError> {
    let round = policy(args, mode);
    let file = changed(args, mode, JobFile { round, evaluation: None, stop: StopPolicy::default(), ..file.clone() });
    let spec = JobSpec::new(JobId::from_random([1; 16]), file).map_err(failed)?;
    // About one evaluation for each turn of the fleet.
    let evaluate_every = args.at_work / spec.file.round.goal();
    let fleet = Fleet::draw(args.clients, Seed(args.seed));
    let mut simulation = Simulation::new(spec, fleet, split(args).learner(data)?, evaluate_every)?;
    let (mut progress, mut reached) = (simulation.progress(), None);
    while reached.is_none() && progress.updates < u64::from(args.updates) {
        let Some(next) = simulation.next_version()? else { break };
        progress = next;
        reached = (progress.accuracy >= args.target).then_some(progress.now_ms);
    }
    Ok(Measured {
        mode,
        hours_to_target: reached.map(|at_ms| at_ms as f64 / 3_600_000.0),
        updates: progress.updates,
        bytes_up: progress.updates * simulation.spec().plain_bytes,
        accuracy: progress.accuracy,
        staleness_mean: progress.staleness as f64 / progress.updates.max(1) as f64,
    })
}

/// The job with what the options change. A weight that adapts needs rounds that end together.
fn changed(args: &TempoArgs, mode: Tempo, mut file: JobFile) -> JobFile {
    if let Some(mu) = args.mu {
        let has_cohorts = matches!(mode, Tempo::Synchronous | Tempo::OverSelected);
        file.training.algorithm = Algorithm::FedProx { mu, adaptive: has_cohorts.then(AdaptiveMu::default) };
    }
    if let Some(norm) = args.clip {
        let adaptive = Some(AdaptiveClip::default());
        file.aggregation.combine = Combine::NormClipping(NormClipping { norm, adaptive });
    }
    file
}

/// The fleet: each client has shards of two labels.
fn split(args: &TempoArgs) -> Split {
    let partition = Partition::Shards(SHARDS);
    Split { clients: args.clients, partition, network: Network::Mlp, seed: args.seed }
}

fn policy(args: &TempoArgs, mode: Tempo) -> RoundPolicy {
    let adapt = args.adapt.then(Adapt::default);
    let synchronous = |over_selection| RoundPolicy {
        adapt: adapt.clone(),
        updates_goal: args.at_work,
        updates_min: args.at_work.div_ceil(2),
        over_selection,
        deadline_ms: DEADLINE_MS,
        ..RoundPolicy::default()
    };
    let buffered = |buffer| RoundPolicy {
        mode: Mode::Buffered {
            buffer,
            concurrency: args.at_work,
            staleness_max: STALENESS_MAX,
            staleness_weight: StalenessWeight::default(),
            divisor: Divisor::Count,
            fetch_every: 1,
            push_every: 1,
            per_client: 1,
        },
        deadline_ms: DEADLINE_MS,
        adapt: adapt.clone(),
        ..RoundPolicy::default()
    };
    match mode {
        Tempo::Synchronous => synchronous(1.0),
        Tempo::OverSelected => synchronous(OVER_SELECTION),
        Tempo::Buffered => buffered(args.buffer),
        Tempo::Asynchronous => buffered(1),
        Tempo::StaleSynchronous => RoundPolicy {
            mode: Mode::StaleSynchronous { members: args.at_work, slack: SLACK },
            deadline_ms: DEADLINE_MS,
            ..RoundPolicy::default()
        },
    }
}

fn text(measured: &Measured) -> String {
    format!(
        "{:<17} to target {:>7} h  {:>6} updates  {:>9} up  accuracy {}  staleness {:.2}",
        measured.mode.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()),
        or_dash(measured.hours_to_target, |hours| format!("{hours:.2}")),
        measured.updates,
        bytes(measured.bytes_up),
        percent(measured.accuracy),
        measured.staleness_mean,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary::demo::args::DemoArgs;
    use tributary::demo::data::digits;
    use tributary::demo::job_file;
    use tributary_protocol::update::Codec;

    /// A small fleet that learns the embedded digits a little.
    fn small() -> TempoArgs {
        TempoArgs {
            modes: vec![],
            clients: 12,
            at_work: 6,
            buffer: 3,
            data_dir: None,
            target: 1.1,
            updates: 40,
            seed: 7,
            adapt: false,
            mu: None,
            clip: None,
        }
    }

    fn measured(args: &TempoArgs, mode: Tempo) -> Measured {
        let demo = DemoArgs { codec: Some(Codec::F32), ..DemoArgs::default() };
        measure(args, mode, &job_file(&demo).unwrap(), &digits(&[64], Seed(7))).unwrap()
    }

    #[test]
    fn each_mode_learns_and_only_buffers_have_stale_updates() {
        for mode in Tempo::value_variants() {
            let measured = measured(&small(), *mode);
            assert!(measured.updates >= 40 && measured.bytes_up > measured.updates * 4 * 64, "{measured:?}");
            assert!(measured.accuracy > 0.15 && measured.hours_to_target.is_none(), "{measured:?}");
            let is_synchronous = matches!(mode, Tempo::Synchronous | Tempo::OverSelected);
            // Whether members meet versions of each other depends on the few updates.
            if *mode != Tempo::StaleSynchronous {
                assert_eq!(measured.staleness_mean > 0.0, !is_synchronous, "{measured:?}");
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_figures_again() {
        let figures = |mode| serde_json::to_string(&measured(&small(), mode)).unwrap();
        assert_eq!(figures(Tempo::Buffered), figures(Tempo::Buffered));
    }

    /// Goal: what a job may adapt is played, and changes what is learned.
    #[test]
    fn adaptive_deadlines_the_proximal_weight_and_clipping_are_played() {
        let plain = measured(&small(), Tempo::OverSelected);
        for args in [TempoArgs { mu: Some(1.0), ..small() }, TempoArgs { clip: Some(0.1), ..small() }] {
            let changed = measured(&args, Tempo::OverSelected);
            assert!(changed.updates >= 40 && changed.accuracy != plain.accuracy, "{args:?}: {changed:?}");
        }
        let adapted = measured(&TempoArgs { adapt: true, updates: 120, ..small() }, Tempo::OverSelected);
        let fixed = measured(&TempoArgs { updates: 120, ..small() }, Tempo::OverSelected);
        assert_ne!((adapted.updates, adapted.bytes_up), (fixed.updates, fixed.bytes_up));
    }
}
