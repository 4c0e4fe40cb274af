//! `tributary job rename|tag|note|archive|delete`: how jobs are filed.

use std::io::IsTerminal;

use tributary_protocol::id::Name;
use tributary_protocol::operator::{ChangeJob, Job};

use super::args::{JobArchiveArgs, JobDeleteArgs, JobNoteArgs, JobRenameArgs, JobTagArgs};
use super::find::find_job;
use crate::api::Api;
use crate::error::{CliError, Failure};
use crate::output::Output;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DeleteError {
    #[error("the job {0} was not deleted: nobody confirmed it")]
    Unconfirmed(Name),
}

impl Failure for DeleteError {
    fn hint(&self) -> Option<String> {
        Some("type the job's name when asked, or add --yes".into())
    }
}

pub(super) async fn rename(args: &JobRenameArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    let renamed =
        api.file_job(job.head.id, &ChangeJob { name: Some(args.name.clone()), ..ChangeJob::default() }).await?;
    output.object(&renamed, || format!("the job {} is now called {}", job.file.name, renamed.file.name))
}

/// Adds and removes tags. Without any, it prints those that there are.
pub(super) async fn tag(args: &JobTagArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    if args.tags.is_empty() && args.remove.is_empty() {
        return output.object(&job, || tags_text(&job));
    }
    let kept = job.head.tags.iter().filter(|tag| !args.remove.contains(tag));
    let tags = kept.chain(&args.tags).cloned().collect();
    let job = api.file_job(job.head.id, &ChangeJob { tags: Some(tags), ..ChangeJob::default() }).await?;
    output.object(&job, || tags_text(&job))
}

pub(super) async fn note(args: &JobNoteArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    let Some(text) = &args.text else {
        let text = if job.head.notes.is_empty() { "no notes".to_owned() } else { job.head.notes.clone() };
        return output.object(&job, || text);
    };
    let job = api.file_job(job.head.id, &ChangeJob { notes: Some(text.clone()), ..ChangeJob::default() }).await?;
    output.object(&job, || format!("stored the notes of the job {}", job.file.name))
}

pub(super) async fn archive(args: &JobArchiveArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    let change = ChangeJob { archived: Some(!args.undo), ..ChangeJob::default() };
    let job = api.file_job(job.head.id, &change).await?;
    output.object(&job, || match job.head.archived_at_ms {
        Some(_) => format!("archived the job {}; `tributary job list --archived` shows it", job.file.name),
        None => format!("the job {} is in the lists again", job.file.name),
    })
}

pub(super) async fn delete(args: &JobDeleteArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    if !args.yes && !is_confirmed(&job).await? {
        return Err(DeleteError::Unconfirmed(job.file.name).into());
    }
    api.delete_job(job.head.id).await?;
    output.object(&serde_json::json!({ "deleted": job.head.id }), || format!("deleted the job {}", job.file.name))
}

/// Asks for the job's name on a terminal. Elsewhere nobody can answer.
async fn is_confirmed(job: &Job) -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    let (name, question) = (job.file.name.to_string(), question(job));
    let ask = move || {
        let terminal = console::Term::stderr();
        terminal.write_str(&question)?;
        terminal.read_line()
    };
    let typed = tokio::task::spawn_blocking(ask).await.map_err(|error| CliError::Internal(error.to_string()))?;
    let typed = typed.map_err(|error| CliError::BadSetting(format!("cannot read the confirmation: {error}")))?;
    Ok(typed.trim() == name)
}

fn question(job: &Job) -> String {
    let versions = job.head.model_version.map_or(0, |newest| newest + 1);
    format!(
        "This deletes {} rounds and {versions} model versions for good. Type the name of the job ({}) to confirm: ",
        job.head.rounds_opened, job.file.name
    )
}

fn tags_text(job: &Job) -> String {
    if job.head.tags.is_empty() {
        return format!("the job {} has no tags", job.file.name);
    }
    let tags: Vec<&str> = job.head.tags.iter().map(Name::as_str).collect();
    format!("{}: {}", job.file.name, tags.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::args::JobCommand;
    use crate::testing::{Fake, job, output};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: JobCommand,
    }

    async fn run(line: &str, api: &Api) -> Result<String, CliError> {
        let (output, printed) = output(false);
        let words = ["job"].into_iter().chain(line.split(' '));
        crate::job::run(Line::try_parse_from(words).unwrap().command, api, &output).await?;
        let text = printed.lock().unwrap().clone();
        Ok(text.trim_end().to_owned())
    }

    #[tokio::test]
    async fn a_job_is_renamed_tagged_noted_and_archived() {
        let api = Fake { jobs: vec![job(1, "demo", "digits")], ..Fake::default() }.start().await;
        assert_eq!(run("rename digits mnist", &api).await.unwrap(), "the job digits is now called mnist");
        assert_eq!(run("tag mnist baseline paper", &api).await.unwrap(), "mnist: baseline paper");
        assert_eq!(run("tag mnist --remove paper", &api).await.unwrap(), "mnist: baseline");
        assert_eq!(run("tag mnist", &api).await.unwrap(), "mnist: baseline");
        assert_eq!(run("note mnist good", &api).await.unwrap(), "stored the notes of the job mnist");
        assert_eq!(run("note mnist", &api).await.unwrap(), "good");
        assert!(run("archive mnist", &api).await.unwrap().starts_with("archived the job mnist"));
        assert!(!run("list", &api).await.unwrap().contains("mnist"));
        assert!(run("list --archived", &api).await.unwrap().contains("mnist"));
        assert_eq!(run("archive mnist --undo", &api).await.unwrap(), "the job mnist is in the lists again");
    }

    #[tokio::test]
    async fn a_job_is_deleted_only_when_somebody_confirms_it() {
        let fake = Fake { jobs: vec![job(1, "demo", "digits")], ..Fake::default() };
        let api = fake.start().await;
        // Tests have no terminal. On one, the name is asked for.
        let error = run("delete digits", &api).await.expect_err("unconfirmed");
        assert_eq!(error.to_string(), "the job digits was not deleted: nobody confirmed it");
        assert!(!fake.calls().iter().any(|call| call.starts_with("DELETE")));
        assert_eq!(run("delete digits --yes", &api).await.unwrap(), "deleted the job digits");
        assert!(run("show digits", &api).await.is_err());
    }
}
