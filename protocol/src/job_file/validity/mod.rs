//! What goes together in a job file: one loop compares the needs of each setting with what the others take away.

mod demands;
mod limits;
mod need;
mod setting;

use super::{JobFile, JobFileError};

/// Refuses a job whose settings contradict each other, and says why.
pub(super) fn check(job: &JobFile) -> Result<(), JobFileError> {
    let settings = demands::of(job);
    let mut pairs = settings.iter().flat_map(|one| settings.iter().map(move |other| (one, other)));
    match pairs.find_map(|(one, other)| one.clash(other)) {
        Some(clash) => Err(clash),
        None => limits::check(job, &settings),
    }
}

#[cfg(test)]
mod tests;
