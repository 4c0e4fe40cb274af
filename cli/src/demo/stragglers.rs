//! Clients that have time for a part of a round's epochs (Li et al. 2020, <https://arxiv.org/abs/1812.06127>, section
//! 5.2): in each round a share of the cohort, drawn by the round's seeds. Their updates are dropped, or what they
//! learned so far counts.

use std::cell::Cell;

use tributary_client::{Budget, LayerTrainer, TrainError, TrainTask, Trained, Trainer};
use tributary_protocol::plan::Training;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stragglers {
    /// The share of a cohort, from 0 to 1.
    pub share: f64,
    /// Whether what a straggler learned counts. Otherwise it reports a failure.
    pub count: bool,
}

impl Stragglers {
    /// Trains as this task's client, which may straggle. Time is counted in steps, so a seed gives the same updates on
    /// any machine.
    pub fn train(
        &self,
        trainer: &mut LayerTrainer,
        task: &TrainTask<'_>,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Trained, TrainError> {
        let mut stream = task.seed.derive("straggler", 0).stream();
        if stream.unit() >= self.share {
            return trainer.train(task, should_stop);
        }
        if !self.count {
            return Err(TrainError::Other("a straggler of the benchmark".to_owned()));
        }
        let steps = steps(task.training, trainer.examples(), stream.unit());
        let taken = Cell::new(0_u64);
        // It is asked before each batch but the first.
        let is_over = || {
            taken.set(taken.get() + 1);
            taken.get() >= steps
        };
        let mut task = *task;
        task.budget = Some(Budget(&is_over));
        trainer.train(&task, should_stop)
    }
}

/// Steps of whole epochs, from one to all of them.
fn steps(training: &Training, examples: u64, unit: f64) -> u64 {
    let epochs = training.epochs.unwrap_or(1);
    let worked = 1 + (unit * f64::from(epochs)) as u64;
    let batch = training.batch_size.map_or(examples, u64::from);
    worked.min(u64::from(epochs)) * examples.div_ceil(batch.max(1)).max(1)
}
