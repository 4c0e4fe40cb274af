//! Training on a single thread that lets the thread go at each checkpoint, where a store needs the thread to write it.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tributary_protocol::abilities::Abilities;
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::inputs::Description;
use tributary_protocol::plan::Algorithm;
use tributary_protocol::seed::Seed;

use crate::clock::Clock;
use crate::trainer::{Checkpoint, DescribeTask, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};

/// How long the thread is free.
const PAUSE: Duration = Duration::from_millis(1);

/// A trainer that suspends at each checkpoint and goes on when the session calls it again, with the same result. It is
/// for stores that write while nobody computes, as in a browser. The trainer inside must be one that can be suspended
/// after any step.
pub struct PausingTrainer<T> {
    /// The trainer that computes.
    pub trainer: T,
    clock: Arc<dyn Clock>,
    /// Where the training of this seed goes on.
    paused: Option<(Seed, Checkpoint)>,
}

impl<T: Trainer> PausingTrainer<T> {
    /// Pauses by this clock.
    pub fn new(trainer: T, clock: Arc<dyn Clock>) -> Self {
        Self { trainer, clock, paused: None }
    }
}

impl<T: Trainer> Trainer for PausingTrainer<T> {
    fn examples(&self) -> u64 {
        self.trainer.examples()
    }

    fn sets(&self) -> ExampleSets {
        self.trainer.sets()
    }

    fn schema(&self) -> Option<Sha256Hash> {
        self.trainer.schema()
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        self.trainer.follows(algorithm)
    }

    fn exchanges(&self) -> bool {
        self.trainer.exchanges()
    }

    fn abilities(&self) -> Abilities {
        self.trainer.abilities()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        // A session that was dropped leaves the training of another task here.
        let paused = self.paused.take().filter(|(seed, _)| *seed == task.seed);
        let resume = paused.as_ref().map(|(_, checkpoint)| checkpoint).or(task.resume);
        let (is_first, is_due) = (Cell::new(true), Cell::new(false));
        // Not before a step was taken: there would be nothing to keep.
        let asked = || {
            let is_first = is_first.replace(false);
            if !is_first && task.checkpoint_is_due() {
                is_due.set(true);
            }
            should_stop() || is_due.get()
        };
        let inner = TrainTask { resume, checkpoints: None, ..*task };
        match self.trainer.train(&inner, &asked) {
            Err(TrainError::Suspended(checkpoint)) if is_due.get() => {
                task.keep((*checkpoint).clone());
                self.paused = Some((task.seed, *checkpoint));
                Err(TrainError::Pending)
            }
            result => result,
        }
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        match &self.paused {
            Some(_) => self.clock.sleep(PAUSE),
            None => self.trainer.ready(),
        }
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.trainer.evaluate(task, should_stop)
    }

    fn describe(&mut self, task: &DescribeTask<'_>) -> Result<Description, TrainError> {
        self.trainer.describe(task)
    }
}

impl<T> fmt::Debug for PausingTrainer<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PausingTrainer").field("paused", &self.paused.is_some()).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "layers", feature = "native"))]
mod tests {
    use std::sync::Mutex;

    use tributary_protocol::layers::ModelSpec;
    use tributary_protocol::model::Model;
    use tributary_protocol::plan::Training;

    use super::*;
    use crate::clock::SystemClock;
    use crate::examples::{MemoryExamples, Targets};
    use crate::locked::Locked;
    use crate::trainer::{Checkpoints, LayerTrainer};

    /// Asks for a checkpoint before every second step.
    #[derive(Debug, Default)]
    struct Often {
        looks: Cell<u32>,
        kept: Mutex<Vec<u64>>,
    }

    impl Checkpoints for Often {
        fn is_due(&self) -> bool {
            self.looks.set(self.looks.get() + 1);
            self.looks.get().is_multiple_of(2)
        }

        fn keep(&self, checkpoint: Checkpoint) {
            self.kept.locked().push(checkpoint.steps);
        }
    }

    /// Goal: pauses change no bit and lose no step. Method: momentum and dropout, so that a training has state besides
    /// its weights; the session's loop, without a session.
    #[test]
    fn a_training_that_pauses_at_its_checkpoints_has_the_same_bits() {
        let spec: ModelSpec = serde_json::from_str(
            r#"{"input":[2],"layers":[{"kind":"linear","out_features":3},{"kind":"dropout","probability":0.25},
            {"kind":"linear","out_features":2}]}"#,
        )
        .unwrap();
        let training: Training = serde_json::from_str(
            r#"{"epochs":2,"batch_size":4,"optimizer":{"kind":"sgd","learning_rate":0.1,"momentum":0.9}}"#,
        )
        .unwrap();
        let parameters = Arc::new(spec.parameters().unwrap());
        let values = (0..parameters.total()).map(|number| (number as f32 * 0.37).sin()).collect();
        let model = Model::new(parameters, values).unwrap();
        let inputs: Vec<f32> = (0..40).map(|number| (number as f32).cos()).collect();
        let labels = (0..20).map(|number| number % 2).collect();
        let examples = Arc::new(MemoryExamples::new(vec![2], inputs, Targets::Classes(labels)).unwrap());
        let task = TrainTask { may_suspend: true, ..TrainTask::new(&model, &spec, &training, Seed(3)) };
        let straight = LayerTrainer::new(Arc::clone(&examples) as _).train(&task, &|| false).unwrap();

        let often = Often::default();
        let task = TrainTask { checkpoints: Some(&often), ..task };
        let mut pausing = PausingTrainer::new(LayerTrainer::new(examples), Arc::new(SystemClock::default()));
        let paused = loop {
            match pausing.train(&task, &|| false) {
                Err(TrainError::Pending) => assert!(pausing.paused.is_some()),
                ended => break ended.unwrap(),
            }
        };
        assert_eq!(straight.steps, 10);
        assert_eq!(paused, straight);
        assert_eq!(*often.kept.locked(), [2, 4, 6, 8]);
        assert!(matches!(pausing.train(&task, &|| true), Err(TrainError::Interrupted)), "a stop is a stop");
    }
}
