//! The built-in jobs of the demo: network, local training and round policy for each data set.

use tributary_protocol::job_file::{
    EvaluationPlace, EvaluationPolicy, InitialModel, JobFile, Mode, RoundPolicy, Selection, StopPolicy, UpdatePolicy,
};
use tributary_protocol::layers::{HeightWidth, Layer, LayeredModel, ModelSpec, Padding};
use tributary_protocol::plan::{Loss, Optimizer, Training};
use tributary_protocol::rate::RateSchedule;

use super::args::{Dataset, DemoArgs, Network};
use super::synthetic::{CLASSES, FEATURES};
use super::text::{CHARACTERS, VOCABULARY};
use crate::data::EVALUATOR;

const POPULATION: &str = "demo";
/// Largest value of an update while some clients attack.
const ATTACKED_MAGNITUDE_MAX: f32 = 10_000.0;
/// Clients selected per update of the goal, where some may fail.
const OVER_SELECTION: f64 = 1.3;

pub(crate) fn job_file(args: &DemoArgs) -> JobFile {
    JobFile {
        name: dataset_name(args.dataset).parse().expect("both names are valid"),
        population: POPULATION.parse().expect("a valid name"),
        data: None,
        seed: Some(args.seed()),
        model: ModelSpec::Layers(network(args.dataset, args.model)).into(),
        initial_model: InitialModel::Random,
        training: training(args),
        update: update(args),
        download: tributary_protocol::download::Download::default(),
        round: round_policy(args),
        eligibility: tributary_protocol::job_file::Eligibility::default(),
        aggregation: args.changes.aggregation.clone(),
        evaluation: Some(evaluation(args)),
        analysis: None,
        privacy: None,
        secure_aggregation: None,
        group: None,
        coded: None,
        stop: StopPolicy { rounds: Some(args.rounds()), accuracy: args.target, ..StopPolicy::default() },
        schedule: None,
        retention: tributary_protocol::job_file::Retention::default(),
    }
}

/// A benchmark of attacks measures rules, not the bound on values that would refuse wrong updates before them.
fn update(args: &DemoArgs) -> UpdatePolicy {
    let policy = UpdatePolicy { codec: args.codec.unwrap_or_default(), ..UpdatePolicy::default() };
    match args.changes.attack {
        Some(_) => UpdatePolicy { magnitude_max: ATTACKED_MAGNITUDE_MAX, ..policy },
        None => policy,
    }
}

fn dataset_name(dataset: Dataset) -> &'static str {
    match dataset {
        Dataset::Digits => "digits",
        Dataset::Mnist => "mnist",
        Dataset::Synthetic(_) => "synthetic",
        Dataset::Shakespeare(_) => "shakespeare",
    }
}

/// The network for images of ten classes, or for characters: an LSTM of 64 units over embeddings of 8 values, as in
/// McMahan et al. 2017, with a quarter of the units and one layer instead of two. For MNIST: the "2NN" and the CNN of
/// McMahan et al. 2017, section 3, with 199,210 and 1,663,370 parameters.
fn network(dataset: Dataset, network: Network) -> LayeredModel {
    let input = match (dataset, network) {
        (Dataset::Digits, Network::Mlp | Network::Logistic) => vec![64],
        (Dataset::Digits, Network::Cnn) => vec![1, 8, 8],
        (Dataset::Mnist, Network::Mlp | Network::Logistic) => vec![784],
        (Dataset::Mnist, Network::Cnn) => vec![1, 28, 28],
        (Dataset::Synthetic(_), _) => vec![FEATURES],
        (Dataset::Shakespeare(_), _) => vec![CHARACTERS],
    };
    let mut layers = match (dataset, network) {
        (Dataset::Digits, Network::Mlp) => vec![linear(64), Layer::Relu {}],
        (Dataset::Mnist, Network::Mlp) => vec![linear(200), Layer::Relu {}, linear(200), Layer::Relu {}],
        (Dataset::Digits, Network::Cnn) => [convolution(8, 3), convolution(16, 3), dense_end(32)].concat(),
        (Dataset::Mnist, Network::Cnn) => [convolution(32, 5), convolution(64, 5), dense_end(512)].concat(),
        (Dataset::Shakespeare(_), _) => vec![
            Layer::Embedding { tokens: VOCABULARY, size: 8 },
            Layer::Lstm { hidden_size: 64, return_sequences: true },
        ],
        (Dataset::Synthetic(_), _) | (_, Network::Logistic) => Vec::new(),
    };
    let classes = if matches!(dataset, Dataset::Shakespeare(_)) { VOCABULARY } else { CLASSES };
    layers.push(linear(classes));
    LayeredModel { input, layers }
}

fn linear(out_features: usize) -> Layer {
    Layer::Linear { out_features, bias: true }
}

/// A convolution that keeps height and width, ReLU, and a pool that halves height and width.
fn convolution(out_channels: usize, kernel_length: usize) -> Vec<Layer> {
    let convolution = Layer::Conv2d {
        out_channels,
        kernel_size: HeightWidth::square(kernel_length),
        stride: HeightWidth::square(1),
        padding: Padding::Same,
        bias: true,
    };
    vec![convolution, Layer::Relu {}, Layer::MaxPool2d { kernel_size: HeightWidth::square(2), stride: None }]
}

fn dense_end(features: usize) -> Vec<Layer> {
    vec![Layer::Flatten {}, linear(features), Layer::Relu {}]
}

/// Local training. For MNIST: McMahan's E = 1, B = 10 and the learning rate that suits the 2NN. A client has 72 digits
/// on average, so that a single epoch moves the model little: in a plain simulation, 30 rounds of the small perceptron
/// reached an accuracy of 0.97 with five epochs, and of 0.93 to 0.94 with one.
fn training(args: &DemoArgs) -> Training {
    let (epochs, learning_rate) = match (args.dataset, args.model) {
        (Dataset::Digits, Network::Mlp | Network::Logistic) => (5, 0.2),
        (Dataset::Digits, Network::Cnn) => (5, 0.1),
        (Dataset::Mnist, _) => (1, 0.1),
        // As the authors of FedProx.
        (Dataset::Synthetic(_), _) => (20, 0.01),
        (Dataset::Shakespeare(_), _) => (1, 1.0),
    };
    let learning_rate = args.changes.learning_rate.unwrap_or(learning_rate);
    let (epochs, steps, batch_size) = match args.changes.sends_gradient {
        true => (None, Some(1), None),
        false => (Some(args.epochs.unwrap_or(epochs)), None, Some(10)),
    };
    Training {
        epochs,
        steps,
        batch_size,
        loss: Loss::CrossEntropy,
        optimizer: Optimizer::Sgd { learning_rate, momentum: 0.0, weight_decay: 0.0, nesterov: false },
        work_schedule: Vec::new(),
        personal_epochs: None,
        partial_work: args.changes.stragglers.and_then(|stragglers| stragglers.count.then_some(0.9)),
        shuffle: true,
        algorithm: args.changes.algorithm,
        schedule: RateSchedule::Constant,
    }
}

/// The goal is half of the clients for the digits, and a tenth for MNIST (McMahan's C = 0.1). With faults, more clients
/// are selected than the goal, but never more than are left without the slow and the dead one. Without faults, every
/// selected client counts and every client is available, so that timing does not influence the result.
fn round_policy(args: &DemoArgs) -> RoundPolicy {
    let clients = args.clients();
    let goal = match args.dataset {
        Dataset::Digits => clients / 2,
        Dataset::Mnist | Dataset::Shakespeare(_) => clients / 10,
        Dataset::Synthetic(_) => clients / 3,
    };
    let goal = args.changes.cohort.map_or(goal, |cohort| cohort.min(clients)).max(1);
    let policy = RoundPolicy {
        mode: Mode::Synchronous,
        updates_goal: goal,
        updates_min: match (args.changes.stragglers, args.changes.cohort) {
            (Some(_), _) => 1,
            (None, Some(_)) => goal,
            (None, None) => goal.div_ceil(2),
        },
        over_selection: 1.0,
        available_min: clients,
        selection_timeout_ms: 60_000,
        deadline_ms: deadline_ms(args),
        backoff_ms: 500,
        backoff_max_ms: 5_000,
        selection: Selection::Uniform,
        adapt: None,
    };
    // A cohort of stragglers alone says nothing about the next one.
    let policy = match args.changes.stragglers {
        Some(_) => RoundPolicy { backoff_ms: 1, backoff_max_ms: 1, ..policy },
        None => policy,
    };
    if !args.has_faults() {
        return policy;
    }
    let always_there = f64::from(clients - 2);
    let over_selection = OVER_SELECTION.min(always_there / f64::from(goal)).max(1.0);
    RoundPolicy { over_selection, available_min: 0, ..policy }
}

/// Enough for a slow machine, and short enough that a demo with the digits shows its straggler.
fn deadline_ms(args: &DemoArgs) -> u64 {
    match (args.dataset, args.model) {
        (Dataset::Digits, _) if !args.has_faults() => 60_000,
        (Dataset::Digits, _) => 10_000,
        (Dataset::Synthetic(_), _) => 60_000,
        (Dataset::Shakespeare(_), _) => 600_000,
        (Dataset::Mnist, Network::Mlp | Network::Logistic) => 60_000,
        (Dataset::Mnist, Network::Cnn) => 600_000,
    }
}

/// By the client that has the held-out examples.
fn evaluation(args: &DemoArgs) -> EvaluationPolicy {
    let (name, value) = EVALUATOR;
    EvaluationPolicy {
        place: EvaluationPlace::Clients,
        every_rounds: args.evaluate_every,
        attributes: [(name.to_owned(), value.to_owned())].into(),
        reports_goal: Some(1),
        reports_min: 1,
        over_selection: 1.0,
        selection_timeout_ms: 60_000,
        deadline_ms: deadline_ms(args).max(60_000),
        ..EvaluationPolicy::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::args::tests::parse;

    #[test]
    fn the_networks_have_their_published_sizes() {
        let parameters = |line| job_file(&parse(line).unwrap()).model.parameters().unwrap().total();
        assert_eq!(parameters(""), 64 * 64 + 64 + 64 * 10 + 10);
        assert_eq!(parameters("--dataset mnist"), 199_210);
        assert_eq!(parameters("--dataset mnist --model cnn"), 1_663_370);
        assert!((3_000..10_000).contains(&parameters("--model cnn")));
    }

    #[test]
    fn every_job_is_valid_and_its_cohort_exists() {
        for data in ["", "--dataset mnist"] {
            for model in ["mlp", "cnn"] {
                for clients in [1, 2, 3, 4, 5, 6, 7, 10, 20, 100, 1000] {
                    for faults in ["", "--no-faults"] {
                        let line = format!("{data} --model {model} --clients {clients} {faults}");
                        let args = parse(&line).unwrap();
                        let job = job_file(&args);
                        job.check().unwrap_or_else(|error| panic!("{line}: {error}"));
                        let present = if args.has_faults() { clients - 2 } else { clients };
                        assert!(job.round.cohort_size() <= present, "{line}: {}", job.round.cohort_size());
                    }
                }
            }
        }
    }

    #[test]
    fn without_faults_every_selected_client_counts() {
        let job = job_file(&parse("--no-faults").unwrap());
        assert_eq!((job.round.cohort_size(), job.round.updates_goal, job.round.available_min), (10, 10, 20));
        let faulty = job_file(&parse("").unwrap());
        assert_eq!((faulty.round.cohort_size(), faulty.round.updates_goal), (13, 10));
    }

    #[test]
    fn mnist_is_trained_with_a_tenth_of_the_clients() {
        let job = job_file(&parse("--dataset mnist --target 0.97").unwrap());
        assert_eq!((job.round.updates_goal, job.stop.accuracy, job.stop.rounds), (10, Some(0.97), Some(87)));
    }
}
