//! The accuracy of private jobs of a simulated fleet beside that of the same job without noise.
//!
//! The decisions, sums and noise are those of the engine, the updates those of the SDK's trainer, in simulated time.
//! The keys of the noise follow from the seed, so that figures can be repeated.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tributary::data::partition::Partition;
use tributary::demo::args::Network;
use tributary::demo::data::DemoData;
use tributary::error::CliError;
use tributary::options::parse_codec;
use tributary::output::Output;
use tributary_engine::job::JobSpec;
use tributary_engine::privacy::{BudgetError, resolve};
use tributary_engine::story::{course, explained};
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::{
    Combine, JobFile, Mechanism, Privacy, RoundPolicy, SecureAggregation, Selection, StopPolicy,
};
use tributary_protocol::seed::Seed;
use tributary_protocol::update::Codec;
use tributary_simulation::{Fleet, Simulation};

use super::row::Row;
use crate::error::BenchError;
use crate::simulated::{Split, failed};

/// Time of a client for its work; the slowest regular ones take about a third of it.
const DEADLINE_MS: u64 = 1_800_000;
/// Versions between two updates of a client, as a share of those after which all others have taken part: slow and lost
/// clients leave rounds short otherwise.
const SEPARATION_SHARE: f64 = 0.7;

#[derive(Clone, Debug, Args)]
pub(super) struct FleetArgs {
    /// An epsilon to keep. May be repeated [default: 1, 2 and 8].
    #[arg(long = "epsilon", value_name = "NUMBER")]
    epsilons: Vec<f64>,
    /// How noise is added. May be repeated [default: blt and gaussian].
    #[arg(long = "mechanism", value_enum, value_name = "MECHANISM")]
    mechanisms: Vec<Noise>,
    /// The norm to which updates are clipped [default: one that follows them].
    #[arg(long, value_name = "NORM")]
    clip: Option<f64>,
    /// Delta of the promise.
    #[arg(long, default_value_t = 1e-5, value_name = "NUMBER")]
    delta: f64,
    /// Clients of the fleet, with as many examples each.
    #[arg(long, default_value_t = 1000, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    clients: u32,
    /// Updates of a round.
    #[arg(long, default_value_t = 100, value_name = "UPDATES", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    updates: u32,
    /// The codec of updates: a name, or a JSON object with its settings.
    #[arg(long, default_value = "f32", value_name = "CODEC", value_parser = parse_codec)]
    codec: Codec,
    /// Rounds of a job.
    #[arg(long, default_value_t = 60, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Folder of MNIST's four IDX files; missing files are downloaded into it. Without it, the embedded digits are
    /// learned.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The network: noise is added to each of its parameters, so that fewer of them keep more of what is learned.
    #[arg(long, value_enum, default_value_t = Network::Mlp)]
    model: Network,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Noise {
    /// Correlated from version to version.
    Blt,
    /// Independent.
    Gaussian,
    /// Independent, added by the clients of masked groups of at most 128, against the coordinator too.
    Distributed,
    /// Independent, and each client is drawn by a secret coin, on which the promise counts.
    Poisson,
}

impl Noise {
    fn mechanism(self) -> Mechanism {
        match self {
            Self::Blt => Mechanism::Blt,
            Self::Gaussian | Self::Poisson => Mechanism::Gaussian,
            Self::Distributed => Mechanism::Distributed,
        }
    }
}

pub(super) async fn run(args: &FleetArgs, seed: Seed, output: &Output) -> Result<(), CliError> {
    let (file, data) = split(args, seed).load(args.data_dir.as_deref(), output).await?;
    let epsilons = if args.epsilons.is_empty() { vec![1.0, 2.0, 8.0] } else { args.epsilons.clone() };
    let noises = if args.mechanisms.is_empty() { vec![Noise::Blt, Noise::Gaussian] } else { args.mechanisms.clone() };
    let private = |epsilon: &f64| noises.iter().map(|noise| Some((*noise, *epsilon))).collect::<Vec<_>>();
    for promise in std::iter::once(None).chain(epsilons.iter().flat_map(private)) {
        let (args, file, data) = (args.clone(), file.clone(), data.clone());
        // The computation takes minutes and would block other tasks.
        let row = tokio::task::spawn_blocking(move || measure(&args, seed, promise, &file, &data));
        let row = row.await.map_err(CliError::task)??;
        output.object(&row, || row.text())?;
    }
    Ok(())
}

fn measure(
    args: &FleetArgs,
    seed: Seed,
    promise: Option<(Noise, f64)>,
    file: &JobFile,
    data: &DemoData,
) -> Result<Row, BenchError> {
    let mut file = job(args, file);
    if let Some((noise, epsilon)) = promise {
        file = private(args, file, noise, epsilon)?;
    }
    let spec = JobSpec::new(JobId::from_random([1; 16]), file).map_err(failed)?;
    let privacy = explained(&spec, Vec::new(), None);
    let spent = course(&spec).map_err(failed)?.pop().map(|last| last.epsilon);
    let fleet = Fleet::draw(args.clients, seed);
    let mut simulation = Simulation::new(spec, fleet, split(args, seed).learner(data)?, args.rounds)?;
    let mut progress = simulation.progress();
    while let Some(next) = simulation.next_version()? {
        progress = next;
    }
    let noise = promise.map(|(noise, _)| noise);
    Ok(Row {
        attack: "fleet",
        mechanism: noise.map_or("none", |noise| noise.mechanism().as_str()),
        sampling: (noise == Some(Noise::Poisson)).then_some("poisson"),
        clip: noise.and(args.clip),
        epsilon: spent.map(|spent| spent.models),
        epsilon_known_cohort: spent.map(|spent| spent.cohorts),
        delta: Some(args.delta),
        noise_multiplier: privacy.as_ref().and_then(|privacy| privacy.terms.noise_multiplier),
        noise_ratio: privacy.map(|privacy| privacy.noise_ratio),
        rounds: Some(progress.version),
        bytes: progress.bytes.checked_div(progress.updates),
        accuracy: Some(progress.accuracy),
        seed: seed.0,
        ..Row::default()
    })
}

/// The job of all rows: rounds with as many updates, all of which count alike.
fn job(args: &FleetArgs, file: &JobFile) -> JobFile {
    let mut file = file.clone();
    file.round = RoundPolicy {
        updates_goal: args.updates,
        updates_min: args.updates.div_ceil(2),
        over_selection: 1.0,
        deadline_ms: DEADLINE_MS,
        ..RoundPolicy::default()
    };
    file.aggregation.combine = Combine::UniformMean;
    file.update.codec = args.codec;
    file.evaluation = None;
    file.stop = StopPolicy { rounds: Some(args.rounds), ..StopPolicy::default() };
    file
}

/// The same job with a budget, and what follows from it.
fn private(args: &FleetArgs, mut file: JobFile, noise: Noise, epsilon: f64) -> Result<JobFile, BenchError> {
    file.privacy = Some(privacy(args, noise, epsilon)?);
    if noise == Noise::Distributed {
        file.update.codec = Codec::default();
        file.secure_aggregation = Some(SecureAggregation::default());
    }
    if noise == Noise::Poisson {
        let rate = f64::from(args.updates) / f64::from(args.clients);
        file.round.selection = Selection::Poisson { rate };
        file.round.available_min = args.clients;
        // A draw may take a few more clients than are expected.
        if let Err(BudgetError::Overdrawn { needed, .. }) = resolve(&mut file) {
            file.round.updates_goal = needed;
        }
    }
    file.check().map_err(failed)?;
    resolve(&mut file).map_err(failed)?;
    Ok(file)
}

/// A budget for clients that take part as often as the rounds need.
fn privacy(args: &FleetArgs, noise: Noise, epsilon: f64) -> Result<Privacy, BenchError> {
    let turn = f64::from(args.clients) / f64::from(args.updates);
    let separation = match noise {
        Noise::Blt | Noise::Gaussian | Noise::Distributed => ((turn * SEPARATION_SHARE) as u32).max(1),
        // A coin may draw a client again at once.
        Noise::Poisson => 1,
    };
    let times = args.rounds.div_ceil(separation);
    let mut settings = serde_json::json!({
        "epsilon": epsilon,
        "delta": args.delta,
        "mechanism": noise.mechanism(),
        "participations_max": times,
        "separation": separation,
    });
    if noise == Noise::Poisson {
        settings["sampling"] = "poisson".into();
    }
    if let Some(clip) = args.clip {
        settings["clip"] = clip.into();
    }
    serde_json::from_value(settings).map_err(failed)
}

/// The fleet: each client has examples of all labels.
fn split(args: &FleetArgs, seed: Seed) -> Split {
    Split { clients: args.clients, partition: Partition::Iid, network: args.model, seed: seed.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary::demo::args::DemoArgs;
    use tributary::demo::job_file;

    fn args() -> FleetArgs {
        FleetArgs {
            epsilons: vec![],
            mechanisms: vec![],
            clip: None,
            delta: 1e-3,
            clients: 60,
            updates: 20,
            rounds: 12,
            codec: Codec::F32,
            data_dir: None,
            model: Network::Mlp,
        }
    }

    #[test]
    fn clients_take_part_as_often_as_the_rounds_need() {
        let args = args();
        let demo = DemoArgs { codec: Some(Codec::F32), ..DemoArgs::default() };
        let mut file = job(&args, &job_file(&demo).unwrap());
        // Three rounds take every client once, and seven tenths of that are two.
        let privacy = privacy(&args, Noise::Blt, 4.0).unwrap();
        assert_eq!((privacy.separation, privacy.participations_max), (Some(2), 6));
        file.privacy = Some(privacy);
        file.check().unwrap();
        resolve(&mut file).unwrap();
        assert_eq!(file.privacy.unwrap().releases_max, Some(12));
    }

    /// Goal: coins draw all of a fleet, and the budget is kept. Method: a job of few rounds, played to its end.
    #[test]
    fn a_job_whose_promise_counts_on_coins_is_played() {
        let args = FleetArgs { clip: Some(0.5), delta: 1e-4, rounds: 2, ..args() };
        let demo = DemoArgs { codec: Some(Codec::F32), ..DemoArgs::default() };
        let seed = Seed(7);
        let data = tributary::demo::data::digits(&[64], seed);
        let row = measure(&args, seed, Some((Noise::Poisson, 4.0)), &job_file(&demo).unwrap(), &data).unwrap();
        assert_eq!(
            (row.mechanism, row.sampling, row.clip, row.rounds),
            ("gaussian", Some("poisson"), Some(0.5), Some(2))
        );
        let (epsilon, known) = (row.epsilon.unwrap(), row.epsilon_known_cohort.unwrap());
        assert!(epsilon <= 4.0 && epsilon < known, "{row:?}");
    }
}
