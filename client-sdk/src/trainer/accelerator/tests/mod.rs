//! Trainings on an accelerator that is simulated, against those of the CPU.

mod simulated;

use std::cell::Cell;
use std::sync::Arc;

use futures_util::FutureExt;
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::plan::{Algorithm, Loss, Optimizer, Training};
use tributary_protocol::seed::Seed;

use self::simulated::Simulated;
use super::{AcceleratedTrainer, Kernel};
use crate::examples::MemoryExamples;
use crate::trainer::fixtures::{assert_near, classes, examples, full_batch, layer, random, random_model, spec, wide};
use crate::trainer::{Budget, Checkpoint, LayerTrainer, TrainError, TrainTask, Trained, Trainer};

/// Slow enough that a round does not diverge, which would enlarge what rounding leaves.
const MOMENTUM: Optimizer = Optimizer::Sgd { learning_rate: 0.02, momentum: 0.9, weight_decay: 0.01, nesterov: true };

fn batches(epochs: u32, batch_size: u32, optimizer: Optimizer) -> Training {
    let whole = full_batch(1, Loss::CrossEntropy, optimizer);
    Training { epochs: Some(epochs), steps: None, batch_size: Some(batch_size), ..whole }
}

fn data(spec: &ModelSpec, count: usize) -> MemoryExamples {
    let ModelSpec::Layers(network) = spec else { panic!("{spec:?}") };
    let outputs = spec.output_shape().unwrap().unwrap().iter().product::<usize>();
    let inputs = random(count * network.input.iter().product::<usize>(), 3);
    examples(&network.input, inputs, classes(count, outputs as u64, 4))
}

/// Calls until the training is done, as a session does.
fn finished<T: Trainer>(
    trainer: &mut T,
    task: &TrainTask<'_>,
    should_stop: &dyn Fn() -> bool,
) -> Result<Trained, TrainError> {
    loop {
        match trainer.train(task, should_stop) {
            Err(TrainError::Pending) => trainer.ready().now_or_never().unwrap(),
            ended => return ended,
        }
    }
}

/// A training on both, whose values must be the same but for rounding; and the accelerator.
#[track_caller]
fn agrees(spec: &ModelSpec, training: &Training, count: usize, frozen: &[bool]) -> Simulated {
    let (model, examples) = (random_model(spec, 5), Arc::new(data(spec, count)));
    let task = TrainTask { may_suspend: true, frozen, ..TrainTask::new(&model, spec, training, Seed(6)) };
    let expected = LayerTrainer::new(examples.clone()).train(&task, &|| false).unwrap();
    let simulated = Simulated::default();
    let mut trainer = AcceleratedTrainer::new(examples, simulated.clone(), true);
    let got = finished(&mut trainer, &task, &|| false).unwrap();
    assert_near(&got.values, &wide(&expected.values), 1e-5);
    assert!((got.loss - expected.loss).abs() < 1e-5, "{} and {}", got.loss, expected.loss);
    assert_eq!((got.steps, got.examples), (expected.steps, expected.examples));
    assert!(got.values != model.values() && trainer.instead().is_none());
    simulated
}

fn mlp() -> ModelSpec {
    spec(
        r#"{"input":[5],"layers":[{"kind":"linear","out_features":7},{"kind":"tanh"},
        {"kind":"linear","out_features":6,"bias":false},{"kind":"sigmoid"},{"kind":"linear","out_features":3}]}"#,
    )
}

fn cnn() -> ModelSpec {
    spec(
        r#"{"input":[2,7,6],"layers":[
        {"kind":"conv2d","out_channels":3,"kernel_size":[3,2],"padding":"same"},{"kind":"relu"},
        {"kind":"max_pool2d","kernel_size":2,"stride":1},
        {"kind":"conv2d","out_channels":4,"kernel_size":[2,3],"stride":[1,2],"padding":1,"bias":false},{"kind":"tanh"},
        {"kind":"max_pool2d","kernel_size":[2,1]},{"kind":"flatten"},{"kind":"linear","out_features":3}]}"#,
    )
}

#[test]
fn networks_end_with_the_values_of_the_cpu() {
    for optimizer in [crate::trainer::fixtures::SGD, MOMENTUM] {
        for network in [mlp(), cnn()] {
            agrees(&network, &batches(3, 4, optimizer.clone()), 10, &[]);
            agrees(&network, &full_batch(3, Loss::CrossEntropy, optimizer.clone()), 10, &[]);
        }
    }
}

#[test]
fn long_sums_are_cut_into_copies() {
    // One matrix has too few tiles for all of a GPU, so its gradient of 600 examples is summed in parts.
    let network = layer(&[3], r#"{"kind":"linear","out_features":4}"#);
    agrees(&network, &full_batch(2, Loss::CrossEntropy, MOMENTUM), 600, &[]);
    let image = spec(
        r#"{"input":[1,12,12],"layers":[{"kind":"conv2d","out_channels":2,"kernel_size":3},{"kind":"flatten"},
        {"kind":"linear","out_features":3}]}"#,
    );
    agrees(&image, &full_batch(2, Loss::CrossEntropy, MOMENTUM), 9, &[]);
}

#[test]
fn frozen_parameters_stay_and_layers_before_the_first_that_learns_need_no_gradient() {
    let simulated = agrees(&mlp(), &batches(2, 4, MOMENTUM), 10, &[true, true, false, true, false]);
    let back = |kernel: &Kernel| matches!(kernel, Kernel::LinearBack | Kernel::TanhBack | Kernel::SigmoidBack);
    let back: Vec<Kernel> = simulated.kernels().into_iter().filter(back).collect();
    assert_eq!(back, [Kernel::LinearBack, Kernel::SigmoidBack]);
}

#[test]
fn batches_go_in_pieces_whose_losses_are_read() {
    let simulated = agrees(&mlp(), &batches(7, 4, MOMENTUM), 10, &[]);
    let pieces = simulated.pieces();
    assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [16, 5]);
    assert_eq!(pieces[0][..4], [4, 4, 2, 4]);
}

#[test]
fn a_training_that_is_stopped_is_interrupted_and_one_whose_time_is_over_counts() {
    let (network, training) = (mlp(), batches(20, 4, MOMENTUM));
    let (model, examples) = (random_model(&network, 5), Arc::new(data(&network, 10)));
    let asked = Cell::new(0);
    let after_20 = || {
        asked.set(asked.get() + 1);
        asked.get() > 20
    };
    let task = TrainTask { may_suspend: true, ..TrainTask::new(&model, &network, &training, Seed(6)) };
    let mut trainer = AcceleratedTrainer::new(examples, Simulated::default(), true);
    assert_eq!(finished(&mut trainer, &task, &after_20), Err(TrainError::Interrupted));
    asked.set(0);
    let task = TrainTask { budget: Some(Budget(&after_20)), ..task };
    let trained = finished(&mut trainer, &task, &|| false).unwrap();
    // The first batch is not asked for.
    assert_eq!(trained.steps, 21);
}

#[test]
fn the_cpu_trains_from_the_beginning_where_the_accelerator_fails() {
    let (network, training) = (mlp(), batches(20, 4, MOMENTUM));
    let (model, examples) = (random_model(&network, 5), Arc::new(data(&network, 10)));
    let task = TrainTask { may_suspend: true, ..TrainTask::new(&model, &network, &training, Seed(6)) };
    let expected = LayerTrainer::new(examples.clone()).train(&task, &|| false);
    for pieces in [0, 1] {
        let mut trainer = AcceleratedTrainer::new(examples.clone(), Simulated::that_fails_after(pieces), false);
        assert_eq!(finished(&mut trainer, &task, &|| false), expected);
        assert_eq!(trainer.instead(), Some("the GPU failed: it was unplugged"));
    }
    let mut required = AcceleratedTrainer::new(examples, Simulated::that_fails_after(1), true);
    let failed = finished(&mut required, &task, &|| false).unwrap_err();
    assert_eq!(failed.to_string(), "a GPU is required, and the GPU failed: it was unplugged");
}

#[test]
fn a_session_that_was_dropped_disturbs_no_other_one() {
    let (network, training) = (mlp(), batches(2, 4, MOMENTUM));
    let (model, examples) = (random_model(&network, 5), Arc::new(data(&network, 10)));
    let task = |seed| TrainTask { may_suspend: true, ..TrainTask::new(&model, &network, &training, Seed(seed)) };
    let mut trainer = AcceleratedTrainer::new(examples.clone(), Simulated::default(), true);
    assert_eq!(trainer.train(&task(1), &|| false), Err(TrainError::Pending));
    // Nobody waited for the accelerator.
    assert_eq!(trainer.train(&task(1), &|| false), Err(TrainError::Pending));
    let expected = LayerTrainer::new(examples).train(&task(2), &|| false).unwrap();
    let got = finished(&mut trainer, &task(2), &|| false).unwrap();
    assert_near(&got.values, &wide(&expected.values), 1e-5);
    assert_eq!(trainer.train(&task(1), &|| true), Err(TrainError::Pending));
    assert_eq!(trainer.train(&task(1), &|| true), Err(TrainError::Interrupted));
}

#[test]
fn what_has_no_kernels_is_computed_on_the_cpu() {
    let sgd = || batches(1, 4, MOMENTUM);
    let adam = Optimizer::Adam { learning_rate: 0.1, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 };
    let linear = || layer(&[5], r#"{"kind":"linear","out_features":3}"#);
    let rows = layer(&[2, 5], r#"{"kind":"linear","out_features":3}"#);
    let dropout = layer(&[5], r#"{"kind":"dropout","probability":0.5},{"kind":"linear","out_features":3}"#);
    let cases = [
        (linear(), batches(1, 4, adam), "the optimiser is not sgd"),
        (dropout, sgd(), "layers[0]: there is no kernel for dropout"),
        (
            linear(),
            Training { algorithm: Algorithm::FedProx { mu: 0.5, adaptive: None }, ..sgd() },
            "fed_prox corrects gradients",
        ),
        (rows, sgd(), "an example has several rows of scores"),
    ];
    for (network, training, why) in cases {
        let (model, examples) = (random_model(&network, 5), Arc::new(data(&network, 10)));
        let task = TrainTask { may_suspend: true, ..TrainTask::new(&model, &network, &training, Seed(6)) };
        assert_eq!(said(&task, &examples), why);
    }
}

#[test]
fn networks_that_need_too_much_memory_are_not_begun() {
    let network = spec(
        r#"{"input":[1,64,64],"layers":[{"kind":"conv2d","out_channels":2000,"kernel_size":1},
        {"kind":"max_pool2d","kernel_size":64},{"kind":"flatten"},{"kind":"linear","out_features":3}]}"#,
    );
    let (model, training) = (random_model(&network, 5), full_batch(1, Loss::CrossEntropy, MOMENTUM));
    let task = TrainTask { may_suspend: true, ..TrainTask::new(&model, &network, &training, Seed(6)) };
    let begun = |count| {
        let examples = Arc::new(data(&network, count));
        AcceleratedTrainer::new(examples, Simulated::default(), true).train(&task, &|| false)
    };
    assert_eq!(begun(1), Err(TrainError::Pending));
    let what = "a GPU is required, and 5 examples in a batch need buffers that are too large";
    assert_eq!(begun(5), Err(TrainError::Other(what.to_owned())));
}

#[test]
fn trainings_that_are_not_called_again_are_computed_on_the_cpu() {
    let (network, training) = (mlp(), batches(1, 4, MOMENTUM));
    let (model, examples) = (random_model(&network, 5), Arc::new(data(&network, 10)));
    let task = TrainTask::new(&model, &network, &training, Seed(6));
    assert_eq!(said(&task, &examples), "the job has several trainings in one assignment");
    let checkpoint = Checkpoint::default();
    let resumed = TrainTask { may_suspend: true, resume: Some(&checkpoint), ..task };
    assert_eq!(said(&resumed, &examples), "the training was begun on the CPU");
}

/// Why the CPU computes it, at once.
fn said(task: &TrainTask<'_>, examples: &Arc<MemoryExamples>) -> String {
    let mut trainer = AcceleratedTrainer::new(examples.clone(), Simulated::default(), false);
    let got = trainer.train(task, &|| false);
    assert_ne!(got, Err(TrainError::Pending));
    assert_eq!(got, LayerTrainer::new(examples.clone()).train(task, &|| false));
    trainer.instead().unwrap().to_owned()
}
