//! What each layer computes.

use super::*;

type Function = fn(f64) -> f64;
/// States of one example of a recurrent layer.
type States = fn(&Model, &[f32]) -> Vec<f64>;

#[test]
fn linear_reads_the_last_dimension() {
    for lab in Lab::all() {
        for (shape, bias) in [(vec![3], true), (vec![4, 3], true), (vec![2, 2, 3], false)] {
            let spec = layer(&shape, &format!(r#"{{"kind":"linear","out_features":5,"bias":{bias}}}"#));
            let model = random_model(&spec, 1);
            let rows = 2 * shape.iter().product::<usize>() / 3;
            let inputs = random(rows * 3, 2);
            let weight = model.tensor(0);
            let mut expected = Vec::new();
            for row in inputs.chunks(3) {
                for output in 0..5 {
                    let terms = (0..3).map(|input| f64::from(row[input]) * f64::from(weight[output * 3 + input]));
                    let constant = if bias { f64::from(model.tensor(1)[output]) } else { 0.0 };
                    expected.push(terms.sum::<f64>() + constant);
                }
            }
            assert_near(&lab.evaluated(&spec, &model, &inputs), &expected, 1e-5);
        }
    }
}

#[test]
fn a_low_rank_layer_adds_the_scaled_product_of_its_matrices() {
    for lab in Lab::all() {
        for rows in [1, 2, 40] {
            let spec = layer(&[3], r#"{"kind":"low_rank","out_features":5,"rank":2,"alpha":6.0}"#);
            let model = random_model(&spec, 1);
            let inputs = random(rows * 3, 2);
            let [weight, bias, a, b] = [0, 1, 2, 3].map(|index| wide(model.tensor(index)));
            let mut expected = Vec::new();
            for row in inputs.chunks(3) {
                for output in 0..5 {
                    let of = |input: usize| {
                        let product: f64 = (0..2).map(|rank| b[output * 2 + rank] * a[rank * 3 + input]).sum();
                        weight[output * 3 + input] + 6.0 / 2.0 * product
                    };
                    expected.push(bias[output] + (0..3).map(|input| of(input) * f64::from(row[input])).sum::<f64>());
                }
            }
            assert_near(&lab.evaluated(&spec, &model, &inputs), &expected, 1e-5);
        }
    }
}

/// `images[channel][y][x]`, 0 outside.
fn pixel(image: &[f32], [height, width]: [usize; 2], channel: usize, y: isize, x: isize) -> f64 {
    let inside = y >= 0 && x >= 0 && (y as usize) < height && (x as usize) < width;
    if inside { f64::from(image[(channel * height + y as usize) * width + x as usize]) } else { 0.0 }
}

#[test]
fn convolution_is_the_sum_over_each_window() {
    for lab in Lab::all() {
        // Kernel, stride, zeros before, how the padding is written, output size for an image of 6 x 5.
        let cases = [
            ([3, 2], [1, 1], [0, 0], r#""valid""#, [4, 4]),
            ([3, 2], [2, 1], [1, 2], "[1,2]", [3, 8]),
            ([3, 5], [1, 1], [1, 2], r#""same""#, [6, 5]),
            ([2, 4], [1, 1], [0, 1], r#""same""#, [6, 5]),
            ([1, 1], [2, 3], [0, 0], "0", [3, 2]),
        ];
        for (kernel, stride, before, padding, size) in cases {
            let text = format!(
                r#"{{"kind":"conv2d","out_channels":4,"kernel_size":{kernel:?},"stride":{stride:?},"padding":{padding}}}"#
            );
            let spec = layer(&[3, 6, 5], &text);
            let model = random_model(&spec, 1);
            let inputs = random(2 * 90, 2);
            let weight = model.tensor(0);
            let mut expected = Vec::new();
            for image in inputs.chunks(90) {
                for output in 0..4 {
                    for (y, x) in places(size) {
                        let mut sum = f64::from(model.tensor(1)[output]);
                        for channel in 0..3 {
                            for (dy, dx) in places(kernel) {
                                let place = ((output * 3 + channel) * kernel[0] + dy) * kernel[1] + dx;
                                let [row, column] = [(y * stride[0] + dy) as isize, (x * stride[1] + dx) as isize];
                                let [row, column] = [row - before[0] as isize, column - before[1] as isize];
                                sum += f64::from(weight[place]) * pixel(image, [6, 5], channel, row, column);
                            }
                        }
                        expected.push(sum);
                    }
                }
            }
            assert_near(&lab.evaluated(&spec, &model, &inputs), &expected, 1e-5);
        }
    }
}

#[test]
fn pools_take_the_largest_or_the_mean_of_each_window() {
    for lab in Lab::all() {
        // Pools have no parameters, so a 1 x 1 convolution with weight 1 stands before them.
        for (kernel, stride, size) in
            [([2, 2], None, [3, 2]), ([3, 2], Some([1, 2]), [4, 2]), ([2, 3], Some([3, 1]), [2, 3])]
        {
            for largest in [true, false] {
                let kind = if largest { "max_pool2d" } else { "avg_pool2d" };
                let step = stride.map(|stride| format!(r#","stride":{stride:?}"#)).unwrap_or_default();
                let same = r#"{"kind":"conv2d","out_channels":1,"kernel_size":1,"bias":false}"#;
                let spec = layer(&[1, 6, 5], &format!(r#"{same},{{"kind":"{kind}","kernel_size":{kernel:?}{step}}}"#));
                let inputs = random(2 * 30, 2);
                let stride = stride.unwrap_or(kernel);
                let mut expected = Vec::new();
                for image in inputs.chunks(30) {
                    for (y, x) in places(size) {
                        let window = places(kernel).map(|(dy, dx)| {
                            pixel(image, [6, 5], 0, (y * stride[0] + dy) as isize, (x * stride[1] + dx) as isize)
                        });
                        expected.push(match largest {
                            true => window.fold(f64::NEG_INFINITY, f64::max),
                            false => window.sum::<f64>() / (kernel[0] * kernel[1]) as f64,
                        });
                    }
                }
                assert_near(&lab.evaluated(&spec, &model(&spec, vec![1.0]), &inputs), &expected, 1e-6);
            }
        }
    }
}

/// All places of a rectangle, row by row.
fn places([height, width]: [usize; 2]) -> impl Iterator<Item = (usize, usize)> {
    (0..height).flat_map(move |y| (0..width).map(move |x| (y, x)))
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The normal distribution function by Simpson's rule.
fn phi(x: f64) -> f64 {
    let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let width = x / 1000.0;
    let at = |step: usize| density(step as f64 * width) * if step.is_multiple_of(2) { 2.0 } else { 4.0 };
    0.5 + width / 3.0 * ((1..1000).map(at).sum::<f64>() + density(0.0) + density(x))
}

#[test]
fn activations_are_their_functions() {
    for lab in Lab::all() {
        let inputs: Vec<f32> = (-20..20).map(|tenth| tenth as f32 * 0.2).collect();
        let functions: [(&str, Function); 4] =
            [("relu", |x| x.max(0.0)), ("gelu", |x| x * phi(x)), ("tanh", f64::tanh), ("sigmoid", sigmoid)];
        for (kind, function) in functions {
            let one = r#"{"kind":"linear","out_features":1,"bias":false}"#;
            let spec = layer(&[1], &format!(r#"{one},{{"kind":"{kind}"}},{{"kind":"flatten"}}"#));
            let expected: Vec<f64> = inputs.iter().map(|x| function(f64::from(*x))).collect();
            assert_near(&lab.evaluated(&spec, &model(&spec, vec![1.0]), &inputs), &expected, 1e-6);
        }
    }
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64)
}

#[test]
fn layer_norm_normalises_the_last_dimension() {
    for lab in Lab::all() {
        for shape in [vec![6], vec![3, 6]] {
            let spec = layer(&shape, r#"{"kind":"layer_norm","epsilon":0.01}"#);
            let model = random_model(&spec, 1);
            let inputs = random(4 * shape.iter().product::<usize>(), 2);
            let mut expected = Vec::new();
            for row in inputs.chunks(6).map(wide) {
                let (mean, variance) = mean_and_variance(&row);
                let (weight, bias) = (wide(model.tensor(0)), wide(model.tensor(1)));
                expected.extend((0..6).map(|i| (row[i] - mean) / (variance + 0.01).sqrt() * weight[i] + bias[i]));
            }
            assert_near(&lab.evaluated(&spec, &model, &inputs), &expected, 1e-5);
        }
    }
}

/// Weight, bias, running mean and running variance of 3 features or channels.
fn batch_norm_model(spec: &ModelSpec) -> Model {
    let mut values = random(12, 1);
    values[9..].copy_from_slice(&[0.5, 1.0, 2.0]);
    model(spec, values)
}

#[test]
fn batch_norm_trains_with_the_batch_and_measures_with_running_statistics() {
    for lab in Lab::all() {
        for (shape, positions) in [(vec![3], 1), (vec![3, 2, 4], 8)] {
            let spec = layer(&shape, r#"{"kind":"batch_norm","epsilon":0.01,"momentum":0.2}"#);
            let model = batch_norm_model(&spec);
            let parameters: Vec<Vec<f64>> = (0..4).map(|index| wide(model.tensor(index))).collect();
            let inputs = random(5 * 3 * positions, 2);
            let channel_of = |place: usize| place / positions % 3;
            let normed = |statistics: &dyn Fn(usize) -> (f64, f64)| -> Vec<f64> {
                let at = |(place, value): (usize, &f32)| {
                    let channel = channel_of(place);
                    let (mean, variance) = statistics(channel);
                    (f64::from(*value) - mean) / (variance + 0.01).sqrt() * parameters[0][channel]
                        + parameters[1][channel]
                };
                inputs.iter().enumerate().map(at).collect()
            };
            let of_batch = |channel: usize| {
                let own = inputs.iter().enumerate().filter(|(place, _)| channel_of(*place) == channel);
                mean_and_variance(&own.map(|(_, value)| f64::from(*value)).collect::<Vec<_>>())
            };

            let measured = lab.evaluated(&spec, &model, &inputs);
            assert_near(&measured, &normed(&|channel| (parameters[2][channel], parameters[3][channel])), 1e-5);

            let (trained, after) = lab.forward(&spec, &model, &inputs, Some(1));
            assert_near(&trained, &normed(&of_batch), 1e-5);
            let count = (5 * positions) as f64;
            let expected: Vec<f64> =
                (0..3)
                    .map(|channel| 0.8 * parameters[2][channel] + 0.2 * of_batch(channel).0)
                    .chain((0..3).map(|channel| {
                        0.8 * parameters[3][channel] + 0.2 * of_batch(channel).1 * count / (count - 1.0)
                    }))
                    .collect();
            assert_near(&after[6..], &expected, 1e-6);
            assert_eq!(after[..6], model.values()[..6]);
        }
    }
}

#[test]
fn a_single_example_leaves_the_running_statistics_alone() {
    for lab in Lab::all() {
        let spec = layer(&[3], r#"{"kind":"batch_norm"}"#);
        let model = batch_norm_model(&spec);
        let (outputs, after) = lab.forward(&spec, &model, &random(3, 2), Some(1));
        assert_near(&outputs, &wide(model.tensor(1)), 1e-6);
        assert_eq!(after, model.values());
    }
}

#[test]
fn a_running_variance_below_0_is_measured_as_0() {
    for lab in Lab::all() {
        let spec = layer(&[1], r#"{"kind":"batch_norm","epsilon":0.25}"#);
        let outputs = lab.evaluated(&spec, &model(&spec, vec![1.0, 0.0, 0.0, -1.0]), &[3.0]);
        assert_near(&outputs, &[6.0], 1e-6);
    }
}

#[test]
fn an_embedding_looks_vectors_up() {
    for lab in Lab::all() {
        let spec = layer(&[3], r#"{"kind":"embedding","tokens":5,"size":2}"#);
        let model = random_model(&spec, 1);
        let outputs = lab.evaluated(&spec, &model, &[4.0, 0.0, 4.0, 1.0, 2.0, 3.0]);
        let expected: Vec<f32> =
            [4, 0, 4, 1, 2, 3].iter().flat_map(|id| model.values()[id * 2..id * 2 + 2].to_vec()).collect();
        assert_eq!(outputs, expected);
    }
}

/// `weight[row] · vector + bias[row]` for a matrix of so many columns.
fn product(weight: &[f32], bias: &[f32], vector: &[f64]) -> Vec<f64> {
    let row = |(row, bias): (&[f32], &f32)| {
        row.iter().zip(vector).map(|(weight, value)| f64::from(*weight) * value).sum::<f64>() + f64::from(*bias)
    };
    weight.chunks(vector.len()).zip(bias).map(row).collect()
}

/// The states after each time step of one example of `[time, 3]`; 4 numbers in a state.
fn lstm(model: &Model, steps: &[f32]) -> Vec<f64> {
    let (mut state, mut cell, mut states) = (vec![0.0; 4], [0.0; 4], Vec::new());
    for input in steps.chunks(3).map(wide) {
        let of_input = product(model.tensor(0), model.tensor(2), &input);
        let of_state = product(model.tensor(1), model.tensor(3), &state);
        let gate = |gate: usize, unit: usize| of_input[gate * 4 + unit] + of_state[gate * 4 + unit];
        for unit in 0..4 {
            cell[unit] = sigmoid(gate(1, unit)) * cell[unit] + sigmoid(gate(0, unit)) * gate(2, unit).tanh();
            state[unit] = sigmoid(gate(3, unit)) * cell[unit].tanh();
        }
        states.extend(state.clone());
    }
    states
}

/// As [`lstm`], for the gated recurrent unit.
fn gru(model: &Model, steps: &[f32]) -> Vec<f64> {
    let (mut state, mut states) = (vec![0.0; 4], Vec::new());
    for input in steps.chunks(3).map(wide) {
        let of_input = product(model.tensor(0), model.tensor(2), &input);
        let of_state = product(model.tensor(1), model.tensor(3), &state);
        for unit in 0..4 {
            let reset = sigmoid(of_input[unit] + of_state[unit]);
            let update = sigmoid(of_input[4 + unit] + of_state[4 + unit]);
            let new = (of_input[8 + unit] + reset * of_state[8 + unit]).tanh();
            state[unit] = (1.0 - update) * new + update * state[unit];
        }
        states.extend(state.clone());
    }
    states
}

#[test]
fn recurrent_layers_follow_their_formulas_in_pytorchs_layout() {
    for lab in Lab::all() {
        let references: [(&str, States); 2] = [("lstm", lstm), ("gru", gru)];
        for (kind, reference) in references {
            for sequences in [true, false] {
                let text = format!(r#"{{"kind":"{kind}","hidden_size":4,"return_sequences":{sequences}}}"#);
                let spec = layer(&[5, 3], &text);
                let model = random_model(&spec, 1);
                let inputs = random(2 * 15, 2);
                let states = inputs.chunks(15).map(|steps| reference(&model, steps));
                let expected: Vec<f64> = match sequences {
                    true => states.flatten().collect(),
                    false => states.flat_map(|states| states[16..].to_vec()).collect(),
                };
                assert_near(&lab.evaluated(&spec, &model, &inputs), &expected, 1e-5);
            }
        }
    }
}

#[test]
fn dropout_only_works_in_training() {
    for lab in Lab::all() {
        let spec = layer(&[1000], r#"{"kind":"dropout","probability":0.5},{"kind":"layer_norm"}"#);
        let ones = model(&spec, vec![1.0; 2000]);
        let inputs = random(1000, 1);
        let measured = lab.evaluated(&spec, &ones, &inputs);
        let without = layer(&[1000], r#"{"kind":"layer_norm"}"#);
        assert_eq!(measured, lab.evaluated(&without, &model(&without, vec![1.0; 2000]), &inputs));
        let trained = |seed| lab.forward(&spec, &ones, &inputs, Some(seed)).0;
        assert_ne!(trained(1), measured);
        assert_ne!(trained(1), trained(2));
        assert_eq!(trained(1), trained(1));
    }
}

/// Layers of images compute channels last; every layer behind them reads the model's order again.
#[test]
fn what_follows_an_image_layer_reads_the_models_order() {
    for lab in Lab::all() {
        // A 1 x 1 convolution whose output channel 1 - c is input channel c.
        let swap = r#"{"kind":"conv2d","out_channels":2,"kernel_size":1,"bias":false}"#;
        for (kind, parameters) in [("flatten", 0), ("layer_norm", 6), ("relu", 0)] {
            let spec = layer(&[2, 2, 3], &format!(r#"{swap},{{"kind":"{kind}"}}"#));
            let mut values = vec![0.0, 1.0, 1.0, 0.0];
            values.extend(std::iter::repeat_n(1.0, parameters / 2).chain(std::iter::repeat_n(0.0, parameters / 2)));
            let inputs = random(24, 3);
            let swapped: Vec<f32> =
                inputs.chunks(6).collect::<Vec<_>>().chunks(2).flat_map(|pair| [pair[1], pair[0]].concat()).collect();
            let expected: Vec<f64> = match kind {
                "relu" => swapped.iter().map(|x| f64::from(x.max(0.0))).collect(),
                "layer_norm" => swapped
                    .chunks(3)
                    .map(wide)
                    .flat_map(|row| {
                        let (mean, variance) = mean_and_variance(&row);
                        row.into_iter().map(move |x| (x - mean) / (variance + 1e-5).sqrt())
                    })
                    .collect(),
                _ => wide(&swapped),
            };
            assert_near(&lab.evaluated(&spec, &model(&spec, values), &inputs), &expected, 1e-5);
        }
    }
}
