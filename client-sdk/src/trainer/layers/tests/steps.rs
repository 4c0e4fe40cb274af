//! Whole optimiser steps against formulas worked out by hand.

use super::*;

/// A network 4 - 5 (relu) - 3, its values in the order of the model.
struct Perceptron {
    hidden: Vec<f64>,
    hidden_bias: Vec<f64>,
    output: Vec<f64>,
    output_bias: Vec<f64>,
}

const PERCEPTRON: &str = r#"{"input":[4],"layers":[
    {"kind":"linear","out_features":5},{"kind":"relu"},{"kind":"linear","out_features":3}]}"#;

impl Perceptron {
    fn of(model: &Model) -> Self {
        let [hidden, hidden_bias, output, output_bias] = [0, 1, 2, 3].map(|index| wide(model.tensor(index)));
        Self { hidden, hidden_bias, output, output_bias }
    }

    fn values(&self) -> Vec<f64> {
        [&self.hidden[..], &self.hidden_bias, &self.output, &self.output_bias].concat()
    }

    /// One step down the mean cross-entropy; returns that loss.
    fn step(&mut self, inputs: &[f64], classes: &[u32], rate: f64) -> f64 {
        let mut gradient =
            Self { hidden: vec![0.0; 20], hidden_bias: vec![0.0; 5], output: vec![0.0; 15], output_bias: vec![0.0; 3] };
        let (share, mut loss) = (1.0 / classes.len() as f64, 0.0);
        for (x, class) in inputs.chunks(4).zip(classes) {
            let sum = |weight: &[f64], values: &[f64], row: usize| -> f64 {
                values.iter().enumerate().map(|(column, value)| weight[row * values.len() + column] * value).sum()
            };
            let before: Vec<f64> = (0..5).map(|j| sum(&self.hidden, x, j) + self.hidden_bias[j]).collect();
            let hidden: Vec<f64> = before.iter().map(|value| value.max(0.0)).collect();
            let scores: Vec<f64> =
                (0..3).map(|k| (sum(&self.output, &hidden, k) + self.output_bias[k]).exp()).collect();
            let total: f64 = scores.iter().sum();
            loss -= share * (scores[*class as usize] / total).ln();
            let error: Vec<f64> =
                (0..3).map(|k| share * (scores[k] / total - f64::from(u8::from(k == *class as usize)))).collect();
            for (k, error) in error.iter().enumerate() {
                gradient.output_bias[k] += error;
                for (j, hidden) in hidden.iter().enumerate() {
                    gradient.output[k * 5 + j] += error * hidden;
                }
            }
            for j in (0..5).filter(|j| before[*j] > 0.0) {
                let back: f64 = (0..3).map(|k| error[k] * self.output[k * 5 + j]).sum();
                gradient.hidden_bias[j] += back;
                for (i, x) in x.iter().enumerate() {
                    gradient.hidden[j * 4 + i] += back * x;
                }
            }
        }
        let parts = [
            (&mut self.hidden, gradient.hidden),
            (&mut self.hidden_bias, gradient.hidden_bias),
            (&mut self.output, gradient.output),
            (&mut self.output_bias, gradient.output_bias),
        ];
        for (weights, gradients) in parts {
            weights.iter_mut().zip(gradients).for_each(|(weight, gradient)| *weight -= rate * gradient);
        }
        loss
    }
}

#[test]
fn a_step_of_sgd_goes_down_the_cross_entropy_by_hand() {
    for lab in Lab::all() {
        let spec = spec(PERCEPTRON);
        let start = random_model(&spec, 1);
        let inputs = random(40, 2);
        let Targets::Classes(labels) = classes(10, 3, 3) else { unreachable!("these are classes") };
        let data = examples(&[4], inputs.clone(), Targets::Classes(labels.clone()));
        let trained = lab.train(&data, &start, &spec, &full_batch(3, Loss::CrossEntropy, SGD), 1).unwrap();
        let mut reference = Perceptron::of(&start);
        let losses: Vec<f64> = (0..3).map(|_| reference.step(&wide(&inputs), &labels, 0.1)).collect();
        assert_near(&trained.values, &reference.values(), 1e-5);
        assert!((trained.loss - losses.iter().sum::<f64>() / 3.0).abs() < 1e-6);
        assert_eq!((trained.steps, trained.examples), (3, 10));
    }
}

/// The gradient of the mean squared error of `y = w x + b` over all outputs, for 2 inputs and 2 outputs.
fn linear_gradient(values: &[f64], inputs: &[f64], targets: &[f64]) -> Vec<f64> {
    let mut gradient = vec![0.0; 6];
    for (x, y) in inputs.chunks(2).zip(targets.chunks(2)) {
        for output in 0..2 {
            let predicted = values[output * 2] * x[0] + values[output * 2 + 1] * x[1] + values[4 + output];
            let error = 2.0 * (predicted - y[output]) / targets.len() as f64;
            gradient[output * 2] += error * x[0];
            gradient[output * 2 + 1] += error * x[1];
            gradient[4 + output] += error;
        }
    }
    gradient
}

/// The formulas of `torch.optim.SGD`, `Adam` and `AdamW`, one number at a time.
fn torch_step(optimizer: &Optimizer, step: i32, weight: f64, gradient: f64, memory: &mut [f64; 2]) -> f64 {
    let mut moments = |gradient: f64, beta1: f64, beta2: f64, epsilon: f64| {
        memory[0] = beta1 * memory[0] + (1.0 - beta1) * gradient;
        memory[1] = beta2 * memory[1] + (1.0 - beta2) * gradient * gradient;
        let corrected = [memory[0] / (1.0 - beta1.powi(step)), memory[1] / (1.0 - beta2.powi(step))];
        corrected[0] / (corrected[1].sqrt() + epsilon)
    };
    match *optimizer {
        Optimizer::Sgd { learning_rate, momentum, weight_decay, nesterov } => {
            let gradient = gradient + weight_decay * weight;
            memory[0] = if step == 1 { gradient } else { momentum * memory[0] + gradient };
            let direction = if nesterov { gradient + momentum * memory[0] } else { memory[0] };
            weight - learning_rate * direction
        }
        Optimizer::Adam { learning_rate, beta1, beta2, epsilon, weight_decay } => {
            weight - learning_rate * moments(gradient + weight_decay * weight, beta1, beta2, epsilon)
        }
        Optimizer::AdamW { learning_rate, beta1, beta2, epsilon, weight_decay } => {
            weight * (1.0 - learning_rate * weight_decay) - learning_rate * moments(gradient, beta1, beta2, epsilon)
        }
    }
}

#[test]
fn optimisers_follow_pytorchs_formulas() {
    for lab in Lab::all() {
        let sgd =
            |momentum, weight_decay, nesterov| Optimizer::Sgd { learning_rate: 0.2, momentum, weight_decay, nesterov };
        let adam = |weight_decay, epsilon| Optimizer::Adam {
            learning_rate: 0.05,
            beta1: 0.8,
            beta2: 0.95,
            epsilon,
            weight_decay,
        };
        let adam_w = |weight_decay| Optimizer::AdamW {
            learning_rate: 0.05,
            beta1: 0.8,
            beta2: 0.95,
            epsilon: 1e-8,
            weight_decay,
        };
        let optimizers = [
            sgd(0.0, 0.0, false),
            sgd(0.0, 0.3, false),
            sgd(0.9, 0.0, false),
            sgd(0.9, 0.3, false),
            sgd(0.9, 0.3, true),
            adam(0.0, 1e-8),
            adam(0.3, 0.1),
            adam_w(0.0),
            adam_w(0.3),
        ];
        let spec = layer(&[2], r#"{"kind":"linear","out_features":2}"#);
        let start = random_model(&spec, 1);
        let (inputs, targets) = (random(10, 2), random(10, 3));
        let data = examples(&[2], inputs.clone(), Targets::Values { values: targets.clone(), width: 2 });
        for optimizer in optimizers {
            let mut values = wide(start.values());
            let mut memories = vec![[0.0; 2]; 6];
            for step in 1..=4 {
                let gradient = linear_gradient(&values, &wide(&inputs), &wide(&targets));
                for ((value, gradient), memory) in values.iter_mut().zip(gradient).zip(&mut memories) {
                    *value = torch_step(&optimizer, step, *value, gradient, memory);
                }
            }
            let trained = lab.train(&data, &start, &spec, &full_batch(4, Loss::Mse, optimizer.clone()), 1).unwrap();
            assert_near(&trained.values, &values, 2e-6);
        }
    }
}

#[test]
fn fedprox_adds_the_pull_towards_the_global_model() {
    for lab in Lab::all() {
        let spec = layer(&[2], r#"{"kind":"linear","out_features":2}"#);
        let start = random_model(&spec, 1);
        let (inputs, targets) = (random(10, 2), random(10, 3));
        let data = examples(&[2], inputs.clone(), Targets::Values { values: targets.clone(), width: 2 });
        let adam: Optimizer = serde_json::from_str(r#"{"kind":"adam_w","learning_rate":0.05}"#).unwrap();
        let momentum = Optimizer::Sgd { learning_rate: 0.2, momentum: 0.9, weight_decay: 0.3, nesterov: true };
        for optimizer in [SGD, momentum, adam] {
            let plain = full_batch(4, Loss::Mse, optimizer.clone());
            let proximal = |mu| Training { algorithm: Algorithm::FedProx { mu, adaptive: None }, ..plain.clone() };
            let mut values = wide(start.values());
            let mut memories = vec![[0.0; 2]; 6];
            for step in 1..=4 {
                let gradient = linear_gradient(&values, &wide(&inputs), &wide(&targets));
                for (index, (gradient, memory)) in gradient.into_iter().zip(&mut memories).enumerate() {
                    let pulled = gradient + 0.5 * (values[index] - f64::from(start.values()[index]));
                    values[index] = torch_step(&optimizer, step, values[index], pulled, memory);
                }
            }
            let trained = lab.train(&data, &start, &spec, &proximal(0.5), 1).unwrap();
            assert_near(&trained.values, &values, 2e-6);
            let without = lab.train(&data, &start, &spec, &proximal(0.0), 1).unwrap();
            assert_eq!(without, lab.train(&data, &start, &spec, &plain, 1).unwrap(), "mu = 0 is plain training");
        }
    }
}

/// Goal: FedProx reaches the printed fixed points of the toy for drift. Method: two clients with the losses
/// `(y - 0)^2 / 2` and `4 (y - 1)^2 / 2` of one bias, as mean squared errors of repeated targets; many steps solve the
/// local problem, and the server averages.
#[test]
fn fedprox_reaches_the_fixed_points_of_the_toy() {
    let lab = Lab::all().into_iter().next().unwrap();
    let spec = layer(&[1], r#"{"kind":"linear","out_features":1}"#);
    for (mu, fixed_point) in [(0.1, 0.517647), (1.0, 0.615385), (10.0, 0.758621)] {
        let mut x = 0.0f32;
        for _ in 0..60 {
            let start = Model::new(spec.parameters().unwrap().into(), vec![0.0, x]).unwrap();
            // The error of the mean is (y - b)^2, so the weight of the distance is scaled as the loss is.
            let solve = |curvature: f64, target: f32| {
                let data = examples(&[1], vec![0.0; 4], Targets::Values { values: vec![target; 4], width: 1 });
                let training = Training {
                    algorithm: Algorithm::FedProx { mu: 2.0 * mu / curvature, adaptive: None },
                    ..full_batch(
                        400,
                        Loss::Mse,
                        Optimizer::Sgd {
                            learning_rate: 1.0 / (2.0 + 2.0 * mu / curvature),
                            momentum: 0.0,
                            weight_decay: 0.0,
                            nesterov: false,
                        },
                    )
                };
                lab.train(&data, &start, &spec, &training, 1).unwrap().values[1]
            };
            x = (solve(1.0, 0.0) + solve(4.0, 1.0)) / 2.0;
        }
        assert!((x - fixed_point).abs() < 1e-5, "mu {mu}: {x} instead of {fixed_point}");
    }
}

#[test]
fn one_full_batch_step_of_each_client_averages_to_one_step_on_all_examples() {
    for lab in Lab::all() {
        let spec = spec(PERCEPTRON);
        let start = random_model(&spec, 1);
        let all = examples(&[4], random(120, 2), classes(30, 3, 3));
        let step = full_batch(1, Loss::CrossEntropy, SGD);
        let central = lab.train(&all, &start, &spec, &step, 1).unwrap();
        let mut mean = vec![0.0; start.values().len()];
        for (seed, range) in [(2, 0..5), (3, 5..12), (4, 12..30)] {
            let client = all.subset(&range.collect::<Vec<_>>()).unwrap();
            let trained = lab.train(&client, &start, &spec, &step, seed).unwrap();
            let share = trained.examples as f64 / 30.0;
            mean.iter_mut().zip(&trained.values).for_each(|(mean, value)| *mean += share * f64::from(*value));
        }
        assert_near(&central.values, &mean, 1e-6);
    }
}
