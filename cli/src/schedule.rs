//! `tributary schedule`: recurring work of the coordinators.

use clap::Subcommand;
use tributary_protocol::operator::ScheduledWork;

use crate::api::{Api, collect};
use crate::error::CliError;
use crate::format::{or_dash, relative, timestamp};
use crate::options::LimitArgs;
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Lists scheduled work (retention and upkeep) with its last and next run.
    List {
        #[command(flatten)]
        limit: LimitArgs,
    },
}

pub(crate) async fn run(command: ScheduleCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    let ScheduleCommand::List { limit } = command;
    let works = collect(limit.items_max(), async |page| api.schedules(page).await).await?;
    let header = ["name", "when", "zone", "next", "last", "node", "outcome"];
    output.list(&works.items, &header, |work| row(work, output.now_ms))?;
    output.note_if_cut(works.is_cut);
    Ok(())
}

fn row(work: &ScheduledWork, now_ms: i64) -> Vec<String> {
    let last = work.last.as_ref();
    vec![
        work.name.clone(),
        work.cron.clone(),
        work.time_zone.clone(),
        timestamp(work.next_at_ms),
        or_dash(last, |run| relative(run.started_at_ms, now_ms)),
        or_dash(last, |run| run.node.clone()),
        or_dash(last, |run| match (run.ended_at_ms, run.failed) {
            (None, _) => "running, or interrupted".into(),
            (Some(_), true) => format!("failed: {}", run.outcome),
            (Some(_), false) => run.outcome.clone(),
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_protocol::operator::ScheduledRun;

    #[test]
    fn work_says_when_it_is_due_and_how_its_last_run_ended() {
        let run = ScheduledRun {
            started_at_ms: 3_600_000,
            node: "a".into(),
            ended_at_ms: Some(3_600_001),
            failed: false,
            outcome: "deleted 1 model versions".into(),
        };
        let work = |last| ScheduledWork {
            name: "retention".into(),
            cron: "0 * * * *".into(),
            time_zone: "UTC".into(),
            next_at_ms: 7_200_000,
            last,
        };
        let outcome = |last: Option<ScheduledRun>| row(&work(last), 5_400_000)[4..].join("|");
        assert_eq!(row(&work(None), 0)[3], "1970-01-01 02:00:00Z");
        assert_eq!(outcome(None), "-|-|-");
        assert_eq!(outcome(Some(run.clone())), "30 min ago|a|deleted 1 model versions");
        assert_eq!(
            outcome(Some(ScheduledRun { failed: true, ..run.clone() })).split('|').next_back(),
            Some("failed: deleted 1 model versions")
        );
        assert_eq!(outcome(Some(ScheduledRun { ended_at_ms: None, ..run })), "30 min ago|a|running, or interrupted");
    }
}
