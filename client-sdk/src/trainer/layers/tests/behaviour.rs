//! What a trainer promises its session: repeatable bits, typed refusals, stopping when asked.

use std::cell::Cell;

use super::*;
use crate::examples::{Batch, Examples, ExamplesError};
use crate::trainer::Checkpoint;

const WITH_DROPOUT: &str = r#"{"input":[6],"layers":[
    {"kind":"linear","out_features":16},{"kind":"batch_norm"},{"kind":"relu"},{"kind":"dropout","probability":0.3},
    {"kind":"linear","out_features":3}]}"#;

const RECURRENT: &str = r#"{"input":[7],"layers":[
    {"kind":"embedding","tokens":5,"size":4},{"kind":"lstm","hidden_size":6,"return_sequences":true},
    {"kind":"gru","hidden_size":5},{"kind":"dropout","probability":0.2},{"kind":"linear","out_features":3}]}"#;

const CONVOLUTIONAL: &str = r#"{"input":[1,8,8],"layers":[
    {"kind":"conv2d","out_channels":4,"kernel_size":3,"padding":"same"},{"kind":"relu"},
    {"kind":"max_pool2d","kernel_size":2},{"kind":"flatten"},{"kind":"linear","out_features":3}]}"#;

fn data(spec: &ModelSpec) -> MemoryExamples {
    let ModelSpec::Layers(layers) = spec else { unreachable!("all of these are layers") };
    let count = 40 * layers.input.iter().product::<usize>();
    let inputs = match layers.input[..] {
        [7] => (0..count).map(|place| (place * 3 % 5) as f32).collect(),
        _ => random(count, 4),
    };
    examples(&layers.input, inputs, classes(40, 3, 5))
}

fn batches(optimizer: Optimizer) -> Training {
    Training {
        epochs: Some(2),
        steps: None,
        work_schedule: Vec::new(),
        batch_size: Some(7),
        loss: Loss::CrossEntropy,
        optimizer,
        personal_epochs: None,
        partial_work: None,
        shuffle: true,
        algorithm: Algorithm::Plain,
        schedule: RateSchedule::Constant,
    }
}

#[test]
fn the_same_seed_gives_the_same_bits_also_beside_other_threads() {
    for lab in Lab::all() {
        let adam = Optimizer::Adam { learning_rate: 0.01, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 };
        for text in [WITH_DROPOUT, RECURRENT, CONVOLUTIONAL] {
            let spec = spec(text);
            let (data, start, training) = (data(&spec), spec.initial_model(Seed(1)).unwrap(), batches(adam.clone()));
            let run = |seed| lab.train(&data, &start, &spec, &training, seed).unwrap();
            let alone: Vec<Trained> = (0..4).map(run).collect();
            let together: Vec<Trained> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || run(seed))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for (alone, together) in alone.iter().zip(&together) {
                let bits = |trained: &Trained| trained.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(alone), bits(together));
                assert_eq!(alone.loss.to_bits(), together.loss.to_bits());
            }
            assert_ne!(alone[0].values, alone[1].values);
        }
    }
}

#[test]
fn the_seed_decides_about_the_order_and_about_dropout() {
    for lab in Lab::all() {
        let spec = spec(WITH_DROPOUT);
        let (data, start) = (data(&spec), spec.initial_model(Seed(1)).unwrap());
        let values = |training: &Training, seed| lab.train(&data, &start, &spec, training, seed).unwrap().values;
        let in_order = Training { shuffle: false, ..batches(SGD) };
        assert_ne!(values(&in_order, 1), values(&in_order, 2), "dropout");
        let plain = super::spec(r#"{"input":[6],"layers":[{"kind":"linear","out_features":3}]}"#);
        let start = plain.initial_model(Seed(1)).unwrap();
        let values = |training: &Training, seed| lab.train(&data, &start, &plain, training, seed).unwrap().values;
        assert_ne!(values(&batches(SGD), 1), values(&batches(SGD), 2), "order");
        assert_eq!(values(&in_order, 1), values(&in_order, 2), "nothing random is left");
    }
}

#[test]
fn training_stops_before_the_batch_when_asked() {
    let spec = spec(WITH_DROPOUT);
    let (data, start, training) = (data(&spec), spec.initial_model(Seed(1)).unwrap(), batches(SGD));
    let task = TrainTask::new(&start, &spec, &training, Seed(1));
    let asked = Cell::new(0);
    let third_time = || {
        asked.set(asked.get() + 1);
        asked.get() == 3
    };
    let mut trainer = LayerTrainer::new(Arc::new(data));
    assert_eq!(trainer.train(&task, &third_time), Err(TrainError::Interrupted));
    assert_eq!(asked.get(), 3);
    let task = EvaluateTask::new(&start, &spec, Loss::CrossEntropy);
    assert_eq!(trainer.evaluate(&task, &|| true), Err(TrainError::Interrupted));
}

#[test]
fn no_examples_are_an_error_of_their_own() {
    for lab in Lab::all() {
        let spec = spec(WITH_DROPOUT);
        let start = spec.initial_model(Seed(1)).unwrap();
        let none = examples(&[6], vec![], Targets::Classes(vec![]));
        assert_eq!(lab.train(&none, &start, &spec, &batches(SGD), 1), Err(TrainError::NoExamples));
        assert_eq!(lab.evaluate(&none, &start, &spec, Loss::CrossEntropy), Err(TrainError::NoExamples));
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_reason() {
    for lab in Lab::all() {
        let spec = spec(WITH_DROPOUT);
        let start = spec.initial_model(Seed(1)).unwrap();
        let refused = |data: &MemoryExamples, training: &Training| match lab.train(data, &start, &spec, training, 1) {
            Err(TrainError::DoesNotFit(what)) => what,
            other => panic!("must not fit: {other:?}"),
        };
        let training = batches(SGD);
        let other_shape = examples(&[5], vec![0.0; 10], classes(2, 3, 1));
        assert_eq!(refused(&other_shape, &training), "the network reads inputs [6], and the examples are [5]");
        let other_class = examples(&[6], vec![0.0; 12], Targets::Classes(vec![0, 3]));
        assert_eq!(refused(&other_class, &training), "class 3 is none of the network's 3 outputs");
        let values = examples(&[6], vec![0.0; 12], Targets::Values { values: vec![0.0; 6], width: 3 });
        assert!(refused(&values, &training).contains("needs class numbers"));
        let mse = Training { loss: Loss::Mse, ..batches(SGD) };
        assert!(refused(&examples(&[6], vec![0.0; 12], classes(2, 3, 1)), &mse).contains("needs values"));
        let narrow = examples(&[6], vec![0.0; 12], Targets::Values { values: vec![0.0; 4], width: 2 });
        assert!(refused(&narrow, &mse).contains("2 x 3 numbers for 4 target values"));
        let pairs = examples(&[6], vec![0.0; 12], Targets::Classes(vec![0; 4]));
        assert_eq!(refused(&pairs, &training), "the network puts out 2 rows of scores for 4 classes");
        let no_amount = Training { epochs: None, ..batches(SGD) };
        assert!(refused(&data(&spec), &no_amount).contains("exactly one of `epochs` and `steps`"));
    }
}

#[test]
fn a_model_of_another_network_is_refused() {
    for lab in Lab::all() {
        let spec = spec(WITH_DROPOUT);
        let other = super::spec(r#"{"input":[6],"layers":[{"kind":"linear","out_features":3}]}"#);
        let start = other.initial_model(Seed(1)).unwrap();
        let result = lab.train(&data(&spec), &start, &spec, &batches(SGD), 1);
        assert!(matches!(result, Err(TrainError::DoesNotFit(what)) if what.contains("layers.0.weight")));
        let impossible = super::spec(r#"{"input":[6],"layers":[{"kind":"max_pool2d","kernel_size":2}]}"#);
        let result = lab.train(&data(&spec), &start, &impossible, &batches(SGD), 1);
        assert!(matches!(result, Err(TrainError::DoesNotFit(what)) if what.contains("layers[0] max_pool2d")));
        let own = ModelSpec::Parameters(start.parameters().specs().to_vec());
        let result = lab.train(&data(&spec), &start, &own, &batches(SGD), 1);
        assert!(matches!(result, Err(TrainError::DoesNotFit(what)) if what.contains("the app must bring the network")));
    }
}

#[test]
fn an_id_outside_the_vocabulary_is_refused() {
    for lab in Lab::all() {
        let spec = spec(RECURRENT);
        let start = spec.initial_model(Seed(1)).unwrap();
        for id in [5.0, -1.0, 0.5, 1e30] {
            let data = examples(&[7], vec![0.0, 1.0, 2.0, 3.0, 4.0, 0.0, id], classes(1, 3, 1));
            let result = lab.train(&data, &start, &spec, &batches(SGD), 1);
            assert!(matches!(result, Err(TrainError::DoesNotFit(what)) if what.contains("is not a token id")));
        }
    }
}

/// Two examples of which one is not a number.
struct Broken;

impl Examples for Broken {
    fn len(&self) -> usize {
        2
    }

    fn input_shape(&self) -> &[usize] {
        &[1]
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, ExamplesError> {
        let inputs = indices.iter().map(|index| if *index == 1 { f32::NAN } else { 1.0 }).collect();
        Ok(Batch { inputs, targets: Targets::Classes(vec![0; indices.len()]) })
    }
}

#[test]
fn a_nan_passes_relu_and_pools() {
    for lab in Lab::all() {
        for layers in [
            r#"{"kind":"linear","out_features":3},{"kind":"relu"}"#,
            r#"{"kind":"layer_norm"},{"kind":"relu"}"#,
            r#"{"kind":"conv2d","out_channels":2,"kernel_size":1},{"kind":"relu"}"#,
            r#"{"kind":"conv2d","out_channels":2,"kernel_size":1},{"kind":"relu"},{"kind":"max_pool2d","kernel_size":2}"#,
            r#"{"kind":"avg_pool2d","kernel_size":2},{"kind":"relu"},{"kind":"layer_norm"}"#,
        ] {
            let spec = layer(&[1, 4, 4], layers);
            let mut inputs = random(16, 1);
            inputs[5] = f32::NAN;
            let outputs = lab.evaluated(&spec, &random_model(&spec, 2), &inputs);
            assert!(outputs.iter().any(|value| value.is_nan()), "{layers}");
        }
    }
}

#[test]
fn the_bits_do_not_depend_on_the_number_of_threads() {
    let text = r#"{"input":[2,16,16],"layers":[
        {"kind":"conv2d","out_channels":9,"kernel_size":3,"padding":"same"},{"kind":"relu"},
        {"kind":"max_pool2d","kernel_size":2},{"kind":"batch_norm"},{"kind":"dropout","probability":0.2},
        {"kind":"conv2d","out_channels":5,"kernel_size":[2,3],"stride":[1,2]},{"kind":"tanh"},{"kind":"flatten"},
        {"kind":"linear","out_features":700},{"kind":"relu"},{"kind":"linear","out_features":301},
        {"kind":"linear","out_features":3}]}"#;
    let spec = spec(text);
    let adam = Optimizer::Adam { learning_rate: 0.01, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.1 };
    let data = examples(&[2, 16, 16], random(41 * 512, 1), classes(41, 3, 2));
    let start = spec.initial_model(Seed(1)).unwrap();
    let training = Training { batch_size: Some(37), ..batches(adam) };
    for lab in Lab::all() {
        let run = |threads| {
            let lab = Lab { threads, ..lab };
            let trained = lab.train(&data, &start, &spec, &training, 1).unwrap();
            let measured = lab.evaluate(&data, &model(&spec, trained.values.clone()), &spec, Loss::CrossEntropy);
            let bits: Vec<u32> = trained.values.iter().map(|value| value.to_bits()).collect();
            (bits, trained.loss.to_bits(), measured.unwrap().loss.to_bits())
        };
        let one = run(1);
        for threads in [2, 3, 7] {
            assert_eq!(run(threads), one, "{threads} threads at {lab:?}");
        }
    }
}

#[test]
fn a_loss_or_a_weight_that_is_not_finite_is_a_divergence() {
    for lab in Lab::all() {
        let linear = r#"{"kind":"linear","out_features":2}"#;
        let spec = layer(&[1], linear);
        let start = spec.initial_model(Seed(1)).unwrap();
        let training = full_batch(1, Loss::CrossEntropy, SGD);
        let task = TrainTask::new(&start, &spec, &training, Seed(1));
        assert_eq!(
            LayerTrainer::new(Arc::new(Broken)).at_level(lab.level).train(&task, &|| false),
            Err(TrainError::Diverged)
        );
        // The last step's loss is finite, and its weights are not.
        let leap = Optimizer::Sgd { learning_rate: 1e300, momentum: 0.0, weight_decay: 0.0, nesterov: false };
        let data = examples(&[1], vec![1.0, 2.0], Targets::Classes(vec![0, 1]));
        let result = lab.train(&data, &start, &spec, &full_batch(1, Loss::CrossEntropy, leap), 1);
        assert_eq!(result, Err(TrainError::Diverged));
    }
}

#[test]
fn a_vector_network_reads_images_of_as_many_numbers() {
    for lab in Lab::all() {
        let spec = layer(&[4], r#"{"kind":"linear","out_features":3}"#);
        let start = spec.initial_model(Seed(1)).unwrap();
        let inputs = random(40, 1);
        let flat = lab.train(&examples(&[4], inputs.clone(), classes(10, 3, 2)), &start, &spec, &batches(SGD), 1);
        let image = lab.train(&examples(&[1, 2, 2], inputs, classes(10, 3, 2)), &start, &spec, &batches(SGD), 1);
        assert!(flat.is_ok());
        assert_eq!(flat, image);
    }
}

#[test]
fn an_evaluation_is_the_mean_over_all_examples_whatever_the_batches() {
    for lab in Lab::all() {
        let spec = layer(&[2], r#"{"kind":"linear","out_features":3}"#);
        let start = random_model(&spec, 1);
        let inputs = random(2 * 600, 2);
        let Targets::Classes(labels) = classes(600, 3, 3) else { unreachable!("these are classes") };
        let (mut loss, mut right) = (0.0, 0);
        for (x, class) in inputs.chunks(2).map(wide).zip(&labels) {
            let values = wide(start.values());
            let scores: Vec<f64> =
                (0..3).map(|k| values[2 * k] * x[0] + values[2 * k + 1] * x[1] + values[6 + k]).collect();
            loss += scores.iter().map(|score| score.exp()).sum::<f64>().ln() - scores[*class as usize];
            right += u32::from(scores.iter().all(|score| *score <= scores[*class as usize]));
        }
        let data = examples(&[2], inputs, Targets::Classes(labels));
        let measured = lab.evaluate(&data, &start, &spec, Loss::CrossEntropy).unwrap();
        assert_eq!(measured.examples, 600);
        assert!((measured.loss - loss / 600.0).abs() < 1e-6);
        assert_eq!(measured.accuracy, Some(f64::from(right) / 600.0));
    }
}

#[test]
fn values_have_a_loss_and_no_accuracy() {
    for lab in Lab::all() {
        let spec = layer(&[1], r#"{"kind":"linear","out_features":2}"#);
        let start = model(&spec, vec![1.0, 2.0, 0.5, 0.0]);
        let data = examples(&[1], vec![1.0, -1.0], Targets::Values { values: vec![1.0, 2.0, 0.0, 1.0], width: 2 });
        let measured = lab.evaluate(&data, &start, &spec, Loss::Mse).unwrap();
        // Outputs (1.5, 2) and (-0.5, -2): errors 0.5, 0, -0.5, -3.
        assert!((measured.loss - (0.25 + 0.0 + 0.25 + 9.0) / 4.0).abs() < 1e-6);
        assert_eq!(measured.accuracy, None);
    }
}

#[test]
fn a_network_may_answer_for_each_position_of_a_sequence() {
    for lab in Lab::all() {
        let spec = spec(
            r#"{"input":[6],"layers":[{"kind":"embedding","tokens":4,"size":8},
            {"kind":"lstm","hidden_size":12,"return_sequences":true},{"kind":"linear","out_features":4}]}"#,
        );
        // The answer at each position is the token before it, which only a memory can know.
        let mut stream = Seed(1).stream();
        let ids: Vec<u32> = (0..60 * 6).map(|_| stream.below(4) as u32).collect();
        let before = |place: usize| if place.is_multiple_of(6) { 0 } else { ids[place - 1] };
        let targets = Targets::Classes((0..ids.len()).map(before).collect());
        let data = examples(&[6], ids.iter().map(|id| *id as f32).collect(), targets);
        let start = spec.initial_model(Seed(2)).unwrap();
        let optimizer =
            Optimizer::AdamW { learning_rate: 0.03, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01 };
        let training = Training { epochs: Some(20), ..batches(optimizer) };
        let trained = lab.train(&data, &start, &spec, &training, 1).unwrap();
        let measured = lab.evaluate(&data, &model(&spec, trained.values), &spec, Loss::CrossEntropy).unwrap();
        assert_eq!(measured.examples, 60);
        assert!(measured.accuracy.unwrap() > 0.95, "{measured:?}");
    }
}

/// Goal: what a trainer promises about a training that is suspended. Method: networks with every kind of state (running
/// statistics, dropout, recurrent layers), optimisers with and without moments, a pull and constants; suspended after
/// each of its steps and gone on with by another trainer, the bits are those of a training without a pause.
#[test]
fn a_suspended_training_goes_on_with_the_same_bits() {
    let sgd = |momentum| Optimizer::Sgd { learning_rate: 0.1, momentum, weight_decay: 0.01, nesterov: false };
    let adam = Optimizer::Adam { learning_rate: 0.01, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 };
    for lab in Lab::all() {
        for (text, optimizer, mu) in
            [(WITH_DROPOUT, sgd(0.9), 0.0), (RECURRENT, adam.clone(), 0.5), (CONVOLUTIONAL, sgd(0.0), 0.5)]
        {
            let spec = spec(text);
            let (data, start) = (data(&spec), spec.initial_model(Seed(1)).unwrap());
            let training = Training { algorithm: Algorithm::FedProx { mu, adaptive: None }, ..batches(optimizer) };
            let constant = random(start.values().len(), 2);
            let whole = TrainTask { constant: Some(&constant), ..TrainTask::new(&start, &spec, &training, Seed(3)) };
            let undisturbed = lab.trainer(&data).train(&whole, &|| false).unwrap();
            for stop_after in 1..undisturbed.steps {
                let asked = Cell::new(0);
                let stops = || asked.replace(asked.get() + 1) == stop_after;
                let task = TrainTask { may_suspend: true, ..whole };
                let suspended = lab.trainer(&data).train(&task, &stops).unwrap_err();
                let TrainError::Suspended(checkpoint) = suspended else { panic!("{suspended:?}") };
                assert_eq!(checkpoint.steps, stop_after);
                let rest = TrainTask { resume: Some(&checkpoint), ..whole };
                assert_eq!(lab.trainer(&data).train(&rest, &|| false).unwrap(), undisturbed, "{stop_after}: {text}");
            }
            let never = TrainTask { may_suspend: true, ..whole };
            assert_eq!(lab.trainer(&data).train(&never, &|| true), Err(TrainError::Interrupted), "nothing is lost");
            let strange = Checkpoint { steps: 2, ..Checkpoint::default() };
            let anew = TrainTask { resume: Some(&strange), ..whole };
            assert_eq!(lab.trainer(&data).train(&anew, &|| false).unwrap(), undisturbed, "of another release");
        }
    }
}

/// Goal: a training pauses after every few steps and after the last one. With the values that it had it ends with the
/// bits of a training without a pause, and with others it goes on from those.
#[test]
fn a_training_that_pauses_goes_on_with_the_values_that_it_is_given() {
    let momentum = Optimizer::Sgd { learning_rate: 0.1, momentum: 0.9, weight_decay: 0.01, nesterov: false };
    for lab in Lab::all() {
        let spec = spec(CONVOLUTIONAL);
        let (data, start) = (data(&spec), spec.initial_model(Seed(1)).unwrap());
        let training = Training { epochs: None, steps: Some(7), ..batches(momentum.clone()) };
        let whole = TrainTask::new(&start, &spec, &training, Seed(3));
        let undisturbed = lab.trainer(&data).train(&whole, &|| false).unwrap();
        let (mut pauses, mut resume) = (Vec::new(), None);
        let trained = loop {
            let task = TrainTask { pause_every: Some(3), resume: resume.as_ref(), ..whole };
            match lab.trainer(&data).train(&task, &|| false) {
                Err(TrainError::Paused(checkpoint)) => {
                    pauses.push(checkpoint.steps);
                    resume = Some(*checkpoint);
                }
                trained => break trained.unwrap(),
            }
        };
        assert_eq!((pauses, &trained), (vec![3, 6, 7], &undisturbed));
        assert_eq!(resume.as_ref().and_then(Checkpoint::values), Some(&trained.values[..]));
        let others = vec![0.25; start.values().len()];
        let last = resume.unwrap().with_values(others.clone());
        let task = TrainTask { pause_every: Some(3), resume: Some(&last), ..whole };
        assert_eq!(lab.trainer(&data).train(&task, &|| false).unwrap().values, others);
        let never = TrainTask { pause_every: None, ..whole };
        assert_eq!(lab.trainer(&data).train(&never, &|| false).unwrap(), undisturbed);
    }
}
