//! The layer trainer, which reports its progress and remembers its result.

use std::cell::Cell;

use serde::Serialize;
use tributary_client::{EvaluateTask, Evaluated, LayerTrainer, TrainError, TrainTask, Trained, Trainer};
use tributary_protocol::plan::Algorithm;

/// Batches between two reports.
const REPORT_EVERY: u64 = 16;

/// What a training or an evaluation gave.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Work {
    examples: u64,
    loss: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
}

pub(crate) struct ReportingTrainer {
    trainer: LayerTrainer,
    /// Takes the number of batches so far.
    report: fn(u64),
    /// The last result.
    pub(crate) work: Option<Work>,
}

impl ReportingTrainer {
    pub(crate) fn new(trainer: LayerTrainer, report: fn(u64)) -> Self {
        Self { trainer, report, work: None }
    }
}

/// Counts the batches: a trainer asks before each whether to stop.
fn counting(report: fn(u64), should_stop: &dyn Fn() -> bool) -> impl Fn() -> bool {
    let batches = Cell::new(0_u64);
    move || {
        if batches.get().is_multiple_of(REPORT_EVERY) {
            report(batches.get());
        }
        batches.set(batches.get() + 1);
        should_stop()
    }
}

impl Trainer for ReportingTrainer {
    fn examples(&self) -> u64 {
        self.trainer.examples()
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        self.trainer.follows(algorithm)
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let trained = self.trainer.train(task, &counting(self.report, should_stop))?;
        let Trained { examples, loss, steps, .. } = trained;
        self.work = Some(Work { examples, loss, steps: Some(steps), accuracy: None });
        Ok(trained)
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        let evaluated = self.trainer.evaluate(task, &counting(self.report, should_stop))?;
        let Evaluated { examples, loss, accuracy, .. } = evaluated;
        self.work = Some(Work { examples, loss, steps: None, accuracy });
        Ok(evaluated)
    }
}
