//! The gradient that a step follows, for every kind of layer.
//!
//! Method: one step of plain SGD with learning rate 1 moves the weights by the gradient. Along that direction the loss,
//! as the forward pass measures it (checked by itself in `forward`), must fall as fast as the gradient's length says.

use super::*;

/// Loss of the model moved by `distance` along `direction`, in training mode as far as batch norm goes.
fn loss_at(lab: Lab, data: &MemoryExamples, spec: &ModelSpec, start: &Model, direction: &[f64], distance: f64) -> f64 {
    let moved = start.values().iter().zip(direction).map(|(value, by)| (f64::from(*value) + distance * by) as f32);
    let moved = model(spec, moved.collect());
    let tiny = Optimizer::Sgd { learning_rate: 1e-30, momentum: 0.0, weight_decay: 0.0, nesterov: false };
    lab.train(data, &moved, spec, &full_batch(1, Loss::CrossEntropy, tiny), 1).unwrap().loss
}

#[track_caller]
fn gradient_is_the_slope_of_the_loss(lab: Lab, input: &[usize], layers: &str, inputs: Vec<f32>) {
    let spec = spec(&format!(r#"{{"input":{input:?},"layers":[{layers}]}}"#));
    // A low-rank layer starts where A has no gradient.
    let start = match layers.contains("low_rank") {
        true => random_model(&spec, 5),
        false => spec.initial_model(Seed(5)).unwrap(),
    };
    let count = inputs.len() / input.iter().product::<usize>();
    let data = examples(input, inputs, classes(count, 3, 9));
    let whole = Optimizer::Sgd { learning_rate: 1.0, momentum: 0.0, weight_decay: 0.0, nesterov: false };
    let trained = lab.train(&data, &start, &spec, &full_batch(1, Loss::CrossEntropy, whole), 1).unwrap();
    for (index, parameter) in start.parameters().specs().iter().enumerate() {
        if parameter.name.contains("running") {
            continue;
        }
        // Each parameter moves alone, so that a wrong small gradient is not hidden by a large one.
        let range = start.parameters().range(index);
        let moved = start.tensor(index).iter().zip(&trained.values[range.clone()]);
        let gradient: Vec<f64> = moved.map(|(from, to)| f64::from(*from) - f64::from(*to)).collect();
        let length = gradient.iter().map(|value| value * value).sum::<f64>().sqrt();
        assert!(length > 0.0, "{} stands still", parameter.name);
        let mut direction = vec![0.0; start.values().len()];
        direction.splice(range, gradient.iter().map(|value| value / length));
        // Small, because the largest of a window may change on the way.
        let distance = 0.0005;
        let [ahead, behind] = [distance, -distance].map(|by| loss_at(lab, &data, &spec, &start, &direction, by));
        let slope = (ahead - behind) / (2.0 * distance);
        assert!((slope - length).abs() < 0.02 * length + 3e-4, "{}: slope {slope}, length {length}", parameter.name);
    }
}

const HEAD: &str = r#"{"kind":"linear","out_features":3}"#;

#[test]
fn of_dense_networks() {
    for lab in Lab::all() {
        for function in ["relu", "gelu", "tanh", "sigmoid"] {
            let layers = format!(r#"{{"kind":"linear","out_features":6}},{{"kind":"{function}"}},{HEAD}"#);
            gradient_is_the_slope_of_the_loss(lab, &[4], &layers, random(40, 3));
        }
    }
}

#[test]
fn of_low_rank_products() {
    for lab in Lab::all() {
        let low_rank = r#"{"kind":"low_rank","out_features":6,"rank":2,"alpha":3.0}"#;
        let layers = format!(r#"{low_rank},{{"kind":"tanh"}},{low_rank},{{"kind":"relu"}},{HEAD}"#);
        gradient_is_the_slope_of_the_loss(lab, &[4], &layers, random(40, 3));
    }
}

#[test]
fn of_norms() {
    for lab in Lab::all() {
        let layers =
            format!(r#"{{"kind":"linear","out_features":6}},{{"kind":"layer_norm"}},{{"kind":"tanh"}},{HEAD}"#);
        gradient_is_the_slope_of_the_loss(lab, &[4], &layers, random(40, 3));
        // The norm's input must be spread out, or its curvature drowns the slope; a bias before it would stand still.
        let layers = format!(
            r#"{{"kind":"linear","out_features":6,"bias":false}},{{"kind":"batch_norm"}},{{"kind":"tanh"}},{HEAD}"#
        );
        gradient_is_the_slope_of_the_loss(lab, &[4], &layers, random(40, 3));
    }
}

#[test]
fn of_convolutions_and_pools() {
    for lab in Lab::all() {
        for pool in ["max_pool2d", "avg_pool2d"] {
            let layers = format!(
                r#"{{"kind":"conv2d","out_channels":4,"kernel_size":[2,3],"padding":"same"}},{{"kind":"tanh"}},
               {{"kind":"{pool}","kernel_size":2}},
               {{"kind":"conv2d","out_channels":3,"kernel_size":2,"stride":[1,2],"padding":1,"bias":false}},
               {{"kind":"batch_norm"}},{{"kind":"flatten"}},{HEAD}"#
            );
            gradient_is_the_slope_of_the_loss(lab, &[2, 6, 5], &layers, random(8 * 60, 3));
        }
    }
}

#[test]
fn of_windows_that_overlap_or_see_only_zeros() {
    for lab in Lab::all() {
        for (stride, padding) in [("[1,1]", "[3,2]"), ("[2,3]", "[1,0]"), ("[3,1]", "[4,4]")] {
            let layers = format!(
                r#"{{"kind":"conv2d","out_channels":35,"kernel_size":[3,2],"padding":1}},{{"kind":"relu"}},
               {{"kind":"max_pool2d","kernel_size":[3,2],"stride":[2,1]}},
               {{"kind":"conv2d","out_channels":3,"kernel_size":[2,3],"stride":{stride},"padding":{padding}}},
               {{"kind":"gelu"}},{{"kind":"avg_pool2d","kernel_size":2,"stride":1}},{{"kind":"flatten"}},{HEAD}"#
            );
            gradient_is_the_slope_of_the_loss(lab, &[2, 7, 6], &layers, random(4 * 84, 3));
        }
    }
}

#[test]
fn of_mixed_orders_of_an_images_values() {
    for lab in Lab::all() {
        let layers = format!(
            r#"{{"kind":"layer_norm"}},{{"kind":"conv2d","out_channels":3,"kernel_size":2}},
               {{"kind":"dropout","probability":0.3}},{{"kind":"sigmoid"}},{{"kind":"linear","out_features":4}},
               {{"kind":"batch_norm"}},{{"kind":"tanh"}},{{"kind":"layer_norm"}},
               {{"kind":"avg_pool2d","kernel_size":[1,2]}},{{"kind":"flatten"}},{HEAD}"#
        );
        gradient_is_the_slope_of_the_loss(lab, &[2, 4, 5], &layers, random(8 * 40, 3));
    }
}

#[test]
fn of_layers_wider_than_a_tile() {
    for lab in Lab::all() {
        let layers = format!(r#"{{"kind":"linear","out_features":70}},{{"kind":"relu"}},{HEAD}"#);
        gradient_is_the_slope_of_the_loss(lab, &[83], &layers, random(83 * 13, 3));
    }
}

#[test]
fn of_sequences() {
    for lab in Lab::all() {
        let ids: Vec<f32> = (0..30).map(|place| (place * 7 % 5) as f32).collect();
        for kind in ["lstm", "gru"] {
            let layers = format!(
                r#"{{"kind":"embedding","tokens":5,"size":3}},
               {{"kind":"{kind}","hidden_size":4,"return_sequences":true}},{{"kind":"{kind}","hidden_size":3}},{HEAD}"#
            );
            gradient_is_the_slope_of_the_loss(lab, &[5], &layers, ids.clone());
        }
    }
}
