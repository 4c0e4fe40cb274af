//! Losses of burn's tensors.

use burn::tensor::{Tensor, TensorData, activation};
use tributary_protocol::plan::Loss;

use super::super::contract::TrainError;
use super::super::score::{Aim, aim};
use crate::examples::Targets;

/// The loss of a batch, a scalar: the mean over its rows (cross-entropy) or over all its outputs (squared error).
pub(super) fn loss_of(scores: Tensor<2>, targets: &Targets, loss: Loss) -> Result<Tensor<1>, TrainError> {
    let [rows, outputs] = scores.dims();
    match aim(targets, loss, rows, outputs)? {
        Aim::Classes(classes) => {
            let indices: Vec<i64> = classes.iter().map(|class| i64::from(*class)).collect();
            let classes = Tensor::from_data(TensorData::new(indices, [rows, 1]), &scores.device());
            Ok(activation::log_softmax(scores, 1).gather(1, classes).mean().neg())
        }
        Aim::Values(values) => {
            let values = TensorData::new(values.to_vec(), [rows, outputs]);
            let targets = Tensor::<2>::from_data(values, &scores.device());
            Ok((scores - targets).square().mean())
        }
    }
}
