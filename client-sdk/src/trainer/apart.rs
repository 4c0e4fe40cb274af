//! Training on a thread of its own, while the session's thread answers whether it should stop: a trainer in another
//! language cannot borrow the session's questions, but it can read two flags.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::contract::TrainError;

/// How often the session's thread looks.
const LOOK: Duration = Duration::from_millis(20);

/// What a trainer reads before each batch.
#[derive(Debug, Default)]
pub struct StopFlags {
    is_set: AtomicBool,
    is_over: AtomicBool,
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
}

/// Runs `work` on another thread. This one asks meanwhile and sets the flags.
///
/// # Errors
/// [`TrainError::Other`] for a panic.
pub fn apart<T: Send>(
    should_stop: &dyn Fn() -> bool,
    is_over: &dyn Fn() -> bool,
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
            if is_over() {
                flags.is_over.store(true, Ordering::Relaxed);
            }
        }
        thread.join().map_err(|_| TrainError::Other("the trainer panicked".to_owned()))
    })
}

#[cfg(test)]
mod tests {
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
        assert_eq!(apart(&|| true, &|| false, until(StopFlags::is_set)), Ok((true, false)));
        assert_eq!(apart(&|| false, &|| true, until(StopFlags::is_over)), Ok((false, true)));
        let panicked: Result<(), _> = apart(&|| false, &|| false, |_| panic!("on purpose"));
        assert!(matches!(panicked, Err(TrainError::Other(_))));
    }
}
