//! Elapsed time, for commands that report it.

use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "the elapsed time is only reported; nothing depends on it")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
