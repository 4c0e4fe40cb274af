//! What privacy costs: the accuracy of private jobs beside that of the same job without noise.
//!
//! The decisions, sums and noise are those of the engine, the updates those of the SDK's trainer, in simulated time.
//! The keys of the noise follow from the seed, so that figures can be repeated.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tributary::data::partition::Partition;
use tributary::demo::data::DemoData;
use tributary::error::CliError;
use tributary::format::percent;
use tributary::output::Output;
use tributary_engine::job::JobSpec;
use tributary_engine::privacy::resolve;
use tributary_engine::story::{course, explained};
use tributary_protocol::id::JobId;
use tributary_protocol::job_file::{Combine, JobFile, Mechanism, Privacy, RoundPolicy, StopPolicy};
use tributary_protocol::seed::Seed;
use tributary_simulation::{Fleet, Simulation};

use crate::error::BenchError;
use crate::simulated::{Split, failed};

/// Time of a client for its work; the slowest regular ones take about a third of it.
const DEADLINE_MS: u64 = 1_800_000;
/// Versions between two updates of a client, as a share of those after which all others have taken part: slow and lost
/// clients leave rounds short otherwise.
const SEPARATION_SHARE: f64 = 0.7;

#[derive(Clone, Debug, Args)]
pub(crate) struct PrivacyArgs {
    /// An epsilon to keep. May be repeated [default: 1, 2 and 8].
    #[arg(long = "epsilon", value_name = "NUMBER")]
    epsilons: Vec<f64>,
    /// Delta of the promise.
    #[arg(long, default_value_t = 1e-5, value_name = "NUMBER")]
    delta: f64,
    /// Clients of the fleet, with as many examples each.
    #[arg(long, default_value_t = 1000, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    clients: u32,
    /// Updates of a round.
    #[arg(long, default_value_t = 100, value_name = "UPDATES", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    updates: u32,
    /// Rounds of a job.
    #[arg(long, default_value_t = 60, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Folder of MNIST's four IDX files; missing files are downloaded into it. Without it, the embedded digits are
    /// learned.
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The seed of every random choice.
    #[arg(long, default_value_t = 7, value_name = "NUMBER")]
    seed: u64,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    /// `none` for the job without noise.
    mechanism: &'static str,
    /// Against who sees the models, and against who also knows the cohorts, after the last round.
    epsilon: Option<f64>,
    epsilon_known_cohort: Option<f64>,
    delta: f64,
    /// Standard deviation of the noise of a sum, in clips.
    noise_multiplier: Option<f64>,
    /// Noise in the last model, as a share of the longest way that it can have gone.
    noise_ratio: Option<f64>,
    rounds: u32,
    /// Of the last version, on the held-out examples.
    accuracy: f64,
    seed: u64,
}

pub(crate) async fn run(args: &PrivacyArgs, output: &Output) -> Result<(), CliError> {
    let (file, data) = split(args).load(args.data_dir.as_deref(), output).await?;
    let epsilons = if args.epsilons.is_empty() { vec![1.0, 2.0, 8.0] } else { args.epsilons.clone() };
    let private = |epsilon: &f64| [Mechanism::Blt, Mechanism::Gaussian].map(|mechanism| Some((mechanism, *epsilon)));
    for promise in std::iter::once(None).chain(epsilons.iter().flat_map(private)) {
        let (args, file, data) = (args.clone(), file.clone(), data.clone());
        // The computation takes minutes and would block other tasks.
        let measured = tokio::task::spawn_blocking(move || measure(&args, promise, &file, &data));
        let measured = measured.await.map_err(CliError::task)??;
        output.object(&measured, || text(&measured))?;
    }
    Ok(())
}

fn measure(
    args: &PrivacyArgs,
    promise: Option<(Mechanism, f64)>,
    file: &JobFile,
    data: &DemoData,
) -> Result<Measured, BenchError> {
    let mut file = job(args, file);
    if let Some((mechanism, epsilon)) = promise {
        file.privacy = Some(privacy(args, mechanism, epsilon)?);
        file.check().map_err(failed)?;
        resolve(&mut file).map_err(failed)?;
    }
    let spec = JobSpec::new(JobId::from_random([1; 16]), file).map_err(failed)?;
    let privacy = explained(&spec, Vec::new(), None);
    let spent = course(&spec).map_err(failed)?.pop().map(|last| last.epsilon);
    let fleet = Fleet::draw(args.clients, Seed(args.seed));
    let mut simulation = Simulation::new(spec, fleet, split(args).learner(data)?, args.rounds)?;
    let mut progress = simulation.progress();
    while let Some(next) = simulation.next_version()? {
        progress = next;
    }
    Ok(Measured {
        mechanism: promise.map_or("none", |(mechanism, _)| mechanism.as_str()),
        epsilon: spent.map(|spent| spent.models),
        epsilon_known_cohort: spent.map(|spent| spent.cohorts),
        delta: args.delta,
        noise_multiplier: privacy.as_ref().and_then(|privacy| privacy.terms.noise_multiplier),
        noise_ratio: privacy.map(|privacy| privacy.noise_ratio),
        rounds: progress.version,
        accuracy: progress.accuracy,
        seed: args.seed,
    })
}

/// The job of all rows: rounds with as many updates, all of which count alike.
fn job(args: &PrivacyArgs, file: &JobFile) -> JobFile {
    let mut file = file.clone();
    file.round = RoundPolicy {
        updates_goal: args.updates,
        updates_min: args.updates.div_ceil(2),
        over_selection: 1.0,
        deadline_ms: DEADLINE_MS,
        ..RoundPolicy::default()
    };
    file.aggregation.combine = Combine::UniformMean;
    file.evaluation = None;
    file.stop = StopPolicy { rounds: Some(args.rounds), ..StopPolicy::default() };
    file
}

/// A budget for clients that take part as often as the rounds need.
fn privacy(args: &PrivacyArgs, mechanism: Mechanism, epsilon: f64) -> Result<Privacy, BenchError> {
    let turn = f64::from(args.clients) / f64::from(args.updates);
    let separation = ((turn * SEPARATION_SHARE) as u32).max(1);
    let times = args.rounds.div_ceil(separation);
    let settings = serde_json::json!({
        "epsilon": epsilon,
        "delta": args.delta,
        "mechanism": mechanism,
        "participations_max": times,
        "separation": separation,
    });
    serde_json::from_value(settings).map_err(failed)
}

/// The fleet: each client has examples of all labels.
fn split(args: &PrivacyArgs) -> Split {
    Split { clients: args.clients, partition: Partition::Iid, seed: args.seed }
}

fn text(measured: &Measured) -> String {
    let Measured { mechanism, epsilon, noise_multiplier, noise_ratio, rounds, accuracy, .. } = measured;
    let promise = match (epsilon, noise_multiplier, noise_ratio) {
        (Some(epsilon), Some(noise), Some(ratio)) => {
            format!("epsilon {epsilon:.3}  noise {noise:.2} clips, {} of the way", percent(*ratio))
        }
        _ => "without noise".to_owned(),
    };
    format!("{mechanism:<9} accuracy {}  {rounds} rounds  {promise}", percent(*accuracy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary::demo::args::DemoArgs;
    use tributary::demo::job_file;
    use tributary_protocol::update::Codec;

    #[test]
    fn clients_take_part_as_often_as_the_rounds_need() {
        let args = PrivacyArgs {
            epsilons: vec![],
            delta: 1e-3,
            clients: 60,
            updates: 20,
            rounds: 12,
            data_dir: None,
            seed: 7,
        };
        let demo = DemoArgs { codec: Some(Codec::F32), ..DemoArgs::default() };
        let mut file = job(&args, &job_file(&demo).unwrap());
        // Three rounds take every client once, and seven tenths of that are two.
        let privacy = privacy(&args, Mechanism::Blt, 4.0).unwrap();
        assert_eq!((privacy.separation, privacy.participations_max), (Some(2), 6));
        file.privacy = Some(privacy);
        file.check().unwrap();
        resolve(&mut file).unwrap();
        assert_eq!(file.privacy.unwrap().releases_max, Some(12));
    }
}
