//! Versions that no round here has made: version 0, drawn from its job's seed or uploaded, those of a parent, and
//! copies of the versions of other jobs.

use tributary_engine::job::JobSpec;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::layers::InitialValues;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::safetensors::{ModelDecoder, ModelFileError, model_file_beginning, model_metadata};

use super::file::make_form;
use super::version::{NewVersion, Role, VersionError, spool};
use crate::blob::{BlobError, Spool, Workbench, model_key};
use crate::runtime::clock::Clock;
use crate::runtime::offload::Offload;
use crate::services::Services;

/// Values that are drawn at a time: 1 MiB of the file.
const DRAWN_VALUES: usize = 1 << 18;

/// Bytes of a value in the file.
const VALUE_BYTES: u64 = 4;

/// Draws the first model of a job from its seed. That of an analysis is zeros, to which answers are added.
pub(crate) async fn draw_first(bench: &Workbench, clock: &Clock, spec: &JobSpec) -> Result<NewVersion, VersionError> {
    let network = spec.file.model.spec.clone();
    let seed = spec.seed().derive("model", 0);
    let values = match &spec.file.analysis {
        Some(_) => InitialValues::zeros(spec.model.total()),
        None => network.initial_values(seed).expect("the network was checked with the job"),
    };
    let mut values = Offload::new(values);
    let mut file = FirstFile::begin(bench, clock, spec, 0);
    loop {
        let bytes = values.run(|values| {
            let drawn = values.draw(DRAWN_VALUES);
            drawn.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()
        });
        let bytes = bytes.await;
        if bytes.is_empty() {
            return file.finish(bench, clock, spec).await;
        }
        file.push(&bytes).await?;
    }
}

/// The file of version 0 on its way into the store, in our own form: parameters in order, no foreign metadata. Equal
/// models have equal hashes, whichever program wrote the upload.
struct FirstFile {
    version: u32,
    spool: Spool,
    hasher: Sha256Hasher,
    /// The file's header, until it is written.
    beginning: Vec<u8>,
}

impl FirstFile {
    fn begin(bench: &Workbench, clock: &Clock, spec: &JobSpec, version: u32) -> Self {
        let beginning = model_file_beginning(&spec.model, &model_metadata());
        let spool = spool(bench, clock, model_key(spec.id, version));
        Self { version, spool, hasher: Sha256Hasher::new(), beginning }
    }

    /// Takes the next bytes of the values.
    async fn push(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        for piece in [&std::mem::take(&mut self.beginning), bytes] {
            self.hasher.update(piece);
            self.spool.push(piece).await?;
        }
        Ok(())
    }

    async fn finish(mut self, bench: &Workbench, clock: &Clock, spec: &JobSpec) -> Result<NewVersion, VersionError> {
        let row = ModelVersion {
            version: self.version,
            // The evaluations of fixed models have their numbers.
            round: spec.file.only_evaluates().then(|| self.version + 1),
            sha256: self.hasher.finish(),
            bytes: self.spool.bytes(),
            created_at_ms: clock.now_ms(),
            deleted_at_ms: None,
            accuracy: None,
            measured_on: None,
            loss: None,
            best: false,
            pinned_at_ms: None,
        };
        let form = make_form(bench, clock, spec, self.version, &mut self.spool).await?;
        let mut bodies = vec![(Role::Model, self.spool.finish(row.created_at_ms).await?)];
        bodies.extend(form);
        Ok(NewVersion { row, bodies, clip_share: None })
    }
}

/// Copies a stored model with the parameters of the job, as this version.
pub(crate) async fn copied(
    services: &Services,
    bench: &Workbench,
    spec: &JobSpec,
    version: u32,
    (name, sha256): (String, Sha256Hash),
) -> Result<NewVersion, VersionError> {
    let mut file = FirstFile::begin(bench, &services.clock, spec, version);
    // The stored file begins in the same way.
    file.beginning.clear();
    let mut reader = services.blobs.chunks(&services.db, name, sha256).await?;
    while let Some(data) = reader.next().await? {
        file.push(&data).await?;
    }
    file.finish(bench, &services.clock, spec).await
}

/// Copies a model with the parameters of the job that is being written, as version 0.
pub(crate) async fn replayed(
    bench: &Workbench,
    clock: &Clock,
    spec: &JobSpec,
    written: &mut Spool,
) -> Result<NewVersion, VersionError> {
    let mut file = FirstFile::begin(bench, clock, spec, 0);
    file.beginning.clear();
    let mut reader = written.replay().await?;
    while let Some(data) = reader.next().await? {
        file.push(&data).await?;
    }
    file.finish(bench, clock, spec).await
}

/// An uploaded model: checked while it arrives, and stored as it is until it is complete.
pub(crate) struct UploadedModel {
    bench: Workbench,
    clock: Clock,
    version: u32,
    decoder: ModelDecoder,
    spool: Spool,
}

impl UploadedModel {
    pub(crate) fn begin(bench: &Workbench, clock: &Clock, spec: &JobSpec, version: u32) -> Self {
        let decoder = ModelDecoder::new(spec.model.clone());
        let spool = spool(bench, clock, model_key(spec.id, version));
        Self { bench: bench.clone(), clock: clock.clone(), version, decoder, spool }
    }

    /// Bytes that were received.
    pub(crate) fn bytes(&self) -> u64 {
        self.spool.bytes()
    }

    /// Takes the next bytes of the file.
    pub(crate) async fn push(&mut self, data: &[u8]) -> Result<(), UploadError> {
        self.decoder.push(data, &mut |_, _| ())?;
        Ok(self.spool.push(data).await?)
    }

    /// Makes the version; refuses a file that ends too early. The upload itself stays on the workbench, which deletes
    /// it.
    pub(crate) async fn finish(mut self, spec: &JobSpec) -> Result<NewVersion, UploadError> {
        let order = self.decoder.finish()?;
        Ok(in_order(&self.bench, &self.clock, spec, self.version, (&mut self.spool, &order)).await?)
    }
}

/// Why an uploaded model is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    #[error(transparent)]
    Model(#[from] ModelFileError),
    #[error(transparent)]
    Version(#[from] VersionError),
}

impl From<BlobError> for UploadError {
    fn from(error: BlobError) -> Self {
        Self::Version(error.into())
    }
}

/// Copies the uploaded file with its parameters in the job's order. `order` says which parameter each of its tensors
/// is. Parameters that are adjacent in the file are read as one range, so the file is read once, whatever its order.
async fn in_order(
    bench: &Workbench,
    clock: &Clock,
    spec: &JobSpec,
    version: u32,
    (uploaded, order): (&mut Spool, &[usize]),
) -> Result<NewVersion, VersionError> {
    let bytes_of = |parameter: usize| spec.model.range(parameter).len() as u64 * VALUE_BYTES;
    // Values are the end of a file, without gaps.
    let mut next = uploaded.bytes() - spec.model.total() as u64 * VALUE_BYTES;
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
    let mut file = FirstFile::begin(bench, clock, spec, version);
    for run in runs {
        let mut reader = uploaded.read(run).await?;
        while let Some(data) = reader.next().await? {
            file.push(&data).await?;
        }
    }
    file.finish(bench, clock, spec).await
}
