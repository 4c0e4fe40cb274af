//! Version 0 of a model, drawn from its job's seed or uploaded. It is never whole in memory.

use tributary_protocol::hash::Sha256Hasher;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::safetensors::{ModelDecoder, ModelFileError, model_file_beginning, model_metadata};

use crate::app::App;
use crate::blob::{BlobError, Spool, model_key};
use crate::commit::blocking;
use crate::spec::JobSpec;
use crate::version::{NewVersion, VersionError, spool};

/// Values that are drawn at once: 1 MiB of the file.
const DRAWN_VALUES: usize = 1 << 18;

/// Bytes of a value in the file.
const VALUE_BYTES: u64 = 4;

/// Draws the first model of a job.
///
/// # Errors
/// [`VersionError`] when the database or the store does not answer.
pub(crate) async fn draw_first(app: &App, spec: &JobSpec) -> Result<NewVersion, VersionError> {
    let network = spec.file.model.clone();
    let seed = spec.seed().derive("model", 0);
    let mut values = network.initial_values(seed).expect("a job's network was checked when the job was");
    let mut file = FirstFile::begin(app, spec);
    loop {
        let (back, bytes) = blocking(move || {
            let drawn = values.draw(DRAWN_VALUES);
            (values, drawn.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
        })
        .await;
        values = back;
        if bytes.is_empty() {
            return file.finish(app, spec).await;
        }
        if let Err(error) = file.push(&bytes).await {
            file.spool.discard().await;
            return Err(error.into());
        }
    }
}

/// A version's file on its way into the store, in our own form: parameters in order, no metadata of others. Equal models
/// have equal hashes, whoever wrote the file.
struct FirstFile {
    spool: Spool,
    hasher: Sha256Hasher,
    /// What the file begins with, until it is written.
    beginning: Vec<u8>,
}

impl FirstFile {
    fn begin(app: &App, spec: &JobSpec) -> Self {
        let beginning = model_file_beginning(&spec.parameters, &model_metadata());
        Self { spool: spool(app, model_key(spec.id, 0)), hasher: Sha256Hasher::new(), beginning }
    }

    /// Takes the next values, or parts of them.
    async fn push(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        for piece in [&std::mem::take(&mut self.beginning), bytes] {
            self.hasher.update(piece);
            self.spool.push(piece).await?;
        }
        Ok(())
    }

    async fn finish(self, app: &App, spec: &JobSpec) -> Result<NewVersion, VersionError> {
        let row = ModelVersion {
            version: 0,
            round: None,
            sha256: self.hasher.finish(),
            bytes: self.spool.bytes(),
            created_at_ms: app.clock.now_ms(),
            deleted_at_ms: None,
        };
        NewVersion::of(app, spec, row, self.spool).await
    }
}

/// The first model of a job as somebody uploads it: checked as it arrives, and kept as it is until it is whole.
pub(crate) struct UploadedModel {
    decoder: ModelDecoder,
    spool: Spool,
}

impl UploadedModel {
    pub(crate) fn begin(app: &App, spec: &JobSpec) -> Self {
        let decoder = ModelDecoder::new(spec.parameters.clone());
        Self { decoder, spool: spool(app, model_key(spec.id, 0)) }
    }

    /// Bytes that were taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.spool.bytes()
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// [`UploadError`]; give it up then.
    pub(crate) async fn push(&mut self, data: &[u8]) -> Result<(), UploadError> {
        self.decoder.push(data, &mut |_, _| ())?;
        Ok(self.spool.push(data).await?)
    }

    /// The file is whole. What was uploaded is deleted, whatever comes of it.
    ///
    /// # Errors
    /// [`UploadError`] also for a file that ends too early.
    pub(crate) async fn finish(self, app: &App, spec: &JobSpec) -> Result<NewVersion, UploadError> {
        let made = match self.decoder.finish() {
            Ok(order) => in_order(app, spec, &self.spool, &order).await.map_err(Into::into),
            Err(error) => Err(error.into()),
        };
        self.spool.discard().await;
        made
    }

    /// Gives it up.
    pub(crate) async fn discard(self) {
        self.spool.discard().await;
    }
}

/// Why an uploaded model is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// It is not this job's model.
    #[error(transparent)]
    Model(#[from] ModelFileError),
    /// It cannot be stored.
    #[error(transparent)]
    Version(#[from] VersionError),
}

impl From<BlobError> for UploadError {
    fn from(error: BlobError) -> Self {
        Self::Version(error.into())
    }
}

/// The uploaded file with its parameters in order. `order` says which parameter each of its tensors is. Parameters that
/// follow each other in the file are read in one go, so the file is read once, whatever its order.
async fn in_order(app: &App, spec: &JobSpec, uploaded: &Spool, order: &[usize]) -> Result<NewVersion, VersionError> {
    let bytes_of = |parameter: usize| spec.parameters.range(parameter).len() as u64 * VALUE_BYTES;
    // Values come last in a file, and without holes.
    let mut next = uploaded.bytes() - spec.parameters.total() as u64 * VALUE_BYTES;
    let mut begins = vec![0; order.len()];
    for parameter in order {
        begins[*parameter] = next;
        next += bytes_of(*parameter);
    }
    let mut runs: Vec<std::ops::Range<u64>> = Vec::new();
    for (parameter, begin) in begins.into_iter().enumerate() {
        let end = begin + bytes_of(parameter);
        match runs.last_mut() {
            Some(run) if run.end == begin => run.end = end,
            _ => runs.push(begin..end),
        }
    }
    let mut file = FirstFile::begin(app, spec);
    let written = async {
        for run in runs {
            let mut reader = uploaded.read(run).await?;
            while let Some(data) = reader.next().await? {
                file.push(&data).await?;
            }
        }
        Ok(())
    };
    match written.await {
        Ok(()) => file.finish(app, spec).await,
        Err(error) => {
            file.spool.discard().await;
            Err(VersionError::Blob(error))
        }
    }
}
