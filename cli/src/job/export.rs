//! `tributary job export`: a model version as a file, which exists complete and checked or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use reqwest::header::{ETAG, HeaderMap};
use serde_json::json;
use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Job, ModelVersion};

use super::args::JobExportArgs;
use super::find::find_job;
use crate::api::{Api, ApiError, collect};
use crate::error::{CliError, Failure};
use crate::files::temporary_beside;
use crate::format::bytes;
use crate::http::causes;
use crate::output::Output;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// The job waits for model version 0.
    #[error("the job {0} has no model yet")]
    NoModelYet(String),
    #[error("the downloaded model has the SHA-256 {got}, and the coordinator announced {expected}")]
    WrongHash { expected: Sha256Hash, got: Sha256Hash },
}

impl Failure for ExportError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoModelYet(_) => {
                "upload version 0 with `tributary job create FILE --initial-model MODEL.safetensors`"
            }
            Self::WrongHash { .. } => "nothing was written; try again, and look for a proxy that changes files",
        };
        Some(hint.into())
    }
}

pub(crate) async fn run(args: &JobExportArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    let version = match args.best {
        true => best_version(api, &job).await?,
        false => find_version(api, &job, args.version).await?,
    };
    let path = args.output.clone().unwrap_or_else(|| default_path(&job, version.version, args.form));
    let written = download(api, job.head.id, &version, args.form, &path).await?;
    let exported = json!({
        "job": job.head.id, "version": version.version, "form": args.form, "path": path, "sha256": written.sha256,
        "bytes": written.bytes,
    });
    output.object(&exported, || {
        let (number, size) = (version.version, bytes(written.bytes));
        let form = match args.form {
            ModelForm::F32 => String::new(),
            form => format!(" as {}", form.as_str()),
        };
        format!("wrote model version {number}{form} to {} ({size})\nSHA-256 {}", path.display(), written.sha256)
    })
}

fn default_path(job: &Job, version: u32, form: ModelForm) -> PathBuf {
    // `Name` allows only letters that are safe in file names.
    let name = &job.file.name;
    match form {
        ModelForm::F32 => format!("{name}-v{version}.safetensors").into(),
        form => format!("{name}-v{version}-{}.safetensors", form.as_str()).into(),
    }
}

/// Looks up a version; `None` is the newest.
pub(crate) async fn find_version(api: &Api, job: &Job, wanted: Option<u32>) -> Result<ModelVersion, CliError> {
    let name = &job.file.name;
    let wanted = wanted.or(job.head.model_version).ok_or_else(|| ExportError::NoModelYet(name.to_string()))?;
    let versions = collect(None, async |page| api.model_versions(job.head.id, page).await).await?;
    let found = versions.items.into_iter().find(|version| version.version == wanted);
    found.ok_or_else(|| CliError::NotFound(format!("model version {wanted} of the job {name}")))
}

/// The version whose evaluation is the best of the job.
async fn best_version(api: &Api, job: &Job) -> Result<ModelVersion, CliError> {
    let versions = collect(None, async |page| api.model_versions(job.head.id, page).await).await?;
    let best = versions.items.into_iter().find(|version| version.best);
    best.ok_or_else(|| CliError::NotFound(format!("evaluated model version of the job {}", job.file.name)))
}

/// A file that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) sha256: Sha256Hash,
    pub(crate) bytes: u64,
}

/// Downloads a version. An interrupted or wrong download leaves `path` as it was. The hash of the plain file was
/// announced with the version; those of other forms are in the ETag where the coordinator stores them, and a form that
/// it computes is checked by its length.
pub(crate) async fn download(
    api: &Api,
    job: JobId,
    version: &ModelVersion,
    form: ModelForm,
    path: &Path,
) -> Result<Written, CliError> {
    let mut file = temporary_beside(path).map_err(CliError::file("write", path))?;
    let mut response = api.model(job, version.version, form).await?;
    let mut hasher = Sha256Hasher::new();
    let announced = match form {
        ModelForm::F32 => Some((version.bytes, Some(version.sha256))),
        _ => response.content_length().map(|bytes| (bytes, hash_in_etag(response.headers()))),
    };
    let (bytes, expected) = announced.ok_or_else(|| ApiError::BadAnswer {
        call: response_name(job, version),
        cause: "its length was not announced".to_owned(),
    })?;
    let mut bytes_left = bytes;
    while let Some(chunk) = response.chunk().await.map_err(|error| interrupted(&response_name(job, version), &error))? {
        // A longer body cannot have the right hash. It is refused before it fills the disk.
        bytes_left = bytes_left.checked_sub(chunk.len() as u64).ok_or_else(|| ApiError::BadAnswer {
            call: response_name(job, version),
            cause: format!("more than the {bytes} bytes announced"),
        })?;
        hasher.update(&chunk);
        file.write_all(&chunk).map_err(CliError::file("write", path))?;
    }
    if bytes_left > 0 {
        let cause = format!("{bytes_left} of the {bytes} bytes announced are missing");
        return Err(ApiError::BadAnswer { call: response_name(job, version), cause }.into());
    }
    let sha256 = hasher.finish();
    check(expected.unwrap_or(sha256), sha256)?;
    file.as_file().sync_all().map_err(CliError::file("write", path))?;
    file.persist(path).map_err(|error| CliError::file("write", path)(error.error))?;
    Ok(Written { sha256, bytes })
}

/// The hash of a stored file; none of a file that is computed while it is sent.
fn hash_in_etag(headers: &HeaderMap) -> Option<Sha256Hash> {
    headers.get(ETAG)?.to_str().ok()?.trim_matches('"').parse().ok()
}

fn check(expected: Sha256Hash, got: Sha256Hash) -> Result<(), ExportError> {
    if expected == got { Ok(()) } else { Err(ExportError::WrongHash { expected, got }) }
}

fn response_name(job: JobId, version: &ModelVersion) -> String {
    format!("GET /operator/v1/jobs/{job}/models/{}", version.version)
}

fn interrupted(call: &str, error: &reqwest::Error) -> ApiError {
    ApiError::BadAnswer { call: call.to_owned(), cause: format!("it was cut off: {}", causes(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::args::{JobArgs, MetricsSinks};
    use crate::testing::{Fake, job, output};

    fn version(number: u32, content: &[u8]) -> ModelVersion {
        ModelVersion {
            version: number,
            round: (number > 0).then_some(number),
            sha256: Sha256Hash::of(content),
            bytes: content.len() as u64,
            created_at_ms: 0,
            deleted_at_ms: None,
            accuracy: None,
            measured_on: None,
            loss: None,
            best: false,
            pinned_at_ms: None,
        }
    }

    fn fake(announced: &[u8], served: &[u8]) -> Fake {
        let mut job = job(1, "demo", "digits");
        job.head.model_version = Some(1);
        Fake {
            jobs: vec![job],
            versions: vec![version(0, b"old"), version(1, announced)],
            model: served.to_vec(),
            ..Fake::default()
        }
    }

    fn args(version: Option<u32>, output: &Path) -> JobExportArgs {
        let job = JobArgs { job: "digits".into(), population: None };
        JobExportArgs {
            job,
            version,
            best: false,
            form: ModelForm::F32,
            output: Some(output.into()),
            sinks: MetricsSinks::default(),
        }
    }

    #[tokio::test]
    async fn the_newest_version_replaces_the_file_when_its_hash_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        std::fs::write(&path, b"before").unwrap();
        let model = vec![5; 300_000];
        let (output, printed) = output(true);
        run(&args(None, &path), &fake(&model, &model).start().await, &output).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), model);
        let exported: serde_json::Value = serde_json::from_str(&printed.lock().unwrap()).unwrap();
        assert_eq!(exported["sha256"], Sha256Hash::of(&model).to_string());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn the_best_version_is_that_of_the_best_evaluation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let mut coordinator = fake(b"newest", b"best");
        let best = JobExportArgs { best: true, ..args(None, &path) };
        let error = run(&best, &coordinator.start().await, &output(true).0).await.expect_err("nothing was evaluated");
        assert_eq!(error.exit_code(), crate::error::exit::NOT_FOUND);
        coordinator.versions[0] = ModelVersion { best: true, ..version(0, b"best") };
        let (output, printed) = output(true);
        run(&best, &coordinator.start().await, &output).await.unwrap();
        let exported: serde_json::Value = serde_json::from_str(&printed.lock().unwrap()).unwrap();
        assert_eq!((&exported["version"], std::fs::read(&path).unwrap()), (&0.into(), b"best".to_vec()));
    }

    #[tokio::test]
    async fn another_form_has_its_own_length_and_its_name_says_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let half = JobExportArgs { form: ModelForm::F16, ..args(None, &path) };
        let coordinator = fake(b"a model of 32-bit values", b"half of it");
        let api = coordinator.start().await;
        let (output, printed) = output(true);
        run(&half, &api, &output).await.unwrap();
        let exported: serde_json::Value = serde_json::from_str(&printed.lock().unwrap()).unwrap();
        assert_eq!((&exported["form"], &exported["bytes"]), (&"f16".into(), &10.into()));
        assert_eq!(exported["sha256"], Sha256Hash::of(b"half of it").to_string());
        assert_eq!(std::fs::read(&path).unwrap(), b"half of it");
        let named = |form| default_path(&coordinator.jobs[0], 1, form).display().to_string();
        let names = ModelForm::ALL.map(named);
        assert_eq!(names, ["digits-v1.safetensors", "digits-v1-f16.safetensors", "digits-v1-int8.safetensors"]);
    }

    #[tokio::test]
    async fn changed_or_longer_bytes_leave_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        std::fs::write(&path, b"before").unwrap();
        for served in [b"modal".as_slice(), b"model and more"] {
            let api = fake(b"model", served).start().await;
            run(&args(None, &path), &api, &output(true).0).await.expect_err("other bytes");
            assert_eq!(std::fs::read(&path).unwrap(), b"before");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[tokio::test]
    async fn a_missing_version_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let api = fake(b"model", b"model").start().await;
        let error =
            run(&args(Some(9), &folder.path().join("m")), &api, &output(true).0).await.expect_err("no version 9");
        assert_eq!(error.to_string(), "there is no model version 9 of the job digits");
        assert_eq!(error.exit_code(), crate::error::exit::NOT_FOUND);
    }
}
