//! The speed of local training: one client's trainer on MNIST, in this process.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use tributary_client::examples::{Examples, ExamplesError, MemoryExamples};
use tributary_client::{EvaluateTask, LayerTrainer, TrainError, TrainTask, Trainer};
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::plan::Training;
use tributary_protocol::seed::Seed;

use crate::error::BenchError;
use crate::process::{cpu_s, forget_peak, peak_resident_bytes, resident_bytes};
use tributary::allocator::return_freed;
use tributary::demo::args::{Dataset, DemoArgs, Network};
use tributary::demo::{data::DemoData, job_file, load_data};
use tributary::error::CliError;
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// Examples that are copied at once, so that few of them are in memory as numbers of four bytes.
const COPIED: usize = 100;
/// A white pixel of the images.
const WHITE: f32 = 255.0;

#[derive(Clone, Debug, Args)]
pub(crate) struct TrainArgs {
    /// The network: McMahan's 2NN (mlp) or his CNN.
    #[arg(long, value_enum, default_value_t = Network::Mlp)]
    model: Network,
    /// Examples of an optimiser step.
    #[arg(long, default_value_t = 10, value_name = "EXAMPLES", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Threads of the trainer.
    #[arg(long, default_value_t = 1, value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Examples to train on, once.
    #[arg(long, default_value_t = 6_000, value_name = "EXAMPLES", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    examples: u32,
    /// Examples to evaluate.
    #[arg(long, default_value_t = 10_000, value_name = "EXAMPLES", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    evaluated: u32,
    /// Folder of MNIST's four IDX files. Missing files are downloaded into it.
    #[arg(long, default_value = "mnist-data", value_name = "FOLDER")]
    data_dir: PathBuf,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    batch: u32,
    threads: u32,
    /// By wall time.
    samples_per_s: f64,
    /// By wall time.
    evaluated_per_s: f64,
    /// Processor time of training.
    cpu_s_per_1000_samples: f64,
    /// Processor time of the evaluation.
    cpu_s_per_1000_evaluated: f64,
    /// Resident memory of this process before it trained: the program, the examples (a byte for each pixel) and the
    /// initial model. `None` on systems without `/proc`.
    rss_before_mb: Option<f64>,
    /// The highest resident memory of this process while it trained and evaluated.
    peak_rss_mb: Option<f64>,
    /// Mean loss of the steps.
    loss: f64,
    /// Of the trained model.
    accuracy: Option<f64>,
}

pub(crate) async fn run(args: &TrainArgs, output: &Output) -> Result<(), CliError> {
    let demo = DemoArgs {
        dataset: Dataset::Mnist,
        data_dir: args.data_dir.clone(),
        model: args.model,
        epochs: Some(1),
        ..DemoArgs::default()
    };
    let file = job_file(&demo)?;
    let DemoData { train, test, .. } = load_data(&demo, &file, output).await?;
    let failed = |error: ExamplesError| BenchError::Train(error.to_string());
    let (few, test) = (first(&train, args.examples).map_err(failed)?, first(&test, args.evaluated).map_err(failed)?);
    drop(train);
    let training = Training { batch_size: Some(args.batch), ..file.training };
    let args = args.clone();
    // The computation takes seconds and would block other tasks.
    let measured = tokio::task::spawn_blocking(move || measure(&args, &file.model.spec, &training, few, test));
    let measured = measured.await.map_err(CliError::task)??;
    output.object(&measured, || text(&measured))
}

/// The first examples, in memory of their own.
fn first(all: &MemoryExamples, count: u32) -> Result<MemoryExamples, ExamplesError> {
    let indices: Vec<usize> = (0..all.len().min(count as usize)).collect();
    let mut bytes = Vec::with_capacity(indices.len() * all.input_shape().iter().product::<usize>());
    for indices in indices.chunks(COPIED) {
        bytes.extend(all.batch(indices)?.inputs.iter().map(|value| (value * WHITE).round() as u8));
    }
    let targets = all.subset(&indices)?.targets();
    MemoryExamples::from_bytes(all.input_shape().to_vec(), bytes, WHITE, targets)
}

fn measure(
    args: &TrainArgs,
    spec: &ModelSpec,
    training: &Training,
    train: MemoryExamples,
    test: MemoryExamples,
) -> Result<Measured, BenchError> {
    let failed = |error: TrainError| BenchError::Train(error.to_string());
    let model = spec.initial_model(Seed(1)).map_err(|error| BenchError::Train(error.to_string()))?;
    let (samples, evaluated) = (train.len() as f64, test.len() as f64);
    let trainer = |examples| LayerTrainer::new(Arc::new(examples)).with_threads(args.threads as usize);
    let (mut trainer, mut evaluator) = (trainer(train), trainer(test));
    return_freed();
    forget_peak();
    let rss_before = resident_bytes(std::process::id());

    let (clock, cpu_before) = (Stopwatch::start(), cpu_s(std::process::id())?);
    let task = TrainTask::new(&model, spec, training, Seed(1));
    let trained = trainer.train(&task, &|| false).map_err(failed)?;
    let (train_s, train_cpu_s) = (clock.elapsed().as_secs_f64(), cpu_s(std::process::id())? - cpu_before);

    let learned = Model::new(Arc::clone(model.parameters()), trained.values);
    let learned = learned.map_err(|error| BenchError::Train(error.to_string()))?;
    // A client that evaluates has one model.
    drop(model);
    let (clock, cpu_before) = (Stopwatch::start(), cpu_s(std::process::id())?);
    let task = EvaluateTask::new(&learned, spec, training.loss);
    let result = evaluator.evaluate(&task, &|| false).map_err(failed)?;
    let (evaluate_s, evaluate_cpu_s) = (clock.elapsed().as_secs_f64(), cpu_s(std::process::id())? - cpu_before);

    Ok(Measured {
        batch: args.batch,
        threads: args.threads,
        samples_per_s: samples / train_s,
        evaluated_per_s: evaluated / evaluate_s,
        cpu_s_per_1000_samples: 1e3 * train_cpu_s / samples,
        cpu_s_per_1000_evaluated: 1e3 * evaluate_cpu_s / evaluated,
        rss_before_mb: rss_before.map(megabytes),
        peak_rss_mb: peak_resident_bytes(std::process::id()).map(megabytes),
        loss: trained.loss,
        accuracy: result.accuracy,
    })
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn text(measured: &Measured) -> String {
    format!(
        "batch {}, {} threads: {:.0} examples/s trained ({:.3} CPU-s per 1,000), {:.0} examples/s evaluated, {:.0} MB before and at most {:.0} MB",
        measured.batch,
        measured.threads,
        measured.samples_per_s,
        measured.cpu_s_per_1000_samples,
        measured.evaluated_per_s,
        measured.rss_before_mb.unwrap_or(f64::NAN),
        measured.peak_rss_mb.unwrap_or(f64::NAN),
    )
}

#[cfg(test)]
mod tests {
    use tributary_client::examples::Targets;

    use super::*;

    #[test]
    fn a_training_and_an_evaluation_are_measured() {
        let demo = DemoArgs { epochs: Some(1), ..DemoArgs::default() };
        let file = job_file(&demo).unwrap();
        let labels: Vec<u32> = (0..40).map(|index| index % 10).collect();
        let bytes = labels.iter().flat_map(|label| (0..64).map(move |place| (place * label % 256) as u8)).collect();
        let all = MemoryExamples::from_bytes(vec![64], bytes, WHITE, Targets::Classes(labels)).unwrap();
        let few = first(&all, 30).unwrap();
        assert_eq!(few.batch(&[7, 29]).unwrap(), all.batch(&[7, 29]).unwrap());
        let args = TrainArgs {
            model: Network::Mlp,
            batch: 4,
            threads: 2,
            examples: 30,
            evaluated: 40,
            data_dir: PathBuf::new(),
        };
        let training = Training { batch_size: Some(4), ..file.training };
        let measured = measure(&args, &file.model.spec, &training, few, all).unwrap();
        assert!(measured.samples_per_s > 0.0 && measured.evaluated_per_s > 0.0 && measured.loss > 0.0);
        assert!(measured.accuracy.is_some());
    }
}
