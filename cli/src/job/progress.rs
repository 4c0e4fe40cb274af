//! How far a job is, as text.

use tributary_protocol::operator::Job;

/// Committed rounds, of as many as end the job.
pub(super) fn rounds_done(job: &Job) -> String {
    match job.file.stop.rounds {
        Some(rounds) => format!("{}/{rounds}", job.head.rounds_committed),
        None => job.head.rounds_committed.to_string(),
    }
}
