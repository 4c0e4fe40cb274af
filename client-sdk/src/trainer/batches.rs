//! The batches of local training: passes over all examples in a seeded order, cut into batches.

use tributary_protocol::layers::ModelSpec;
use tributary_protocol::plan::Training;
use tributary_protocol::seed::Seed;

use super::contract::TrainError;
use super::fit::does_not_fit;

/// Number of examples in a batch of an evaluation.
const EVALUATION_BATCH: usize = 256;
/// Most values of all layers in a batch of an evaluation, unless one example has more: 64 MiB.
const EVALUATION_VALUES: usize = 1 << 24;

/// Number of examples in a batch of an evaluation of this network.
pub(super) fn evaluation_batch(spec: &ModelSpec) -> Result<usize, TrainError> {
    let ModelSpec::Layers(network) = spec else { return Ok(EVALUATION_BATCH) };
    let values = network.values().map_err(|error| does_not_fit(error.to_string()))?;
    Ok((EVALUATION_VALUES / values).clamp(1, EVALUATION_BATCH))
}

/// Gives one batch after the other, as indices of examples.
pub(super) struct Batches {
    /// All indices in the order of this pass.
    order: Vec<usize>,
    /// Place in `order` where the next batch begins.
    next: usize,
    /// Number of passes begun.
    passes: u64,
    batch_size: usize,
    shuffle: bool,
    seed: Seed,
    /// Number of passes in all; `None` for no limit.
    epochs: Option<u64>,
    /// Number of batches still to give; `None` for no limit.
    steps_left: Option<u64>,
}

impl Batches {
    /// Needs at least one example, and settings that passed [`Training::check`].
    pub(super) fn new(examples: usize, training: &Training, seed: Seed) -> Self {
        let batch_size = training.batch_size.map_or(examples, |size| size as usize).min(examples);
        Self {
            order: (0..examples).collect(),
            next: examples,
            passes: 0,
            batch_size,
            // One batch of all examples is the same in any order.
            shuffle: training.shuffle && batch_size < examples,
            seed,
            epochs: training.epochs.map(u64::from),
            steps_left: training.steps.map(u64::from),
        }
    }

    /// The next batch; `None` after the last one. The last batch of a pass may be smaller than the others.
    pub(super) fn next_batch(&mut self) -> Option<&[usize]> {
        if self.steps_left == Some(0) {
            return None;
        }
        if self.next == self.order.len() {
            if self.epochs.is_some_and(|epochs| self.passes >= epochs) {
                return None;
            }
            self.begin_pass();
        }
        self.steps_left = self.steps_left.map(|left| left - 1);
        let start = self.next;
        self.next = (start + self.batch_size).min(self.order.len());
        Some(&self.order[start..self.next])
    }

    /// The sizes that batches have, the largest first.
    #[cfg(feature = "layers")]
    pub(super) fn sizes(&self) -> Vec<usize> {
        let rest = self.order.len() % self.batch_size;
        let has_rest =
            rest > 0 && self.steps_left.is_none_or(|steps| steps as usize > self.order.len() / self.batch_size);
        if has_rest { vec![self.batch_size, rest] } else { vec![self.batch_size] }
    }

    /// Leaves out so many batches.
    pub(super) fn skip(&mut self, batches: u64) {
        for _ in 0..batches {
            if self.next_batch().is_none() {
                return;
            }
        }
    }

    fn begin_pass(&mut self) {
        if self.shuffle {
            self.seed.derive("order", self.passes).stream().shuffle(&mut self.order);
        }
        self.passes += 1;
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::plan::{Algorithm, Loss, Optimizer};
    use tributary_protocol::rate::RateSchedule;

    use super::*;

    fn training(epochs: Option<u32>, steps: Option<u32>, batch_size: Option<u32>, shuffle: bool) -> Training {
        let optimizer = Optimizer::Sgd { learning_rate: 0.1, momentum: 0.0, weight_decay: 0.0, nesterov: false };
        Training {
            epochs,
            steps,
            batch_size,
            work_schedule: Vec::new(),
            personal_epochs: None,
            partial_work: None,
            loss: Loss::CrossEntropy,
            optimizer,
            shuffle,
            algorithm: Algorithm::Plain,
            schedule: RateSchedule::Constant,
        }
    }

    fn all(examples: usize, training: &Training, seed: u64) -> Vec<Vec<usize>> {
        let mut batches = Batches::new(examples, training, Seed(seed));
        std::iter::from_fn(|| batches.next_batch().map(<[usize]>::to_vec)).collect()
    }

    #[test]
    fn an_epoch_takes_each_example_once_and_ends_with_the_rest() {
        let in_order = all(5, &training(Some(2), None, Some(2), false), 1);
        assert_eq!(in_order, [vec![0, 1], vec![2, 3], vec![4], vec![0, 1], vec![2, 3], vec![4]]);
        let shuffled = all(50, &training(Some(2), None, Some(20), true), 1);
        assert_eq!(shuffled.iter().map(Vec::len).collect::<Vec<_>>(), [20, 20, 10, 20, 20, 10]);
        let passes: Vec<Vec<usize>> = shuffled.chunks(3).map(<[_]>::concat).collect();
        assert_ne!(passes[0], passes[1]);
        for mut pass in passes {
            pass.sort_unstable();
            assert_eq!(pass, (0..50).collect::<Vec<_>>());
        }
    }

    #[test]
    fn steps_go_on_into_the_next_pass() {
        let batches = all(3, &training(None, Some(5), Some(2), false), 1);
        assert_eq!(batches, [vec![0, 1], vec![2], vec![0, 1], vec![2], vec![0, 1]]);
    }

    #[test]
    fn without_a_batch_size_a_step_takes_everything() {
        assert_eq!(all(3, &training(None, Some(2), None, true), 1), [[0, 1, 2], [0, 1, 2]]);
        assert_eq!(all(3, &training(Some(1), None, Some(100), true), 1), [[0, 1, 2]]);
    }

    #[test]
    fn the_order_repeats_with_its_seed_only() {
        let batches = |seed| all(30, &training(Some(1), None, Some(4), true), seed);
        assert_eq!(batches(1), batches(1));
        assert_ne!(batches(1), batches(2));
    }
}
