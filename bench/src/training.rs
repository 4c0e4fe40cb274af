//! The cost of a codec in learning: the same federated training on real digits, once per codec.
//!
//! Coordinator and clients run in this process and speak HTTP, as in the demo without faults. The cohorts, the order of
//! the examples and the initial model depend on the seed only, so that codecs are compared on the same clients.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tributary_protocol::operator::Round;
use tributary_protocol::update::Codec;

use tributary::data::partition::Partition;
use tributary::demo::args::{Dataset, DemoArgs, Network};
use tributary::demo::{Learned, learn};
use tributary::error::CliError;
use tributary::format::{bytes, or_dash, percent};
use tributary::options::parse_codec;
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// Last evaluated rounds whose mean accuracy is reported: a single round varies too much.
const LAST_ROUNDS: usize = 5;

#[derive(Clone, Debug, Args)]
pub(crate) struct TrainingArgs {
    /// A codec to train with: its name (`int8`), or a JSON object with its settings (`{"name":"qsgd","levels":16}`).
    /// May be repeated.
    #[arg(long = "codec", value_name = "CODEC", default_values = ["f32", "int8"], value_parser = parse_codec)]
    codecs: Vec<Codec>,
    /// digits (the small embedded data set), mnist, or synthetic:A,B.
    #[arg(long, default_value_t = Dataset::Mnist, value_name = "DATASET")]
    dataset: Dataset,
    /// Folder of MNIST's four IDX files. Missing files are downloaded into it.
    #[arg(long, default_value = "mnist-data", value_name = "FOLDER")]
    data_dir: PathBuf,
    /// The network: a multi-layer perceptron or a convolutional one.
    #[arg(long, value_enum, default_value_t = Network::Mlp)]
    model: Network,
    /// How the examples are split among the clients: iid, dirichlet:A or shards:N.
    #[arg(long, default_value = "iid", value_name = "PARTITION")]
    partition: Partition,
    /// Passes over a client's examples in a round.
    #[arg(long, default_value_t = 1, value_name = "EPOCHS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    epochs: u32,
    /// Rounds per codec and seed.
    #[arg(long, default_value_t = 80, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Rounds from one evaluation to the next. An evaluation of the CNN takes a third of a round's time.
    #[arg(long, default_value_t = 1, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..))]
    evaluate_every: u32,
    /// Rounds and bytes are counted up to this accuracy, from 0 to 1.
    #[arg(long, default_value_t = 0.97, value_name = "ACCURACY")]
    target: f64,
    /// A seed. May be repeated.
    #[arg(long = "seed", value_name = "NUMBER", default_values_t = [7])]
    seeds: Vec<u64>,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Trained {
    codec: Codec,
    seed: u64,
    rounds: u32,
    /// The first round whose model reached the target accuracy.
    rounds_to_target: Option<u32>,
    /// Bytes of updates up to that round.
    bytes_up_to_target: Option<u64>,
    /// Bytes of updates in all rounds.
    bytes_up: u64,
    /// The size of the same updates as plain f32, divided by `bytes_up`.
    times_smaller: f64,
    /// Bits sent per parameter and update.
    bits_per_parameter: f64,
    /// Mean of the last five evaluated rounds.
    accuracy: Option<f64>,
    /// Of the best round.
    accuracy_best: Option<f64>,
    /// Wall time with evaluations.
    seconds: f64,
}

pub(crate) async fn run(args: &TrainingArgs, output: &Output) -> Result<(), CliError> {
    for codec in &args.codecs {
        for seed in &args.seeds {
            let demo = DemoArgs {
                rounds: Some(args.rounds),
                seed: *seed,
                dataset: args.dataset,
                data_dir: args.data_dir.clone(),
                partition: Some(args.partition),
                model: args.model,
                epochs: Some(args.epochs),
                evaluate_every: args.evaluate_every,
                codec: Some(*codec),
                no_faults: true,
                ..DemoArgs::default()
            };
            let clock = Stopwatch::start();
            let learned = learn(&demo, output).await?;
            let trained = Trained { seconds: clock.elapsed().as_secs_f64(), ..measure(args, *codec, *seed, &learned) };
            output.object(&trained, || text(&trained))?;
        }
    }
    Ok(())
}

fn measure(args: &TrainingArgs, codec: Codec, seed: u64, learned: &Learned) -> Trained {
    let Learned { rounds, parameters, .. } = learned;
    let reached = rounds.iter().position(|round| round.accuracy.is_some_and(|accuracy| accuracy >= args.target));
    let bytes_of = |rounds: &[Round]| rounds.iter().map(|round| round.traffic.bytes_up).sum::<u64>();
    let updates: u64 = rounds.iter().map(|round| u64::from(round.reported)).sum();
    let accuracies: Vec<f64> = rounds.iter().filter_map(|round| round.accuracy).collect();
    let last = &accuracies[accuracies.len().saturating_sub(LAST_ROUNDS)..];
    let bytes_up = bytes_of(rounds);
    let values = (updates * *parameters as u64).max(1) as f64;
    Trained {
        codec,
        seed,
        rounds: rounds.len() as u32,
        rounds_to_target: reached.map(|index| rounds[index].number),
        bytes_up_to_target: reached.map(|index| bytes_of(&rounds[..=index])),
        bytes_up,
        times_smaller: 4.0 * values / bytes_up.max(1) as f64,
        bits_per_parameter: 8.0 * bytes_up as f64 / values,
        accuracy: (!last.is_empty()).then(|| last.iter().sum::<f64>() / last.len() as f64),
        accuracy_best: accuracies.iter().copied().max_by(f64::total_cmp),
        seconds: 0.0,
    }
}

fn text(trained: &Trained) -> String {
    format!(
        "{:<40} seed {:>3}  to target {:>4} rounds, {:>9} up  {:>6.1}x smaller  {:>6.3} bits  accuracy {} after {} rounds  {:.0} s",
        trained.codec.to_string(),
        trained.seed,
        or_dash(trained.rounds_to_target, |rounds| rounds.to_string()),
        or_dash(trained.bytes_up_to_target, bytes),
        trained.times_smaller,
        trained.bits_per_parameter,
        or_dash(trained.accuracy, percent),
        trained.rounds,
        trained.seconds,
    )
}
