//! The embedded digits in another order for each seed, and the network that learns them.

use tributary::data::digits::embedded_digits;
use tributary_client::examples::{Examples, MemoryExamples, Targets};
use tributary_protocol::layers::{Layer, LayeredModel, ModelSpec};
use tributary_protocol::plan::Training;
use tributary_protocol::seed::Seed;

use crate::error::BenchError;
use crate::simulated::failed;

/// Pixels of a digit.
pub(super) const PIXELS: usize = 64;
const CLASSES: usize = 10;
/// Units between the pixels and the classes.
const UNITS: usize = 40;

/// All digits, from which parts are taken one after the other.
pub(super) struct Digits {
    all: MemoryExamples,
    order: Vec<usize>,
}

impl Digits {
    /// In the order of a seed.
    pub(super) fn shuffled(seed: Seed) -> Result<Self, BenchError> {
        let all = embedded_digits(&[PIXELS]).map_err(failed)?;
        Ok(Self { all, order: Vec::new() }.again(seed))
    }

    /// All of them in the order of another seed.
    pub(super) fn again(&self, seed: Seed) -> Self {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        seed.derive("digits", 0).stream().shuffle(&mut order);
        Self { all: self.all.clone(), order }
    }

    /// The next digits for so many clients with as many examples each.
    pub(super) fn clients(&mut self, clients: usize, examples: usize) -> Result<Vec<MemoryExamples>, BenchError> {
        let taken: Vec<usize> = self.order.drain(..clients * examples).collect();
        taken.chunks(examples).map(|chosen| self.all.subset(chosen).map_err(failed)).collect()
    }

    /// The digits that nobody took.
    pub(super) fn held_out(&self) -> Result<MemoryExamples, BenchError> {
        self.all.subset(&self.order).map_err(failed)
    }
}

/// Pixels and label of every digit of a client.
pub(super) fn content(examples: &MemoryExamples) -> Result<(Vec<f32>, Vec<u32>), BenchError> {
    let batch = examples.batch(&(0..examples.len()).collect::<Vec<_>>()).map_err(failed)?;
    match batch.targets {
        Targets::Classes(labels) => Ok((batch.inputs, labels)),
        Targets::Values { .. } => Err(failed("the digits have no classes")),
    }
}

/// The same digits with labels that are drawn among the wrong ones.
pub(super) fn mislabelled(examples: &MemoryExamples, seed: Seed) -> Result<MemoryExamples, BenchError> {
    let (pixels, labels) = content(examples)?;
    let mut stream = seed.stream();
    let wrong = |label: u32| (label + 1 + stream.below(CLASSES as u64 - 1) as u32) % CLASSES as u32;
    let labels = labels.into_iter().map(wrong).collect();
    MemoryExamples::new(vec![PIXELS], pixels, Targets::Classes(labels)).map_err(failed)
}

/// A linear layer, ReLU, and a linear layer.
pub(super) fn network() -> ModelSpec {
    let linear = |out_features| Layer::Linear { out_features, bias: true };
    ModelSpec::Layers(LayeredModel {
        input: vec![PIXELS],
        layers: vec![linear(UNITS), Layer::Relu {}, linear(CLASSES)],
    })
}

/// So many steps of SGD, each on all examples of a client.
pub(super) fn training(steps: u32, learning_rate: f64) -> Result<Training, BenchError> {
    let optimizer = serde_json::json!({ "kind": "sgd", "learning_rate": learning_rate });
    serde_json::from_value(serde_json::json!({ "steps": steps, "optimizer": optimizer })).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_shares_a_digit_and_wrong_labels_are_wrong() {
        let mut digits = Digits::shuffled(Seed(3)).unwrap();
        let (one, other) = (digits.clients(2, 4).unwrap(), digits.clients(3, 1).unwrap());
        assert_eq!((one.len(), one[1].len(), other.len(), other[2].len()), (2, 4, 3, 1));
        assert_eq!(digits.held_out().unwrap().len(), 1797 - 11);
        let wrong = mislabelled(&one[0], Seed(4)).unwrap();
        let ((pixels, labels), (same, wrong)) = (content(&one[0]).unwrap(), content(&wrong).unwrap());
        assert_eq!(pixels, same);
        assert!(labels.iter().zip(&wrong).all(|(label, wrong)| label != wrong && *wrong < 10), "{labels:?} {wrong:?}");
    }
}
