//! Random networks, trained by us and by burn from the same start: both must arrive at the same values.

use tributary_protocol::layers::Layer;
use tributary_protocol::seed::Stream;

use super::*;
use crate::networks::{any_inputs, any_network, up_to};
use crate::trainer::BurnTrainer;

/// Random networks. Each takes three steps.
const NETWORKS: u64 = 300;
#[cfg(feature = "wgpu")]
const NETWORKS_ON_A_GPU: u64 = 12;
const EXAMPLES: usize = 10;

struct Drawn {
    spec: ModelSpec,
    data: MemoryExamples,
    training: Training,
}

/// Epsilons are large: where a gradient is only rounding, Adam with a small one would make a step of it.
fn any_optimizer(stream: &mut Stream) -> Optimizer {
    let weight_decay = [0.0, 0.1][stream.below(2) as usize];
    let (learning_rate, beta1, beta2, epsilon) = (0.02, 0.8, 0.95, 0.1);
    match stream.below(5) {
        0 => Optimizer::Sgd { learning_rate, momentum: 0.0, weight_decay, nesterov: false },
        1 => Optimizer::Sgd { learning_rate, momentum: 0.9, weight_decay, nesterov: false },
        2 => Optimizer::Sgd { learning_rate, momentum: 0.9, weight_decay, nesterov: true },
        3 => Optimizer::Adam { learning_rate, beta1, beta2, epsilon, weight_decay },
        _ => Optimizer::AdamW { learning_rate, beta1, beta2, epsilon, weight_decay },
    }
}

fn drawn(seed: u64) -> Drawn {
    let stream = &mut Seed(seed).stream();
    let network = any_network(stream);
    let input = network.input.clone();
    let outputs: usize = network.shapes().unwrap().pop().unwrap().iter().product();
    let inputs = any_inputs(&network, EXAMPLES, stream);
    let loss = [Loss::CrossEntropy, Loss::Mse][stream.below(2) as usize];
    let targets = match loss {
        Loss::CrossEntropy => Targets::Classes((0..EXAMPLES * outputs / 3).map(|_| stream.below(3) as u32).collect()),
        Loss::Mse | Loss::Other => {
            let values = (0..EXAMPLES * outputs).map(|_| stream.uniform(-1.0, 1.0)).collect();
            Targets::Values { values, width: outputs }
        }
    };
    let batch_size = Some(up_to(stream, 10) as u32);
    let optimizer = any_optimizer(stream);
    let training = Training {
        epochs: None,
        steps: Some(3),
        work_schedule: Vec::new(),
        batch_size,
        loss,
        optimizer,
        personal_epochs: None,
        partial_work: None,
        shuffle: true,
        algorithm: Algorithm::Plain,
        schedule: RateSchedule::Constant,
    };
    Drawn { spec: ModelSpec::Layers(network), data: examples(&input, inputs, targets), training }
}

#[track_caller]
fn assert_agree(ours: &[f32], theirs: &[f32], tolerance: f32, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (place, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let allowed = tolerance * theirs.abs().max(1.0);
        assert!((ours - theirs).abs() <= allowed, "value {place}: {ours}, burn has {theirs}; {what}");
    }
}

/// Trains and evaluates a random network by both. The tolerance is relative to values above 1.
fn compare(seed: u64, on: impl FnOnce(BurnTrainer) -> BurnTrainer, tolerance: f32) {
    let Drawn { spec, data, training } = drawn(seed);
    // Not the initial model, where the product of a low-rank layer is zero.
    let mut stream = Seed(seed).derive("start", 0).stream();
    let initial = spec.initial_model(Seed(seed)).unwrap().into_values();
    let start = model(&spec, initial.into_iter().map(|value| value + stream.uniform(0.0, 0.1)).collect());
    let parameters = start.parameters().specs().len();
    let frozen: Vec<bool> = (0..parameters).map(|_| seed % 2 == 1 && stream.below(2) == 0).collect();
    let mut stream = Seed(seed).derive("correction", 0).stream();
    let constant: Vec<f32> = start.values().iter().map(|_| stream.uniform(-0.1, 0.1)).collect();
    let constant = (seed % 3 == 1).then_some(constant.as_slice());
    let mu = [0.0, 0.5][usize::from(seed % 5 == 1)];
    let training = Training { algorithm: Algorithm::FedProx { mu, adaptive: None }, ..training };
    let (training, frozen) = (&training, frozen.as_slice());
    let task = TrainTask { frozen, constant, ..TrainTask::new(&start, &spec, training, Seed(seed)) };
    let mut burn = on(BurnTrainer::new(Arc::new(data.clone())));
    let theirs = burn.train(&task, &|| false).unwrap();
    let learned = model(&spec, theirs.values.clone());
    let evaluation = EvaluateTask::new(&learned, &spec, training.loss);
    let measured = burn.evaluate(&evaluation, &|| false).unwrap();
    let is_near = |ours: f64, theirs: f64| (ours - theirs).abs() < f64::from(tolerance) * theirs.max(1.0);
    for lab in Lab::all() {
        let what = format!("seed {seed}, {lab:?}, {training:?}, {spec:?}, {frozen:?}");
        let ours = lab.trainer(&data).train(&task, &|| false).unwrap();
        assert_agree(&ours.values, &theirs.values, tolerance, &what);
        for index in (0..parameters).filter(|index| frozen[*index]) {
            assert_eq!(ours.values[start.parameters().range(index)], *start.tensor(index), "{what}");
        }
        assert_eq!((ours.steps, ours.examples), (theirs.steps, theirs.examples));
        assert!(is_near(ours.loss, theirs.loss), "{what}");
        let ours = lab.evaluate(&data, &learned, &spec, training.loss).unwrap();
        assert!(is_near(ours.loss, measured.loss), "{what}");
        assert_eq!((ours.examples, ours.accuracy), (measured.examples, measured.accuracy), "{what}");
    }
}

#[test]
fn both_trainers_arrive_at_the_same_values() {
    for seed in 0..NETWORKS {
        compare(seed, |burn| burn, 1e-5);
    }
}

/// On a driver of Vulkan that computes on the CPU: without one, under CI, this fails.
#[cfg(feature = "wgpu")]
#[test]
fn a_gpu_arrives_at_the_same_values() {
    let Some(gpu) = crate::Gpu::software() else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "there is no driver of Vulkan for the CPU");
        return;
    };
    for seed in 0..NETWORKS_ON_A_GPU {
        compare(seed, |burn| burn.on_gpu(gpu.clone()), 1e-4);
    }
}

#[test]
fn every_kind_of_layer_is_drawn() {
    let kinds: std::collections::BTreeSet<&str> = (0..NETWORKS)
        .flat_map(|seed| match drawn(seed).spec {
            ModelSpec::Layers(network) => network.layers.iter().map(Layer::kind).collect::<Vec<_>>(),
            ModelSpec::Parameters(_) => Vec::new(),
        })
        .collect();
    assert_eq!(kinds.len(), 16, "{kinds:?}");
}

#[test]
fn both_trainers_refuse_the_same() {
    let spec = spec(r#"{"input":[6],"layers":[{"kind":"linear","out_features":3}]}"#);
    let start = spec.initial_model(Seed(1)).unwrap();
    let other = layer(&[6], r#"{"kind":"linear","out_features":4}"#).initial_model(Seed(1)).unwrap();
    let good = examples(&[6], random(12, 1), classes(2, 3, 1));
    let training = full_batch(1, Loss::CrossEntropy, SGD);
    let mse = Training { loss: Loss::Mse, ..training.clone() };
    let none = Training { steps: None, ..training.clone() };
    let leap = Optimizer::Sgd { learning_rate: 1e300, momentum: 0.0, weight_decay: 0.0, nesterov: false };
    let leap = full_batch(2, Loss::CrossEntropy, leap);
    let cases = [
        (examples(&[6], vec![], Targets::Classes(vec![])), &start, &training),
        (examples(&[5], vec![0.0; 10], classes(2, 3, 1)), &start, &training),
        (examples(&[6], vec![0.0; 12], Targets::Classes(vec![0, 3])), &start, &training),
        (good.clone(), &other, &training),
        (good.clone(), &start, &mse),
        (good.clone(), &start, &none),
        (good, &start, &leap),
    ];
    for (data, start, training) in cases {
        let task = TrainTask::new(start, &spec, training, Seed(1));
        let theirs = BurnTrainer::new(Arc::new(data.clone())).train(&task, &|| false);
        assert!(theirs.is_err());
        for lab in Lab::all() {
            assert_eq!(lab.train(&data, start, &spec, training, 1), theirs);
        }
    }
}

#[test]
fn burn_stops_before_the_batch_when_asked_too() {
    let Drawn { spec, data, training } = drawn(0);
    let start = spec.initial_model(Seed(1)).unwrap();
    let mut burn = BurnTrainer::new(Arc::new(data));
    let task = TrainTask::new(&start, &spec, &training, Seed(1));
    assert_eq!(burn.train(&task, &|| true), Err(TrainError::Interrupted));
    let task = EvaluateTask::new(&start, &spec, training.loss);
    assert_eq!(burn.evaluate(&task, &|| true), Err(TrainError::Interrupted));
}
