//! `tributary round`: the rounds of a job and their assignments.

pub(crate) mod list;
mod measured;
mod ring;
pub(crate) mod text;

use clap::Subcommand;
use serde_json::json;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{Job, RoundDetail, RoundSort};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Task;

use crate::api::{Api, ApiError, collect};
use crate::error::{CliError, Failure, exit};
use crate::job::args::JobArgs;
use crate::job::find::find_job;
use crate::options::{LimitArgs, ReverseArgs, one_of};
use crate::output::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum RoundCommand {
    /// Lists the newest rounds of a job in ascending order, or with --sort those that need attention first.
    List {
        #[command(flatten)]
        job: JobArgs,
        /// `train` or `evaluate`.
        #[arg(long, default_value = "train", value_name = "TASK")]
        task: Task,
        /// What the list is sorted by: the newest, the slowest, or the worst come first.
        #[arg(long, value_name = "KEY", value_parser = one_of(RoundSort::ALL, RoundSort::as_str))]
        sort: Option<RoundSort>,
        #[command(flatten)]
        reverse: ReverseArgs,
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Shows one round: which clients were assigned, how each assignment ended, and why.
    Show {
        #[command(flatten)]
        job: JobArgs,
        /// The round's number, from 1.
        #[arg(value_name = "NUMBER")]
        round: u32,
        /// `train` or `evaluate`.
        #[arg(long, default_value = "train", value_name = "TASK")]
        task: Task,
    },
}

pub(crate) async fn run(command: RoundCommand, api: &Api, output: &Output) -> Result<(), CliError> {
    match command {
        RoundCommand::List { job, task, sort, reverse, limit } => {
            let job = find_job(api, &job).await?;
            // The newest at the end is beside the prompt.
            let sort = sort.or(reverse.reverse.then_some(RoundSort::Number));
            let rounds = match sort {
                None => list::newest(api, job.head.id, task, limit.items_max()).await?,
                Some(sort) => {
                    let order = (sort, reverse.of(sort.direction()));
                    let fetch = async |page| api.sorted_rounds(job.head.id, task, order, page).await;
                    collect(limit.items_max(), fetch).await?.items
                }
            };
            output.list(&rounds, &text::HEADER, text::row)
        }
        RoundCommand::Show { job, round: number, task } => {
            let job = find_job(api, &job).await?;
            let detail =
                api.round(job.head.id, number, task).await.map_err(|error| missing(error, &job, number, task))?;
            let RoundDetail { round, explanation, classes, staleness, clocks, .. } = &detail;
            let assignments =
                collect(None, async |page| api.assignments(job.head.id, number, task, page).await).await?.items;
            let object = json!({
                "round": round, "explanation": explanation, "classes": classes,
                "classes_measured_on": &detail.classes_measured_on, "staleness": staleness,
                "clocks": clocks, "groups": &detail.groups, "waiting_for_group": detail.waiting_for_group,
                "ring": &detail.ring,
                "assignments": &assignments,
            });
            output.object(&object, || {
                let measured = measured::tables(&detail, job.file.model.inputs.as_ref(), output.width);
                let ring = detail.ring.as_ref().map(|ring| ring::tables(ring, output.width)).unwrap_or_default();
                format!("{explanation}\n\n{}{ring}{measured}", text::page(round, &assignments, output.width))
            })
        }
    }
}

/// A round that a job does not have.
#[derive(Debug, thiserror::Error)]
#[error("the job {job} has no {what} {number}")]
struct NoSuchRound {
    job: Name,
    what: &'static str,
    number: u32,
    hint: String,
}

impl Failure for NoSuchRound {
    fn exit_code(&self) -> u8 {
        exit::NOT_FOUND
    }

    fn hint(&self) -> Option<String> {
        Some(self.hint.clone())
    }
}

/// The error in the words of who asked: the job by its name, and the rounds that it has.
fn missing(error: ApiError, job: &Job, number: u32, task: Task) -> CliError {
    if !error.problem().is_some_and(|problem| problem.kind == ProblemType::NotFound) {
        return error.into();
    }
    let (name, opened) = (&job.file.name, job.head.rounds_opened);
    let (what, list) = match task {
        Task::Train => ("round", format!("tributary round list {name}")),
        Task::Evaluate => ("evaluation of round", format!("tributary round list {name} --task evaluate")),
        Task::Describe => ("description", format!("tributary round list {name} --task describe")),
    };
    let hint = match opened {
        _ if task == Task::Describe => format!("`{list}` shows them"),
        0 => "no round of it was opened yet".to_owned(),
        _ => format!("it has opened {opened}: `{list}` shows them"),
    };
    NoSuchRound { job: name.clone(), what, number, hint }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, job, output, round};
    use tributary_protocol::state::Phase;

    #[tokio::test]
    async fn a_round_is_shown_with_its_explanation() {
        let rounds = vec![round(Task::Train, 7, Phase::Committed)];
        let fake = Fake { jobs: vec![job(1, "demo", "digits")], rounds, ..Fake::default() };
        let api = fake.start().await;
        let show = async |number| {
            let (output, printed) = output(false);
            let job = JobArgs { job: "digits".into(), population: None };
            let shown = run(RoundCommand::Show { job, round: number, task: Task::Train }, &api, &output).await;
            shown.map(|()| printed.lock().unwrap().clone())
        };
        let text = show(7).await.unwrap();
        assert!(text.starts_with("Round 7 has its reasons.\n\n") && text.contains("model version 6"), "{text}");
        let error = show(8).await.expect_err("there is none");
        assert_eq!((error.to_string().as_str(), error.exit_code()), ("the job digits has no round 8", exit::NOT_FOUND));
    }
}
