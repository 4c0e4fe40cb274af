//! Losses, and the count of correct predictions.

use burn::tensor::{Int, Tensor, TensorData, activation};
use tributary_protocol::plan::Loss;

use super::super::contract::TrainError;
use crate::examples::Targets;

/// The loss of a batch, a scalar: the mean over its rows (cross-entropy) or over all its outputs (squared error).
pub(super) fn loss_of(scores: Tensor<2>, targets: Targets, loss: Loss) -> Result<Tensor<1>, TrainError> {
    let [rows, outputs] = scores.dims();
    match (loss, targets) {
        (Loss::CrossEntropy, Targets::Classes(classes)) => {
            let classes = class_indices(&scores, &classes)?;
            Ok(activation::log_softmax(scores, 1).gather(1, classes).mean().neg())
        }
        (Loss::Mse, Targets::Values { values, .. }) => {
            if values.len() != rows * outputs {
                return Err(does_not_fit(format!(
                    "the network puts out {rows} x {outputs} numbers for {} target values",
                    values.len()
                )));
            }
            let targets = Tensor::<2>::from_data(TensorData::new(values, [rows, outputs]), &scores.device());
            Ok((scores - targets).square().mean())
        }
        (Loss::CrossEntropy, Targets::Values { .. }) => {
            Err(does_not_fit("cross-entropy needs class numbers, and the examples have values".to_owned()))
        }
        (Loss::Mse, Targets::Classes(_)) => {
            Err(does_not_fit("the squared error needs values, and the examples have class numbers".to_owned()))
        }
    }
}

/// How many rows have their highest score at their class, and the number of rows; `None` if the targets are values.
pub(super) fn right_rows(scores: Tensor<2>, targets: &Targets) -> Result<Option<(u64, u64)>, TrainError> {
    let Targets::Classes(classes) = targets else { return Ok(None) };
    let [_, outputs] = scores.dims();
    let scores = scores.try_into_vec_as::<f32>().map_err(|error| TrainError::Other(format!("{error:?}")))?;
    let rows = scores.chunks_exact(outputs).zip(classes);
    let right = rows.filter(|(row, class)| highest(row) == **class as usize).count();
    Ok(Some((right as u64, classes.len() as u64)))
}

/// Index of the highest score, the first of equal ones.
fn highest(row: &[f32]) -> usize {
    let later_wins = |best: usize, place: usize| if row[place] > row[best] { place } else { best };
    (0..row.len()).fold(0, later_wins)
}

/// The classes as indices `[rows, 1]`, each checked to be below the number of outputs.
fn class_indices(scores: &Tensor<2>, classes: &[u32]) -> Result<Tensor<2, Int>, TrainError> {
    let [rows, outputs] = scores.dims();
    if classes.len() != rows {
        return Err(does_not_fit(format!("the network puts out {rows} rows of scores for {} classes", classes.len())));
    }
    if let Some(class) = classes.iter().find(|class| **class as usize >= outputs) {
        return Err(does_not_fit(format!("class {class} is none of the network's {outputs} outputs")));
    }
    let indices: Vec<i64> = classes.iter().map(|class| i64::from(*class)).collect();
    Ok(Tensor::from_data(TensorData::new(indices, [rows, 1]), &scores.device()))
}

fn does_not_fit(what: String) -> TrainError {
    TrainError::DoesNotFit(what)
}
