//! `tributary job versions|pin|unpin`: the versions of a job's model.

use tributary_protocol::operator::ModelVersion;

use super::args::{JobPinArgs, JobVersionsArgs};
use super::find::find_job;
use crate::api::{Api, collect_newest};
use crate::error::CliError;
use crate::format::{bytes, measured, or_dash, timestamp};
use crate::output::Output;

pub(super) async fn list(args: &JobVersionsArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    let fetch = async |page| api.model_versions(job.head.id, page).await;
    let number = |version: &ModelVersion| i64::from(version.version);
    let versions = collect_newest(args.limit.items_max(), number, fetch).await?;
    let header = ["version", "round", "accuracy", "loss", "size", "made", "notes"];
    output.list(&versions.items, &header, |version| {
        vec![
            version.version.to_string(),
            or_dash(version.round, |round| round.to_string()),
            or_dash(version.accuracy, |accuracy| measured(accuracy, version.measured_on)),
            or_dash(version.loss, |loss| format!("{loss:.4}")),
            bytes(version.bytes),
            timestamp(version.created_at_ms),
            notes(version, job.head.model_version),
        ]
    })?;
    output.note_if_cut(versions.is_cut);
    Ok(())
}

fn notes(version: &ModelVersion, newest: Option<u32>) -> String {
    let notes = [
        (newest == Some(version.version), "newest"),
        (version.best, "best"),
        (version.pinned_at_ms.is_some(), "pinned"),
        (version.deleted_at_ms.is_some(), "file deleted"),
    ];
    let notes: Vec<&str> = notes.iter().filter(|(holds, _)| *holds).map(|(_, note)| *note).collect();
    notes.join(", ")
}

pub(super) async fn pin(args: &JobPinArgs, pinned: bool, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    let version = api.pin_version(job.head.id, args.version, pinned).await?;
    output.object(&version, || {
        let (number, name) = (version.version, &job.file.name);
        match version.pinned_at_ms {
            Some(_) => format!("pinned version {number} of the job {name}: retention keeps it"),
            None => format!("unpinned version {number} of the job {name}: retention may delete it"),
        }
    })
}
