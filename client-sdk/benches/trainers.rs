//! A pass of training and an evaluation of McMahan's networks and an LSTM, by our trainer and by burn's on the CPU:
//! `cargo bench -p tributary-client --features burn`.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput};
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{BurnTrainer, EvaluateTask, LayerTrainer, TrainTask, Trainer};
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::plan::{Algorithm, Loss, Optimizer, Training};
use tributary_protocol::rate::RateSchedule;
use tributary_protocol::seed::Seed;

/// Examples of a pass.
const EXAMPLES: usize = 200;
const PIXELS: usize = 28 * 28;

const TWO_NN: &str = r#"{"input":[784],"layers":[
    {"kind":"linear","out_features":200},{"kind":"relu"},{"kind":"linear","out_features":200},{"kind":"relu"},
    {"kind":"linear","out_features":10}]}"#;

const CNN: &str = r#"{"input":[1,28,28],"layers":[
    {"kind":"conv2d","out_channels":32,"kernel_size":5,"padding":"same"},{"kind":"relu"},
    {"kind":"max_pool2d","kernel_size":2},
    {"kind":"conv2d","out_channels":64,"kernel_size":5,"padding":"same"},{"kind":"relu"},
    {"kind":"max_pool2d","kernel_size":2},{"kind":"flatten"},
    {"kind":"linear","out_features":512},{"kind":"relu"},{"kind":"linear","out_features":10}]}"#;

const LSTM: &str = r#"{"input":[28,28],"layers":[
    {"kind":"lstm","hidden_size":64},{"kind":"linear","out_features":10}]}"#;

fn examples(spec: &ModelSpec) -> Arc<MemoryExamples> {
    let ModelSpec::Layers(network) = spec else { unreachable!("all of these are layers") };
    let mut stream = Seed(1).stream();
    let inputs = (0..EXAMPLES * PIXELS).map(|_| stream.uniform(0.0, 1.0)).collect();
    let classes = (0..EXAMPLES).map(|_| stream.below(10) as u32).collect();
    Arc::new(MemoryExamples::new(network.input.clone(), inputs, Targets::Classes(classes)).expect("784 values each"))
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for (name, text) in [("2nn", TWO_NN), ("cnn", CNN), ("lstm", LSTM)] {
        let spec: ModelSpec = serde_json::from_str(text).expect("a network");
        let model = spec.initial_model(Seed(1)).expect("it can be built");
        let data = examples(&spec);
        let optimizer = Optimizer::Sgd { learning_rate: 0.01, momentum: 0.0, weight_decay: 0.0, nesterov: false };
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10).throughput(Throughput::Elements(EXAMPLES as u64));
        for batch in [10, 50] {
            let training = Training {
                epochs: Some(1),
                steps: None,
                work_schedule: Vec::new(),
                batch_size: Some(batch),
                loss: Loss::CrossEntropy,
                optimizer: optimizer.clone(),
                personal_epochs: None,
                partial_work: None,
                shuffle: true,
                algorithm: Algorithm::Plain,
                schedule: RateSchedule::Constant,
            };
            let task = TrainTask::new(&model, &spec, &training, Seed(1));
            let mut layers = LayerTrainer::new(data.clone());
            let mut burn = BurnTrainer::new(data.clone());
            let train = |trainer: &mut dyn Trainer| black_box(trainer.train(&task, &|| false).expect("it trains"));
            group.bench_function(BenchmarkId::new("train/layers", batch), |bench| bench.iter(|| train(&mut layers)));
            group.bench_function(BenchmarkId::new("train/burn", batch), |bench| bench.iter(|| train(&mut burn)));
        }
        let task = EvaluateTask::new(&model, &spec, Loss::CrossEntropy);
        let (mut layers, mut burn) = (LayerTrainer::new(data.clone()), BurnTrainer::new(data));
        let evaluate = |trainer: &mut dyn Trainer| black_box(trainer.evaluate(&task, &|| false).expect("it evaluates"));
        group.bench_function("evaluate/layers", |bench| bench.iter(|| evaluate(&mut layers)));
        group.bench_function("evaluate/burn", |bench| bench.iter(|| evaluate(&mut burn)));
        group.finish();
    }
    criterion.final_summary();
}
