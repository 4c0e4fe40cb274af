//! Whether scores fit their targets, and how good they are.

use tributary_protocol::classes::ClassCounts;
use tributary_protocol::plan::Loss;
use tributary_protocol::scalars::Scalars;

use super::contract::{Evaluated, TrainError};
use super::fit::does_not_fit;
use crate::examples::Targets;

/// Targets that fit the loss and the network's outputs.
pub(super) enum Aim<'a> {
    /// A class below the number of outputs for each row.
    Classes(&'a [u32]),
    /// As many values as outputs in all.
    Values(&'a [f32]),
}

/// Checks targets against the loss and `rows` times `outputs` scores.
pub(super) fn aim(targets: &Targets, loss: Loss, rows: usize, outputs: usize) -> Result<Aim<'_>, TrainError> {
    match (loss, targets) {
        (Loss::CrossEntropy, Targets::Classes(classes)) => {
            if classes.len() != rows {
                let classes = classes.len();
                let what = format!("the network puts out {rows} rows of scores for {classes} classes");
                return Err(does_not_fit(what));
            }
            match classes.iter().find(|class| **class as usize >= outputs) {
                Some(class) => Err(does_not_fit(format!("class {class} is none of the network's {outputs} outputs"))),
                None => Ok(Aim::Classes(classes)),
            }
        }
        (Loss::Mse, Targets::Values { values, .. }) => {
            if values.len() != rows * outputs {
                let values = values.len();
                let what = format!("the network puts out {rows} x {outputs} numbers for {values} target values");
                return Err(does_not_fit(what));
            }
            Ok(Aim::Values(values))
        }
        (Loss::CrossEntropy, Targets::Values { .. }) => {
            Err(does_not_fit("cross-entropy needs class numbers, and the examples have values"))
        }
        (Loss::Mse, Targets::Classes(_)) => {
            Err(does_not_fit("the squared error needs values, and the examples have class numbers"))
        }
        (Loss::Other, _) => Err(does_not_fit("only an app's own trainer has the loss \"other\"")),
    }
}

/// Sums over the batches of an evaluation.
#[derive(Default)]
pub(super) struct Measured {
    examples: u64,
    /// Sum of the examples' losses.
    loss: f64,
    /// How many of the classes had the highest score.
    right: u64,
    /// Number of classes compared; 0 if the targets are values.
    classes: u64,
    /// The same by class.
    counts: Option<ClassCounts>,
}

impl Measured {
    /// A batch with its mean loss and its scores, rows of `outputs`.
    pub(super) fn add(&mut self, examples: usize, loss: f64, scores: &[f32], outputs: usize, targets: &Targets) {
        self.examples += examples as u64;
        self.loss += loss * examples as f64;
        if let Targets::Classes(classes) = targets {
            if self.classes == 0 {
                self.counts = ClassCounts::of_classes(outputs);
            }
            for (row, class) in scores.chunks_exact(outputs).zip(classes) {
                let (truth, predicted) = (*class as usize, highest(row));
                self.right += u64::from(predicted == truth);
                if let Some(counts) = &mut self.counts {
                    counts.count(truth, predicted);
                }
            }
            self.classes += classes.len() as u64;
        }
    }

    pub(super) fn result(self) -> Evaluated {
        let accuracy = (self.classes > 0).then(|| self.right as f64 / self.classes as f64);
        let loss = self.loss / self.examples as f64;
        Evaluated { examples: self.examples, loss, accuracy, metrics: Scalars::new(), classes: self.counts }
    }
}

/// Index of the highest score, the first of equal ones.
fn highest(row: &[f32]) -> usize {
    let later_wins = |best: usize, place: usize| if row[place] > row[best] { place } else { best };
    (0..row.len()).fold(0, later_wins)
}
