//! A file that is derived from a model version: the model in a smaller form, or the delta from the version before.
//!
//! A form is made once, from the staged model, and stored by the transaction that stores the version. A model delta is
//! rounded to 8-bit values before the model moves by it, so a chain of deltas gives the bits of the model. Scales
//! precede values in a file, so both encoders make two passes. They hold one chunk and one scale per 64 values.

use tributary_engine::job::JobSpec;
use tributary_protocol::body::{Shrinker, is_packed};
use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::JobId;
use tributary_protocol::update::FormSurvey;

use super::version::{Role, VersionError, spool};
use crate::blob::{BlobError, Spool, Staged, Workbench, model_file_key};
use crate::db::{MadeFor, ModelFileRow};
use crate::runtime::clock::Clock;
use crate::runtime::offload::Offload;

/// A file of a version on its way into the store.
#[derive(Debug)]
pub(crate) struct MadeFile {
    version: u32,
    form: MadeFor,
    file: PackedFile,
}

impl MadeFile {
    pub(crate) fn begin(bench: &Workbench, clock: &Clock, job: JobId, version: u32, form: MadeFor) -> Self {
        Self { version, form, file: PackedFile::begin(bench, clock, model_file_key(job, version, form)) }
    }

    pub(crate) async fn push(&mut self, file: Vec<u8>) -> Result<(), BlobError> {
        self.file.push(file).await
    }

    pub(crate) async fn finish(self, now_ms: i64) -> Result<(Role, Staged), BlobError> {
        let Packed { sha256, bytes, packed, body } = self.file.finish(now_ms).await?;
        let row = ModelFileRow { version: self.version, form: self.form, sha256, bytes, packed };
        Ok((Role::Made(row), body))
    }
}

/// A file that is compressed, hashed and written chunk by chunk.
#[derive(Debug)]
pub(crate) struct PackedFile {
    shrinker: Offload<Shrinker>,
    hasher: Sha256Hasher,
    /// Whether the body is a zstd frame; unknown while it is empty.
    packed: Option<bool>,
    spool: Spool,
}

/// Such a file, which a transaction stores.
#[derive(Debug)]
pub(crate) struct Packed {
    /// Of the body.
    pub(crate) sha256: Sha256Hash,
    pub(crate) bytes: u64,
    /// Whether the body is the file as one zstd frame.
    pub(crate) packed: bool,
    pub(crate) body: Staged,
}

impl PackedFile {
    pub(crate) fn begin(bench: &Workbench, clock: &Clock, name: String) -> Self {
        let (shrinker, hasher) = (Offload::new(Shrinker::default()), Sha256Hasher::new());
        Self { shrinker, hasher, packed: None, spool: spool(bench, clock, name) }
    }

    pub(crate) async fn push(&mut self, file: Vec<u8>) -> Result<(), BlobError> {
        let shrink = move |shrinker: &mut Shrinker| {
            let mut body = Vec::new();
            shrinker.push(&file, &mut body);
            body
        };
        let body = self.shrinker.run(shrink).await;
        self.write(&body).await
    }

    async fn write(&mut self, body: &[u8]) -> Result<(), BlobError> {
        if !body.is_empty() {
            // The shrinker emits its first bytes once it has decided whether the file shrinks.
            self.packed.get_or_insert_with(|| is_packed(body));
        }
        self.hasher.update(body);
        self.spool.push(body).await
    }

    pub(crate) async fn finish(mut self, now_ms: i64) -> Result<Packed, BlobError> {
        let shrinker = std::mem::replace(&mut self.shrinker, Offload::new(Shrinker::default()));
        let mut body = Vec::new();
        shrinker.into_inner().finish(&mut body);
        self.write(&body).await?;
        let body = self.spool.finish(now_ms).await?;
        let (sha256, bytes) = (self.hasher.finish(), self.spool.bytes());
        Ok(Packed { sha256, bytes, packed: self.packed.unwrap_or_default(), body })
    }
}

/// The file of a version in the form that its job's clients download; none where that is the plain file.
pub(crate) async fn make_form(
    bench: &Workbench,
    clock: &Clock,
    spec: &JobSpec,
    version: u32,
    plain: &mut Spool,
) -> Result<Option<(Role, Staged)>, VersionError> {
    let form = spec.plan.download.codec;
    if form == ModelForm::F32 {
        return Ok(None);
    }
    let mut made = MadeFile::begin(bench, clock, spec.id, version, MadeFor::Form(form));
    let mut survey = Offload::new(FormSurvey::new(spec.model.clone(), form));
    // Scales precede the values that they belong to, so these forms take two passes.
    if survey.run(|survey| survey.wants_file()).await {
        let mut reader = plain.replay().await?;
        while let Some(data) = reader.next().await? {
            survey.run(move |survey| survey.push(&data)).await?;
        }
    }
    let mut writer = Offload::new(survey.into_inner().finish()?);
    let mut reader = plain.replay().await?;
    while let Some(data) = reader.next().await? {
        made.push(writer.run(move |writer| writer.push(&data)).await?).await?;
    }
    writer.into_inner().finish()?;
    Ok(Some(made.finish(clock.now_ms()).await?))
}
