//! Training on a thread of its own, while the session's thread answers whether it should stop: a trainer in another
//! language cannot borrow the session's questions, but it can read two flags.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::contract::{Checkpoint, TrainError, TrainTask};
use crate::locked::Locked;

/// How often the session's thread looks.
const LOOK: Duration = Duration::from_millis(20);

/// What a trainer reads before each batch, and the checkpoint that it leaves.
#[derive(Debug, Default)]
pub struct StopFlags {
    is_set: AtomicBool,
    is_over: AtomicBool,
    checkpoint_is_due: AtomicBool,
    checkpoint: Mutex<Option<Checkpoint>>,
}

impl StopFlags {
    /// Whether to end with [`TrainError::Interrupted`].
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Whether the time that the job leaves for training is over
    /// ([`TrainTask::is_over`](super::contract::TrainTask::is_over)): end with what was learned so far.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether to [`Self::keep`] a checkpoint and train on.
    pub fn checkpoint_is_due(&self) -> bool {
        self.checkpoint_is_due.load(Ordering::Relaxed)
    }

    /// Leaves a checkpoint for the session's thread, which keeps it.
    pub fn keep(&self, checkpoint: Checkpoint) {
        let mut left = self.checkpoint.locked();
        self.checkpoint_is_due.store(false, Ordering::Relaxed);
        *left = Some(checkpoint);
    }

    /// Keeps the checkpoint that there is, and asks for the next one when it is due.
    fn exchange(&self, task: &TrainTask<'_>) {
        if task.is_over() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        // With the lock, so that no second one is asked for while the first one is being left.
        let mut left = self.checkpoint.locked();
        match left.take() {
            Some(checkpoint) => {
                drop(left);
                task.keep(checkpoint);
            }
            None if task.checkpoint_is_due() => self.checkpoint_is_due.store(true, Ordering::Relaxed),
            None => {}
        }
    }
}

/// Runs `work` on another thread. This one asks meanwhile and sets the flags. Of a training, it also keeps the
/// checkpoints.
///
/// # Errors
/// [`TrainError::Other`] for a panic.
pub fn apart<T: Send>(
    training: Option<&TrainTask<'_>>,
    should_stop: &dyn Fn() -> bool,
    work: impl FnOnce(&Arc<StopFlags>) -> T + Send,
) -> Result<T, TrainError> {
    let (flags, waiting) = (Arc::new(StopFlags::default()), thread::current());
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let result = work(&flags);
            waiting.unpark();
            result
        });
        while !thread.is_finished() {
            thread::park_timeout(LOOK);
            if should_stop() {
                flags.is_set.store(true, Ordering::Relaxed);
            }
            if let Some(task) = training {
                flags.exchange(task);
            }
        }
        thread.join().map_err(|_| TrainError::Other("the trainer panicked".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use tributary_protocol::plan::Loss;
    use tributary_protocol::seed::Seed;

    use super::super::contract::{Budget, Checkpoints};
    use super::super::fixtures::{SGD, full_batch, model, spec};
    use super::*;

    #[test]
    fn the_flags_follow_the_questions_and_a_panic_is_an_error() {
        let until = |flag: fn(&StopFlags) -> bool| {
            move |flags: &Arc<StopFlags>| {
                while !flag(flags) {
                    thread::yield_now();
                }
                (flags.is_set(), flags.is_over())
            }
        };
        assert_eq!(apart(None, &|| true, until(StopFlags::is_set)), Ok((true, false)));
        with_task(|task| {
            let task = TrainTask { budget: Some(Budget(&|| true)), ..task };
            assert_eq!(apart(Some(&task), &|| false, until(StopFlags::is_over)), Ok((false, true)));
        });
        let panicked: Result<(), _> = apart(None, &|| false, |_| panic!("on purpose"));
        assert!(matches!(panicked, Err(TrainError::Other(_))));
    }

    fn with_task(test: impl FnOnce(TrainTask<'_>)) {
        let spec = spec(r#"{"parameters":[{"name":"w","shape":[1]}]}"#);
        let (model, training) = (model(&spec, vec![0.0]), full_batch(1, Loss::Mse, SGD));
        test(TrainTask::new(&model, &spec, &training, Seed(7)));
    }

    /// Asks for a checkpoint until it has three.
    #[derive(Debug, Default)]
    struct Three(Mutex<Vec<u64>>);

    impl Checkpoints for Three {
        fn is_due(&self) -> bool {
            self.0.locked().len() < 3
        }

        fn keep(&self, checkpoint: Checkpoint) {
            self.0.locked().push(checkpoint.steps);
        }
    }

    #[test]
    fn checkpoints_of_a_training_that_goes_on_are_kept_by_the_sessions_thread() {
        let three = Three::default();
        with_task(|task| {
            let task = TrainTask { checkpoints: Some(&three), ..task };
            let left = apart(Some(&task), &|| false, |flags| {
                for step in 1..=3 {
                    while !flags.checkpoint_is_due() {
                        thread::yield_now();
                    }
                    flags.keep(Checkpoint::new(step, 0.5));
                    assert!(!flags.checkpoint_is_due());
                    while flags.checkpoint.locked().is_some() {
                        thread::yield_now();
                    }
                }
                flags.keep(Checkpoint::new(4, f64::NAN));
            });
            assert_eq!(left, Ok(()));
        });
        assert_eq!(*three.0.locked(), [1, 2, 3]);
    }
}
