//! The time of a prediction: one image through McMahan's networks, on one thread of this process.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tributary_client::predict::{PredictError, Predictor, onnx};
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::seed::Seed;

use crate::error::BenchError;
use tributary::demo::args::{Dataset, DemoArgs, Network};
use tributary::demo::job_file;
use tributary::error::CliError;
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// Share of the predictions that come first and are not measured: caches and clock rates settle.
const WARM_UP: usize = 10;

#[derive(Clone, Debug, Args)]
pub(crate) struct PredictArgs {
    /// The network: McMahan's 2NN (mlp) or his CNN.
    #[arg(long, value_enum, default_value_t = Network::Mlp)]
    model: Network,
    /// Predictions to measure.
    #[arg(long, default_value_t = 2_000, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    predictions: u32,
    /// Also writes the network as an ONNX file, for another program to compare.
    #[arg(long, value_name = "FILE")]
    onnx: Option<PathBuf>,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    parameters: usize,
    predictions: u32,
    /// Wall time of a prediction.
    us_min: f64,
    us_p50: f64,
    us_p99: f64,
}

pub(crate) async fn run(args: &PredictArgs, output: &Output) -> Result<(), CliError> {
    let demo = DemoArgs { dataset: Dataset::Mnist, model: args.model, ..DemoArgs::default() };
    let spec = job_file(&demo)?.model.spec;
    let (args, path) = (args.clone(), args.onnx.clone());
    // The computation takes seconds and would block other tasks.
    let measured = tokio::task::spawn_blocking(move || measure(&args, &spec)).await.map_err(CliError::task)?;
    let (measured, file) = measured?;
    if let Some(path) = path {
        std::fs::write(&path, file).map_err(CliError::file("write", &path))?;
    }
    output.object(&measured, || text(&measured))
}

/// The figures, and the network as an ONNX file.
fn measure(args: &PredictArgs, spec: &ModelSpec) -> Result<(Measured, Vec<u8>), BenchError> {
    let failed = |error: PredictError| BenchError::Train(error.to_string());
    let ModelSpec::Layers(network) = spec else {
        return Err(BenchError::Train("the network is no list of layers".to_owned()));
    };
    let model = spec.initial_model(Seed(1)).map_err(|error| BenchError::Train(error.to_string()))?;
    let file = onnx::write(network, &model, &onnx::OnnxSettings::default());
    let file = file.map_err(|error| BenchError::Train(error.to_string()))?;
    let predictor = Predictor::new(network, &model).map_err(failed)?;
    let mut stream = Seed(2).stream();
    let values = predictor.input_shape().iter().product();
    let inputs: Vec<f32> = (0..values).map(|_| stream.uniform(0.0, 1.0)).collect();
    let mut outputs = vec![0.0; predictor.output_shape().iter().product()];
    let predictions = args.predictions as usize;
    let mut times = Vec::with_capacity(predictions);
    for index in 0..predictions + predictions / WARM_UP {
        let clock = Stopwatch::start();
        predictor.predict(black_box(&inputs), black_box(&mut outputs)).map_err(failed)?;
        if index >= predictions / WARM_UP {
            times.push(clock.elapsed());
        }
    }
    times.sort_unstable();
    let at = |share: f64| microseconds(times[((times.len() - 1) as f64 * share).round() as usize]);
    let measured = Measured {
        parameters: model.values().len(),
        predictions: args.predictions,
        us_min: at(0.0),
        us_p50: at(0.5),
        us_p99: at(0.99),
    };
    Ok((measured, file))
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn text(measured: &Measured) -> String {
    let Measured { parameters, us_min, us_p50, us_p99, .. } = measured;
    format!("{parameters} parameters: {us_p50:.1} us per prediction (p99 {us_p99:.1} us, fastest {us_min:.1} us)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_measured_and_the_network_is_written() {
        let file = job_file(&DemoArgs::default()).unwrap();
        let args = PredictArgs { model: Network::Mlp, predictions: 20, onnx: None };
        let (measured, onnx) = measure(&args, &file.model.spec).unwrap();
        assert!(0.0 < measured.us_min && measured.us_min <= measured.us_p50 && measured.us_p50 <= measured.us_p99);
        assert!(onnx.len() > 4 * measured.parameters);
    }
}
