//! The files of a release: its model, and the 8-bit differences from a release before it.
//!
//! Without differences the model's file is a copy of the version's. With them, it is the file of the other release plus
//! the rounded differences, so that everybody has the same bits, whichever file they downloaded. Two passes read both
//! files chunk by chunk, because the scales of the differences precede their numbers.

use std::sync::Arc;

use bytes::Bytes;
use tributary_engine::job::JobSpec;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::ReleaseId;
use tributary_protocol::model::ParameterList;
use tributary_protocol::safetensors::{ModelDecoder, ModelFileError, model_file_beginning, model_metadata};
use tributary_protocol::update::{ModelDeltaSurvey, ModelDeltaWriter, model_delta_header};

use crate::blob::{BlobError, Reader, Spool, Staged, Workbench};
use crate::db::{DbError, NewDifference, difference_key, release_key};
use crate::models::file::{Packed, PackedFile};
use crate::models::first::replayed;
use crate::models::version::{NewVersion, VersionError, spool};
use crate::runtime::offload::Offload;
use crate::services::Services;

/// A stored model's file: the name of its body, and its hash.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub(crate) name: String,
    pub(crate) sha256: Sha256Hash,
}

/// Another release with the same parameters.
#[derive(Clone, Debug)]
pub(crate) struct BaseRelease {
    pub(crate) number: u32,
    pub(crate) file: StoredFile,
}

/// A release whose files are staged.
#[derive(Debug)]
pub(crate) struct MadeFiles {
    pub(crate) sha256: Sha256Hash,
    pub(crate) bytes: u64,
    pub(crate) difference: Option<NewDifference>,
    /// What the transaction settles that stores the release.
    pub(crate) bodies: Vec<Staged>,
    /// The same model, for the job that evaluates it for its gate.
    pub(crate) gated: Option<NewVersion>,
}

/// What a release is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) id: ReleaseId,
    pub(crate) number: u32,
    /// The job of its gate.
    pub(crate) gate: Option<&'a JobSpec>,
}

/// Why the files of a release cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error("a stored model cannot be read: {0}")]
    Model(#[from] ModelFileError),
    #[error(transparent)]
    Version(#[from] VersionError),
}

impl From<DbError> for MakeError {
    fn from(error: DbError) -> Self {
        Self::Blob(error.into())
    }
}

/// Makes the files of a release from a version's file, and from another release if there is one to differ from.
pub(crate) async fn make(
    services: &Services,
    bench: &Workbench,
    target: Target<'_>,
    (version, parameters): (&StoredFile, &Arc<ParameterList>),
    base: Option<&BaseRelease>,
) -> Result<MadeFiles, MakeError> {
    if let Some(base) = base
        && let Some(survey) = surveyed(services, version, base, parameters).await?
    {
        return differing(services, bench, target, (version, base), (survey, parameters)).await;
    }
    let mut copy = spool(bench, &services.clock, release_key(target.id));
    let mut reader = services.blobs.chunks(&services.db, version.name.clone(), version.sha256).await?;
    while let Some(data) = reader.next().await? {
        copy.push(&data).await?;
    }
    let gated = gated(services, bench, target.gate, &mut copy).await?;
    let body = copy.finish(services.clock.now_ms()).await?;
    Ok(MadeFiles { sha256: version.sha256, bytes: copy.bytes(), difference: None, bodies: vec![body], gated })
}

/// The first pass. None if a difference is beyond the range of 32-bit numbers.
async fn surveyed(
    services: &Services,
    version: &StoredFile,
    base: &BaseRelease,
    parameters: &Arc<ParameterList>,
) -> Result<Option<ModelDeltaSurvey>, MakeError> {
    let survey = ModelDeltaSurvey::new(Arc::clone(parameters));
    let mut pairs = Offload::new((Pairs::new(parameters), survey, true));
    let mut files = Files::open(services, &base.file, version).await?;
    while let Some((base, next)) = files.next().await? {
        let look = move |(pairs, survey, is_finite): &mut (Pairs, ModelDeltaSurvey, bool)| {
            let (_, difference) = pairs.push(&base, &next)?;
            *is_finite &= difference.iter().all(|value| value.is_finite());
            if *is_finite {
                survey.look(&difference);
            }
            Ok::<_, MakeError>(())
        };
        pairs.run(look).await?;
    }
    let (pairs, survey, is_finite) = pairs.into_inner();
    pairs.finish()?;
    Ok(is_finite.then_some(survey))
}

/// The second pass: writes both files.
async fn differing(
    services: &Services,
    bench: &Workbench,
    Target { id, number, gate }: Target<'_>,
    (version, base): (&StoredFile, &BaseRelease),
    (survey, parameters): (ModelDeltaSurvey, &Arc<ParameterList>),
) -> Result<MadeFiles, MakeError> {
    let clock = &services.clock;
    let (writer, beginning) = survey.finish(&model_delta_header(&id.to_string(), number));
    let mut differences = PackedFile::begin(bench, clock, difference_key(id));
    differences.push(beginning).await?;
    let mut model = spool(bench, clock, release_key(id));
    let mut writing = Offload::new(Writing {
        pairs: Pairs::new(parameters),
        writer,
        hasher: Sha256Hasher::new(),
        beginning: model_file_beginning(parameters, &model_metadata()),
    });
    let mut files = Files::open(services, &base.file, version).await?;
    while let Some((base, next)) = files.next().await? {
        let (bytes, difference) = writing.run(move |writing| writing.push(&base, &next)).await?;
        model.push(&bytes).await?;
        differences.push(difference).await?;
    }
    let Writing { pairs, hasher, .. } = writing.into_inner();
    pairs.finish()?;
    let Packed { sha256, bytes, packed, body } = differences.finish(clock.now_ms()).await?;
    let difference = NewDifference { base: base.number, base_sha256: base.file.sha256, sha256, bytes, packed };
    let gated = gated(services, bench, gate, &mut model).await?;
    let model_body = model.finish(clock.now_ms()).await?;
    Ok(MadeFiles {
        sha256: hasher.finish(),
        bytes: model.bytes(),
        difference: Some(difference),
        bodies: vec![model_body, body],
        gated,
    })
}

/// What the job of a gate evaluates: what clients would get.
async fn gated(
    services: &Services,
    bench: &Workbench,
    gate: Option<&JobSpec>,
    model: &mut Spool,
) -> Result<Option<NewVersion>, MakeError> {
    match gate {
        Some(gate) => Ok(Some(replayed(bench, &services.clock, gate, model).await?)),
        None => Ok(None),
    }
}

/// Two stored files that are read side by side.
struct Files<'a> {
    base: Reader<'a>,
    next: Reader<'a>,
}

impl<'a> Files<'a> {
    async fn open(services: &'a Services, base: &StoredFile, next: &StoredFile) -> Result<Self, BlobError> {
        let Services { blobs, db, .. } = services;
        // Chunk by chunk: a snapshot of each would hold two connections.
        Ok(Self {
            base: blobs.chunks(db, base.name.clone(), base.sha256).await?,
            next: blobs.chunks(db, next.name.clone(), next.sha256).await?,
        })
    }

    /// The next bytes of both; none at the end of both.
    async fn next(&mut self) -> Result<Option<(Bytes, Bytes)>, BlobError> {
        let (base, next) = (self.base.next().await?, self.next.next().await?);
        Ok((base.is_some() || next.is_some()).then(|| (base.unwrap_or_default(), next.unwrap_or_default())))
    }
}

/// The values of two files with the same parameters, side by side.
struct Pairs {
    base: ModelDecoder,
    next: ModelDecoder,
    /// Values that were read of one file and not yet of the other.
    base_values: Vec<f32>,
    next_values: Vec<f32>,
}

impl Pairs {
    fn new(parameters: &Arc<ParameterList>) -> Self {
        let decoder = || ModelDecoder::new(Arc::clone(parameters));
        Self { base: decoder(), next: decoder(), base_values: Vec::new(), next_values: Vec::new() }
    }

    /// Takes the next bytes of both files. Returns the next values of the first, and the differences to the second.
    fn push(&mut self, base: &[u8], next: &[u8]) -> Result<(Vec<f32>, Vec<f32>), ModelFileError> {
        // Stored files have their parameters in order.
        self.base.push(base, &mut |_, values| self.base_values.extend_from_slice(values))?;
        self.next.push(next, &mut |_, values| self.next_values.extend_from_slice(values))?;
        let length = self.base_values.len().min(self.next_values.len());
        let base: Vec<f32> = self.base_values.drain(..length).collect();
        let difference = self.next_values.drain(..length).zip(&base).map(|(next, base)| next - base).collect();
        Ok((base, difference))
    }

    fn finish(self) -> Result<(), ModelFileError> {
        self.base.finish()?;
        self.next.finish().map(drop)
    }
}

struct Writing {
    pairs: Pairs,
    writer: ModelDeltaWriter,
    hasher: Sha256Hasher,
    /// The model file's header, until it is written.
    beginning: Vec<u8>,
}

impl Writing {
    /// The next bytes of the model's file, and of the differences.
    fn push(&mut self, base: &[u8], next: &[u8]) -> Result<(Vec<u8>, Vec<u8>), MakeError> {
        let (base, mut difference) = self.pairs.push(base, next)?;
        let mut file = Vec::new();
        self.writer.write(&mut difference, &mut file);
        let mut model = std::mem::take(&mut self.beginning);
        model.extend(base.iter().zip(&difference).flat_map(|(base, rounded)| (base + rounded).to_le_bytes()));
        self.hasher.update(&model);
        Ok((model, file))
    }
}
