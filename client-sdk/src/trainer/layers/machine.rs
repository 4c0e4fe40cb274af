//! What computes: an instruction set, and threads that share out work whose parts are fixed. So the bits of a result do
//! not depend on the number of threads.

use std::sync::Mutex;

use crate::kernels::Level;
use crate::locked::Locked;

/// Multiply-adds below which another thread costs more than it saves.
const WORTH_A_THREAD: usize = 2_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) level: Level,
    /// At least 1.
    pub(super) threads: usize,
}

impl Machine {
    /// Whether several threads are worth their start for so many multiply-adds.
    pub(super) fn shares(&self, multiply_adds: usize) -> bool {
        self.threads > 1 && multiply_adds > WORTH_A_THREAD
    }

    /// Does all tasks, on several threads where there are any. Each task owns what it writes.
    pub(super) fn each<T: Send>(&self, tasks: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) {
        if self.threads == 1 {
            return tasks.into_iter().for_each(work);
        }
        let tasks: Vec<T> = tasks.into_iter().collect();
        let others = self.threads.min(tasks.len()).saturating_sub(1);
        let tasks = Mutex::new(tasks.into_iter());
        let next = || tasks.locked().next();
        let run = || {
            while let Some(task) = next() {
                work(task);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..others {
                scope.spawn(run);
            }
            run();
        });
    }
}
