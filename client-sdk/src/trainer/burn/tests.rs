//! An app's own burn module in the same trainer.

use std::cell::Cell;

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, LinearLayout};
use burn::tensor::activation;
use tributary_protocol::model::ParameterSpec;
use tributary_protocol::plan::{Loss, Optimizer, Training};
use tributary_protocol::seed::Seed;

use super::*;
use crate::examples::{MemoryExamples, Targets};
use crate::trainer::fixtures::{SGD, examples, full_batch, model, random};

#[derive(Module, Debug)]
struct Own {
    hidden: Linear,
    norm: BatchNorm,
    output: Linear,
}

impl Own {
    fn new(device: &Device) -> Self {
        Self {
            hidden: LinearConfig::new(2, 8).init(device),
            norm: BatchNormConfig::new(8).init(device),
            output: LinearConfig::new(8, 2).with_layout(LinearLayout::Col).init(device),
        }
    }
}

impl Network for Own {
    fn forward(&mut self, inputs: Tensor<2>, pass: &mut Pass) -> Tensor<2> {
        let hidden = activation::tanh(self.norm.forward(self.hidden.forward(inputs)));
        self.output.forward(pass.dropout(hidden, 0.1))
    }
}

/// The class says whether both inputs have the same sign, which no linear model can tell.
fn signs(count: usize) -> MemoryExamples {
    let inputs = random(2 * count, 7);
    let classes = inputs.chunks(2).map(|pair| u32::from(pair[0] * pair[1] > 0.0)).collect();
    examples(&[2], inputs, Targets::Classes(classes))
}

fn own_spec() -> ModelSpec {
    ModelSpec::Parameters(parameters_of(&Own::new(&Device::flex())))
}

/// As [`Own`] would start by itself: norms are the identity.
fn own_model(spec: &ModelSpec) -> Model {
    let start = spec.initial_model(Seed(1)).unwrap();
    let list = start.parameters();
    let mut values = start.values().to_vec();
    for (name, value) in [("gamma", 1.0), ("beta", 0.0), ("running_mean", 0.0), ("running_var", 1.0)] {
        values[list.range(list.index_of(&format!("norm.{name}")).unwrap())].fill(value);
    }
    model(spec, values)
}

#[test]
fn its_parameters_are_listed_by_name() {
    let listed: Vec<(String, Vec<usize>)> =
        parameters_of(&Own::new(&Device::flex())).into_iter().map(|spec| (spec.name, spec.shape)).collect();
    let expected: &[(&str, &[usize])] = &[
        ("hidden.weight", &[2, 8]),
        ("hidden.bias", &[8]),
        ("norm.gamma", &[8]),
        ("norm.beta", &[8]),
        ("norm.running_mean", &[8]),
        ("norm.running_var", &[8]),
        ("output.weight", &[2, 8]),
        ("output.bias", &[2]),
    ];
    let expected: Vec<_> = expected.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())).collect();
    assert_eq!(listed, expected);
}

#[test]
fn it_learns_and_repeats_bit_by_bit() {
    let spec = own_spec();
    let start = own_model(&spec);
    let optimizer = Optimizer::Adam { learning_rate: 0.02, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 };
    let training = Training { batch_size: Some(20), ..full_batch(200, Loss::CrossEntropy, optimizer) };
    let data = Arc::new(signs(200));
    let mut trainer = BurnTrainer::with_network(Own::new, data);
    let task = TrainTask::new(&start, &spec, &training, Seed(1));
    let trained = trainer.train(&task, &|| false).unwrap();
    assert_eq!(trainer.train(&task, &|| false).unwrap(), trained);
    let learned = model(&spec, trained.values);
    let measured = trainer.evaluate(&EvaluateTask::new(&learned, &spec, Loss::CrossEntropy), &|| false).unwrap();
    assert!(measured.accuracy.unwrap() > 0.9, "{measured:?}");
}

#[test]
fn its_running_statistics_are_those_of_the_last_step() {
    let spec = own_spec();
    let start = own_model(&spec);
    let mut trainer = BurnTrainer::with_network(Own::new, Arc::new(signs(50)));
    let training = full_batch(1, Loss::CrossEntropy, SGD);
    let task = TrainTask::new(&start, &spec, &training, Seed(1));
    let trained = model(&spec, trainer.train(&task, &|| false).unwrap().values);
    let mean = start.parameters().index_of("norm.running_mean").unwrap();
    assert!(trained.tensor(mean).iter().all(|value| *value != 0.0));
}

/// Goal: the constants of SCAFFOLD and FedDyn reach the parameters that they belong to, also where burn holds one
/// transposed. Method: one step of SGD with and without them differs by `-rate constant`.
#[test]
fn constants_are_added_to_the_gradients_in_the_layout_of_the_model() {
    let spec = own_spec();
    let start = own_model(&spec);
    let list = start.parameters();
    let constant = random(list.total(), 3);
    let training = full_batch(1, Loss::CrossEntropy, SGD);
    let plain = TrainTask::new(&start, &spec, &training, Seed(1));
    let corrected = TrainTask { constant: Some(&constant), ..plain };
    let mut trainer = BurnTrainer::with_network(Own::new, Arc::new(signs(50)));
    let [plain, corrected] = [plain, corrected].map(|task| trainer.train(&task, &|| false).unwrap().values);
    for (index, parameter) in list.specs().iter().enumerate() {
        let rate = if parameter.name.contains("running") { 0.0 } else { 0.1 };
        for place in list.range(index) {
            let moved = f64::from(corrected[place]) - f64::from(plain[place]);
            assert!((moved + rate * f64::from(constant[place])).abs() < 1e-6, "{} at {place}", parameter.name);
        }
    }
    let short = TrainTask { constant: Some(&constant[1..]), ..TrainTask::new(&start, &spec, &training, Seed(1)) };
    assert!(matches!(trainer.train(&short, &|| false), Err(TrainError::DoesNotFit(_))));
}

/// Goal: a training that is suspended goes on with the same bits. Method: a network with running statistics, dropout
/// and a parameter that burn holds transposed; optimisers with none, one and two moments, a pull and constants;
/// suspended after each of its steps and gone on with by another trainer.
#[test]
fn a_suspended_training_goes_on_with_the_same_bits() {
    let spec = own_spec();
    let start = own_model(&spec);
    let constant = random(start.values().len(), 3);
    let trainer = || BurnTrainer::with_network(Own::new, Arc::new(signs(50)));
    let momentum = Optimizer::Sgd { learning_rate: 0.1, momentum: 0.9, weight_decay: 0.01, nesterov: true };
    let adam = Optimizer::Adam { learning_rate: 0.02, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 };
    for (optimizer, mu) in [(SGD, 0.5), (momentum, 0.0), (adam, 0.5)] {
        let algorithm = Algorithm::FedProx { mu, adaptive: None };
        let training =
            Training { batch_size: Some(20), algorithm, ..full_batch(7, Loss::CrossEntropy, optimizer.clone()) };
        let whole = TrainTask { constant: Some(&constant), ..TrainTask::new(&start, &spec, &training, Seed(3)) };
        let undisturbed = trainer().train(&whole, &|| false).unwrap();
        for stop_after in 1..undisturbed.steps {
            let asked = Cell::new(0);
            let stops = || asked.replace(asked.get() + 1) == stop_after;
            let task = TrainTask { may_suspend: true, ..whole };
            let suspended = trainer().train(&task, &stops).unwrap_err();
            let TrainError::Suspended(checkpoint) = suspended else { panic!("{suspended:?}") };
            assert_eq!(checkpoint.steps, stop_after);
            let rest = TrainTask { resume: Some(&checkpoint), ..whole };
            assert_eq!(trainer().train(&rest, &|| false).unwrap(), undisturbed, "{stop_after} of {optimizer:?}");
        }
        let never = TrainTask { may_suspend: true, ..whole };
        assert_eq!(trainer().train(&never, &|| true), Err(TrainError::Interrupted), "nothing is lost");
        let strange = Checkpoint { steps: 2, ..Checkpoint::default() };
        let anew = TrainTask { resume: Some(&strange), ..whole };
        assert_eq!(trainer().train(&anew, &|| false).unwrap(), undisturbed, "of another trainer");
    }
}

/// A training that pauses after every few steps and after the last one has the bits of one that does not.
#[test]
fn a_training_that_pauses_goes_on_with_the_same_bits() {
    let spec = own_spec();
    let start = own_model(&spec);
    let trainer = || BurnTrainer::with_network(Own::new, Arc::new(signs(50)));
    let momentum = Optimizer::Sgd { learning_rate: 0.1, momentum: 0.9, weight_decay: 0.01, nesterov: true };
    let epochs = full_batch(7, Loss::CrossEntropy, momentum);
    let training = Training { batch_size: Some(20), epochs: None, steps: Some(7), ..epochs };
    let whole = TrainTask::new(&start, &spec, &training, Seed(3));
    let undisturbed = trainer().train(&whole, &|| false).unwrap();
    let (mut pauses, mut resume) = (Vec::new(), None);
    let trained = loop {
        let task = TrainTask { pause_every: Some(3), resume: resume.as_ref(), ..whole };
        match trainer().train(&task, &|| false) {
            Err(TrainError::Paused(checkpoint)) => {
                pauses.push(checkpoint.steps);
                resume = Some(*checkpoint);
            }
            trained => break trained.unwrap(),
        }
    };
    assert_eq!((pauses, trained), (vec![3, 6, 7], undisturbed));
}

#[test]
fn names_and_shapes_that_are_not_its_own_are_refused() {
    let good = parameters_of(&Own::new(&Device::flex()));
    let refused = |change: &dyn Fn(&mut Vec<ParameterSpec>)| {
        let mut parameters = good.clone();
        change(&mut parameters);
        let spec = ModelSpec::Parameters(parameters);
        let start = spec.initial_model(Seed(1)).unwrap();
        let training = full_batch(1, Loss::CrossEntropy, SGD);
        let task = TrainTask::new(&start, &spec, &training, Seed(1));
        match BurnTrainer::with_network(Own::new, Arc::new(signs(4))).train(&task, &|| false) {
            Err(TrainError::DoesNotFit(what)) => what,
            other => panic!("must not fit: {other:?}"),
        }
    };
    let renamed = refused(&|parameters| parameters[1].name = "hidden.b".to_owned());
    assert_eq!(renamed, r#"parameter 1 is "hidden.b" in the model and "hidden.bias" in the network"#);
    let missing = refused(&|parameters| parameters.truncate(7));
    assert_eq!(missing, r#"the model has no parameter "output.bias", which the network has"#);
    let extra = refused(&|parameters| parameters.push(ParameterSpec::new("more", [1])));
    assert_eq!(extra, r#"the network has no parameter "more", which the model has"#);
    let transposed = refused(&|parameters| parameters[0].shape.reverse());
    assert!(
        transposed.contains(r#""hidden.weight" has the shape [8, 2] in the model and [2, 8] in the network"#),
        "{transposed}"
    );
    let flat = refused(&|parameters| parameters[0].shape = vec![16]);
    assert!(flat.contains(r#""hidden.weight" has the shape [16] in the model and [2, 8] in the network"#), "{flat}");
}

#[derive(Module, Debug)]
struct Panicking {
    linear: Linear,
}

impl Network for Panicking {
    fn forward(&mut self, inputs: Tensor<2>, _pass: &mut Pass) -> Tensor<2> {
        let [batch, _] = inputs.dims();
        assert!(batch == 0, "no batch suits me");
        self.linear.forward(inputs)
    }
}

#[test]
fn its_panic_is_an_error() {
    let factory = |device: &Device| Panicking { linear: LinearConfig::new(2, 2).init(device) };
    let spec = ModelSpec::Parameters(parameters_of(&factory(&Device::flex())));
    let start = spec.initial_model(Seed(1)).unwrap();
    let task = EvaluateTask::new(&start, &spec, Loss::CrossEntropy);
    let result = BurnTrainer::with_network(factory, Arc::new(signs(4))).evaluate(&task, &|| false);
    assert_eq!(result, Err(TrainError::Other("the network panicked: no batch suits me".to_owned())));
}
