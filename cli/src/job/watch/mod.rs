//! `tributary job watch`: follows a job until it ends.

mod follower;
mod screen;

use std::time::Duration;

use tributary_protocol::operator::Job;

use crate::api::Api;
use crate::error::CliError;
use crate::output::Output;

pub(crate) use follower::{Follower, News};
use screen::Screen;

/// Prints the job's rounds and states until it is stopped or completed, beginning with its `last` past rounds.
pub(crate) async fn run(job: &Job, last: u32, api: &Api, output: &Output) -> Result<(), CliError> {
    let mut follower = Follower::start(api, job.head.id, last).await?;
    let mut screen = Screen::new(output);
    let mut failures = 0;
    loop {
        match follower.next().await {
            Ok(news) => {
                failures = 0;
                screen.show(&news)?;
                if news.job.head.state.is_final() {
                    return Ok(());
                }
            }
            Err(error) => {
                let error = CliError::from(error);
                let Some(delay) = retry_delay(&error, failures) else { return Err(error) };
                screen.note(&format!("{error}; trying again in {} s", delay.as_secs()));
                failures += 1;
                tokio::time::sleep(delay).await;
            }
        }
    }
}

/// The pause before the next try after this many failures in a row: a coordinator that restarts is back in seconds.
/// `None` when waiting does not help, or has not helped for five minutes.
pub(crate) fn retry_delay(error: &CliError, failures: u32) -> Option<Duration> {
    const FAILURES_MAX: u32 = 13;
    const DELAY_MAX_S: u64 = 30;
    let seconds = 1u64.checked_shl(failures).unwrap_or(DELAY_MAX_S).min(DELAY_MAX_S);
    (error.is_temporary() && failures < FAILURES_MAX).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ApiError;
    use tributary_protocol::problem::{Problem, ProblemType};

    #[test]
    fn a_restart_is_waited_for_and_a_refusal_is_not() {
        let unreachable = CliError::from(ApiError::Unreachable { server: String::new(), cause: String::new() });
        let delays: Vec<u64> =
            (0..).map_while(|failures| retry_delay(&unreachable, failures)).map(|d| d.as_secs()).collect();
        assert_eq!(delays[..6], [1, 2, 4, 8, 16, 30]);
        assert!((240..360).contains(&delays.iter().sum::<u64>()), "{delays:?}");
        for kind in [ProblemType::Unauthorized, ProblemType::NotFound, ProblemType::Malformed] {
            assert_eq!(retry_delay(&ApiError::from(Problem::new(kind, "")).into(), 0), None);
        }
    }
}
