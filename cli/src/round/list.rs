//! Rounds of a job, as many as a command wants.

use tributary_protocol::id::JobId;
use tributary_protocol::operator::{PAGE_ITEMS_MAX, Round};
use tributary_protocol::state::Task;

use crate::api::{Api, ApiError, collect_from};

/// The newest rounds in ascending order; `None`: all rounds.
pub(crate) async fn newest(
    api: &Api,
    job: JobId,
    task: Task,
    items_max: Option<usize>,
) -> Result<Vec<Round>, ApiError> {
    match items_max.map(u32::try_from) {
        Some(Ok(0)) => Ok(vec![]),
        Some(Ok(limit)) if limit <= PAGE_ITEMS_MAX => {
            let mut rounds = api.latest_rounds(job, task, limit).await?;
            rounds.reverse();
            Ok(rounds)
        }
        _ => {
            let mut rounds = after(api, job, task, 0).await?;
            let surplus = items_max.map_or(0, |items_max| rounds.len().saturating_sub(items_max));
            rounds.drain(..surplus);
            Ok(rounds)
        }
    }
}

/// The rounds with a higher number, in ascending order.
pub(crate) async fn after(api: &Api, job: JobId, task: Task, number: u32) -> Result<Vec<Round>, ApiError> {
    let start = Some(number.to_string());
    Ok(collect_from(start, None, async |page| api.rounds(job, task, page).await).await?.items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, job, round};
    use tributary_protocol::state::Phase;

    #[tokio::test]
    async fn the_newest_rounds_come_in_ascending_order() {
        let rounds = (1..=1500).map(|number| round(Task::Train, number, Phase::Committed)).collect();
        let fake = Fake { jobs: vec![job(1, "demo", "digits")], rounds, ..Fake::default() };
        let api = fake.start().await;
        for (items_max, expected) in [(Some(0), 0), (Some(3), 3), (Some(1200), 1200), (None, 1500), (Some(9999), 1500)]
        {
            let found = newest(&api, fake.jobs[0].head.id, Task::Train, items_max).await.unwrap();
            let numbers: Vec<u32> = found.iter().map(|round| round.number).collect();
            assert_eq!(numbers, (1501 - expected..=1500).collect::<Vec<_>>());
        }
    }
}
