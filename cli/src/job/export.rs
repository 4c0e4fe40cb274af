//! `tributary job export`: a model version as a file, which exists complete and checked or not at all.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::header::{ETAG, HeaderMap};
use serde_json::json;
use tempfile::NamedTempFile;
use tributary_client::inputs::Preparation;
use tributary_client::predict::PredictError;
use tributary_client::predict::onnx::{self, OnnxError, OnnxSettings, Prologue};
use tributary_protocol::card::ModelCard;
use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::JobId;
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::operator::{Job, ModelVersion};
use tributary_protocol::safetensors::{model_file_beginning, model_metadata};
use tributary_protocol::update::{FormBodyError, model_in_form};

use super::args::{ExportForm, JobExportArgs};
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
    #[error("the model of the job {0} is a list of parameters, whose network only the apps have")]
    NoLayers(String),
    #[error("the model cannot be written as an ONNX file: {0}")]
    Onnx(#[from] OnnxError),
    #[error("the downloaded model does not fit the job: {0}")]
    OtherModel(#[from] FormBodyError),
}

impl Failure for ExportError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoModelYet(_) => {
                "upload version 0 with `tributary job create FILE --initial-model MODEL.safetensors`"
            }
            Self::WrongHash { .. } => "nothing was written; try again, and look for a proxy that changes files",
            Self::NoLayers(_) => "export it as f32, and convert it with the app's own network",
            Self::Onnx(_) | Self::OtherModel(_) => return None,
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
    let written = match args.form {
        ExportForm::F32 => write_with_card(api, &job, &version, &path).await?,
        ExportForm::F16 => download(api, job.head.id, &version, ModelForm::F16, &path).await?,
        ExportForm::Onnx => write_onnx(api, &job, &version, &path).await?,
    };
    let exported = json!({
        "job": job.head.id, "version": version.version, "form": args.form.as_str(), "path": path, "sha256": written.sha256,
        "bytes": written.bytes,
    });
    output.object(&exported, || {
        let (number, size) = (version.version, bytes(written.bytes));
        let form = match args.form {
            ExportForm::F32 => String::new(),
            form => format!(" as {}", form.as_str()),
        };
        format!("wrote model version {number}{form} to {} ({size})\nSHA-256 {}", path.display(), written.sha256)
    })
}

fn default_path(job: &Job, version: u32, form: ExportForm) -> PathBuf {
    // `Name` allows only letters that are safe in file names.
    let name = &job.file.name;
    match form {
        ExportForm::F32 => format!("{name}-v{version}.safetensors").into(),
        ExportForm::F16 => format!("{name}-v{version}-f16.safetensors").into(),
        ExportForm::Onnx => format!("{name}-v{version}.onnx").into(),
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

/// Downloads a version and writes it with a card, which says what the model is and what it is fed. The hash is that of
/// the version: the card is outside of it.
async fn write_with_card(api: &Api, job: &Job, version: &ModelVersion, path: &Path) -> Result<Written, CliError> {
    let (written, mut plain) = plain_file(api, job, version, path).await?;
    let parameters = job.file.model.parameters().map_err(|error| CliError::Internal(error.to_string()))?;
    let card = ModelCard {
        job: job.file.name.clone(),
        version: version.version,
        sha256: version.sha256,
        plan_sha256: job.plan_hash,
        loss: job.file.training.loss,
        model: job.file.model.clone(),
    };
    let values = model_file_beginning(&parameters, &model_metadata()).len() as u64;
    let beginning = model_file_beginning(&parameters, &card.metadata());
    let mut file = temporary_beside(path).map_err(CliError::file("write", path))?;
    file.write_all(&beginning).map_err(CliError::file("write", path))?;
    plain.seek(SeekFrom::Start(values)).map_err(CliError::file("read", path))?;
    let values = io::copy(&mut plain, &mut file).map_err(CliError::file("write", path))?;
    file.as_file().sync_all().map_err(CliError::file("write", path))?;
    file.persist(path).map_err(|error| CliError::file("write", path)(error.error))?;
    Ok(Written { sha256: written.sha256, bytes: beginning.len() as u64 + values })
}

/// The plain file of a version, checked against its hash.
async fn plain_file(
    api: &Api,
    job: &Job,
    version: &ModelVersion,
    path: &Path,
) -> Result<(Written, NamedTempFile), CliError> {
    // It is removed when it is dropped, and the folder of the file has room for a model.
    let plain = temporary_beside(path).map_err(CliError::file("write", path))?;
    let written = download(api, job.head.id, version, ModelForm::F32, plain.path()).await?;
    // The download replaced the file of this name: the handle is of the one before.
    let plain = NamedTempFile::from_parts(
        File::open(plain.path()).map_err(CliError::file("read", path))?,
        plain.into_temp_path(),
    );
    Ok((written, plain))
}

/// Downloads a version and writes it with its layers as an ONNX file.
async fn write_onnx(api: &Api, job: &Job, version: &ModelVersion, path: &Path) -> Result<Written, CliError> {
    let name = job.file.name.to_string();
    let spec = &job.file.model.spec;
    let ModelSpec::Layers(network) = spec else { return Err(ExportError::NoLayers(name).into()) };
    let parameters = spec.parameters().map_err(|error| ExportError::Onnx(PredictError::from(error).into()))?;
    let (_, plain) = plain_file(api, job, version, path).await?;
    let body = std::fs::read(plain.path()).map_err(CliError::file("read", path))?;
    let model = model_in_form(&body, &Arc::new(parameters), ModelForm::F32).map_err(ExportError::OtherModel)?;
    let number = ("version".to_owned(), version.version.to_string());
    let license = job.file.model.license.clone().map(|text| ("license".to_owned(), text));
    let metadata = [("job".to_owned(), job.head.id.to_string()), number].into_iter().chain(license).collect();
    let inputs = job.file.model.inputs.clone().unwrap_or_default();
    let preparation = Preparation::of(&inputs);
    let (values, channels) = (network.input.iter().product(), network.input.first().copied().unwrap_or(1));
    let prologue = preparation.scales(values, channels).map(|(mean, deviation)| Prologue { mean, deviation });
    let classes = inputs.target.map(|target| target.classes).unwrap_or_default();
    let settings = OnnxSettings { name: Some(name), metadata, prologue, classes };
    let content = onnx::write(network, &model, &settings).map_err(ExportError::Onnx)?;
    let mut file = temporary_beside(path).map_err(CliError::file("write", path))?;
    file.write_all(&content).map_err(CliError::file("write", path))?;
    file.as_file().sync_all().map_err(CliError::file("write", path))?;
    file.persist(path).map_err(|error| CliError::file("write", path)(error.error))?;
    Ok(Written { sha256: Sha256Hash::of(&content), bytes: content.len() as u64 })
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
    use tributary_protocol::layers::{Layer, LayeredModel};
    use tributary_protocol::model::{Model, ParameterSpec};
    use tributary_protocol::safetensors::{model_to_bytes, model_with_metadata};
    use tributary_protocol::seed::Seed;

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
            form: ExportForm::F32,
            output: Some(output.into()),
            sinks: MetricsSinks::default(),
        }
    }

    /// A file of the fake job's model, with these values.
    fn plain(value: f32) -> Vec<u8> {
        let parameters = Arc::new(job(1, "demo", "digits").file.model.parameters().unwrap());
        let values = vec![value; parameters.total()];
        model_to_bytes(&Model::new(parameters, values).unwrap(), &model_metadata())
    }

    /// The values of a written file, and the version that its card names.
    fn read_card(path: &Path) -> (f32, u32) {
        let (model, metadata) = model_with_metadata(&std::fs::read(path).unwrap()).unwrap();
        let card = ModelCard::of(&metadata).unwrap();
        assert_eq!(card.sha256, Sha256Hash::of(&model_to_bytes(&model, &model_metadata())), "the plain file's");
        (model.values()[0], card.version)
    }

    #[tokio::test]
    async fn the_newest_version_replaces_the_file_when_its_hash_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        std::fs::write(&path, b"before").unwrap();
        let model = plain(0.5);
        let (output, printed) = output(true);
        run(&args(None, &path), &fake(&model, &model).start().await, &output).await.unwrap();
        assert_eq!(read_card(&path), (0.5, 1));
        let exported: serde_json::Value = serde_json::from_str(&printed.lock().unwrap()).unwrap();
        assert_eq!(exported["sha256"], Sha256Hash::of(&model).to_string());
        assert_eq!(exported["bytes"], std::fs::metadata(&path).unwrap().len());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn the_best_version_is_that_of_the_best_evaluation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let mut coordinator = fake(b"newest", &plain(0.25));
        let best = JobExportArgs { best: true, ..args(None, &path) };
        let error = run(&best, &coordinator.start().await, &output(true).0).await.expect_err("nothing was evaluated");
        assert_eq!(error.exit_code(), crate::error::exit::NOT_FOUND);
        coordinator.versions[0] = ModelVersion { best: true, ..version(0, &plain(0.25)) };
        run(&best, &coordinator.start().await, &output(true).0).await.unwrap();
        assert_eq!(read_card(&path), (0.25, 0));
    }

    #[tokio::test]
    async fn another_form_has_its_own_length_and_its_name_says_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let half = JobExportArgs { form: ExportForm::F16, ..args(None, &path) };
        let coordinator = fake(b"a model of 32-bit values", b"half of it");
        let api = coordinator.start().await;
        let (output, printed) = output(true);
        run(&half, &api, &output).await.unwrap();
        let exported: serde_json::Value = serde_json::from_str(&printed.lock().unwrap()).unwrap();
        assert_eq!((&exported["form"], &exported["bytes"]), (&"f16".into(), &10.into()));
        assert_eq!(exported["sha256"], Sha256Hash::of(b"half of it").to_string());
        assert_eq!(std::fs::read(&path).unwrap(), b"half of it");
        let named = |form| default_path(&coordinator.jobs[0], 1, form).display().to_string();
        let names = [ExportForm::F32, ExportForm::F16, ExportForm::Onnx].map(named);
        assert_eq!(names, ["digits-v1.safetensors", "digits-v1-f16.safetensors", "digits-v1.onnx"]);
    }

    /// A coordinator whose job has this model.
    fn with_model(spec: ModelSpec) -> Fake {
        let model = model_to_bytes(&spec.initial_model(Seed(1)).unwrap(), &model_metadata());
        let mut coordinator = fake(&model, &model);
        coordinator.jobs[0].file.model.spec = spec;
        coordinator
    }

    #[tokio::test]
    async fn a_list_of_layers_is_written_as_an_onnx_file_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        let layers = vec![Layer::Linear { out_features: 2, bias: true }, Layer::Relu {}];
        let network = LayeredModel { input: vec![3], layers };
        let spec = ModelSpec::Layers(network.clone());
        let coordinator = with_model(spec.clone());
        let (output, printed) = output(true);
        let onnx = JobExportArgs { form: ExportForm::Onnx, ..args(None, &path) };
        run(&onnx, &coordinator.start().await, &output).await.unwrap();
        let job = coordinator.jobs[0].head.id.to_string();
        let metadata = vec![("job".to_owned(), job), ("version".to_owned(), "1".to_owned())];
        let settings = OnnxSettings { name: Some("digits".to_owned()), metadata, ..OnnxSettings::default() };
        let expected = onnx::write(&network, &spec.initial_model(Seed(1)).unwrap(), &settings).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        let exported: serde_json::Value = serde_json::from_str(&printed.lock().unwrap()).unwrap();
        assert_eq!((&exported["form"], &exported["bytes"]), (&"onnx".into(), &expected.len().into()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn an_apps_own_network_has_no_onnx_file() {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = with_model(ModelSpec::Parameters(vec![ParameterSpec::new("w", [2])]));
        let onnx = JobExportArgs { form: ExportForm::Onnx, ..args(None, &folder.path().join("model.onnx")) };
        let error = run(&onnx, &coordinator.start().await, &output(true).0).await.expect_err("no layers");
        let expected = "the model of the job digits is a list of parameters, whose network only the apps have";
        assert_eq!(error.to_string(), expected);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
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
