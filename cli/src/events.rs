//! `tributary events`: what has happened in a job, and what happens.

use clap::Args;
use tributary_protocol::operator::{Event, PAGE_ITEMS_MAX};

use crate::api::{Api, EVENT_WAIT_MS};
use crate::error::CliError;
use crate::format::timestamp;
use crate::job::args::JobArgs;
use crate::job::find::find_job;
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    #[command(flatten)]
    job: JobArgs,
    /// Begins after the event of this number.
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    after: u64,
    /// Goes on until Ctrl-C or until the job has ended.
    #[arg(long)]
    follow: bool,
}

pub(crate) async fn run(args: &EventArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    let mut after = args.after;
    loop {
        let wait_ms = if args.follow { EVENT_WAIT_MS } else { 0 };
        // The state is asked for first: if it is final, the events that are read after it are complete.
        let is_final = api.job(job.head.id).await?.head.state.is_final();
        let events = api.events(job.head.id, after, if is_final { 0 } else { wait_ms }, PAGE_ITEMS_MAX).await?.items;
        let Some(last) = events.last() else {
            if args.follow && !is_final {
                continue;
            }
            return Ok(());
        };
        after = last.sequence;
        events.iter().try_for_each(|event| output.object(event, || line(event)))?;
    }
}

fn line(event: &Event) -> String {
    let subject = match (event.round, event.task, event.assignment) {
        (_, _, Some(assignment)) => assignment.to_string(),
        (Some(round), Some(task), None) => format!("round {round} {task}"),
        _ => "job".into(),
    };
    let cause = event.cause.as_ref().map(|cause| format!(" ({cause})")).unwrap_or_default();
    format!("{:>6}  {}  {subject}  {}{cause}", event.sequence, timestamp(event.at_ms), event.became)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, Scene, in_state, job, output};
    use tributary_protocol::state::JobState;

    #[tokio::test]
    async fn events_are_followed_until_the_job_has_ended() {
        let running = job(1, "demo", "digits");
        let ended = in_state(&running, JobState::Completed);
        let scenes = vec![Scene { job: ended, rounds: vec![] }];
        let api = Fake { jobs: vec![running], scenes, ..Fake::default() }.start().await;
        let (output, printed) = output(false);
        let job = JobArgs { job: "digits".into(), population: None };
        run(&EventArgs { job, after: 4, follow: true }, &api, &output).await.unwrap();
        assert_eq!(*printed.lock().unwrap(), "     5  1970-01-01 00:00:00Z  job  something\n");
    }
}
