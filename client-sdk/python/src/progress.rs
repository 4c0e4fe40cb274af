//! What a session does, as Python hears it.

use std::cell::Cell;
use std::sync::Arc;

use pyo3::prelude::*;
use tributary_client::{
    DescribeTask, Description, EvaluateTask, Evaluated, LayerTrainer, Progress, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::plan::Algorithm;

/// A callable `(kind, number or None, text)`.
pub(crate) struct Listener(pub(crate) Py<PyAny>);

impl Listener {
    pub(crate) fn hear(&self, progress: &Progress) {
        let (kind, number, text) = match progress {
            Progress::Downloading { bytes } => ("downloading", bytes.map(|bytes| bytes as f64), ""),
            Progress::Training { round } => ("training", Some(f64::from(*round)), ""),
            Progress::Describing { round } => ("describing", Some(f64::from(*round)), ""),
            Progress::Evaluating { round } => ("evaluating", Some(f64::from(*round)), ""),
            Progress::Uploading { bytes } => ("uploading", Some(*bytes as f64), ""),
            Progress::Retrying { pause, error } => ("retrying", Some(pause.as_secs_f64()), error.as_str()),
            _ => return,
        };
        self.tell(kind, number, text);
    }

    fn tell(&self, kind: &str, number: Option<f64>, text: &str) {
        Python::attach(|py| {
            if let Err(raised) = self.0.call1(py, (kind, number, text)) {
                // Who listens has no say in the session.
                raised.write_unraisable(py, Some(self.0.bind(py)));
            }
        });
    }
}

/// Tells the steps of the SDK's own trainer, which asks before each batch whether to stop.
pub(crate) struct Counting {
    pub(crate) trainer: LayerTrainer,
    pub(crate) listener: Arc<Listener>,
}

impl Trainer for Counting {
    fn examples(&self) -> u64 {
        self.trainer.examples()
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        self.trainer.follows(algorithm)
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let (steps, listener) = (Cell::new(task.resume.map_or(0, |checkpoint| checkpoint.steps)), &self.listener);
        let counting = || {
            // Rarely: the call takes Python's lock.
            if steps.get().is_multiple_of(TELL_EVERY) {
                listener.tell("step", Some(steps.get() as f64), "");
            }
            steps.set(steps.get() + 1);
            should_stop()
        };
        self.trainer.train(task, &counting)
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.trainer.evaluate(task, should_stop)
    }

    fn describe(&mut self, task: &DescribeTask<'_>) -> Result<Description, TrainError> {
        self.trainer.describe(task)
    }
}

/// Steps between two calls of the listener.
const TELL_EVERY: u64 = 16;
