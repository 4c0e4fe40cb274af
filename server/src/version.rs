//! A new model version on its way: its file and the one that its clients fetch, both stored by one transaction.

use bytes::Bytes;
use tributary_protocol::body::{Shrinker, is_packed};
use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::JobId;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::update::{FormError, FormSurvey};

use crate::app::App;
use crate::blob::{BlobError, Owner, Replay, Spool, Staged, model_file_key, model_key};
use crate::commit::blocking;
use crate::db::{MadeFor, ModelFileRow, Tx};
use crate::entropy;
use crate::spec::JobSpec;

/// How long a new model may take until the transaction that stores it: an hour in milliseconds.
const UNFINISHED_MODEL_KEPT_MS: i64 = 60 * 60 * 1_000;

/// Why a version has no file for its clients.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VersionError {
    /// Database or store do not answer.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The model cannot be read.
    #[error(transparent)]
    Form(#[from] FormError),
}

/// A model version whose bodies are staged.
#[derive(Debug)]
pub(crate) struct NewVersion {
    pub(crate) model: ModelVersion,
    pub(crate) body: Staged,
    /// What clients fetch instead, or beside it.
    pub(crate) made: Option<(ModelFileRow, Staged)>,
}

impl NewVersion {
    /// Version 0 of a job, whose file is in memory.
    pub(crate) async fn initial(app: &App, spec: &JobSpec, file: Vec<u8>) -> Result<Self, VersionError> {
        let (now_ms, file) = (app.clock.now_ms(), Bytes::from(file));
        let model = ModelVersion {
            version: 0,
            round: None,
            sha256: Sha256Hash::of(&file),
            bytes: file.len() as u64,
            created_at_ms: now_ms,
            deleted_at_ms: None,
        };
        let made = make_form(app, spec, 0, Source::Memory(&file)).await?;
        let body = app.blobs.stage(model_key(spec.id, 0), file, entropy::random(), now_ms).await;
        match (body, made) {
            (Ok(body), made) => Ok(Self { model, body, made }),
            (Err(error), made) => {
                if let Some((_, made)) = made {
                    app.blobs.discard_unsettled(&app.db, made).await;
                }
                Err(error.into())
            }
        }
    }

    /// Makes it the job's newest version, from the transaction's commit on.
    ///
    /// # Errors
    /// [`BlobError`]; [`crate::db::DbError::Duplicate`] when the job has this version.
    pub(crate) async fn store(&mut self, tx: &mut Tx, job: JobId, now_ms: i64) -> Result<(), BlobError> {
        tx.insert_model(job, &self.model).await?;
        self.body.settle(tx, now_ms).await?;
        if let Some((file, body)) = &mut self.made {
            tx.insert_model_file(job, file).await?;
            body.settle(tx, now_ms).await?;
        }
        Ok(())
    }

    /// Deletes what no transaction has taken.
    pub(crate) async fn discard_unsettled(self, app: &App) {
        app.blobs.discard_unsettled(&app.db, self.body).await;
        if let Some((_, body)) = self.made {
            app.blobs.discard_unsettled(&app.db, body).await;
        }
    }
}

/// A place for a body of a version that is not stored yet.
pub(crate) fn spool(app: &App, name: String) -> Spool {
    let expires_at_ms = app.clock.now_ms().saturating_add(UNFINISHED_MODEL_KEPT_MS);
    Spool::new(app.blobs.clone(), app.db.clone(), Owner { name, assignment: None, sha256: None, expires_at_ms })
}

/// Where a version's plain file is read from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    Memory(&'a Bytes),
    Spool(&'a Spool),
}

impl<'a> Source<'a> {
    async fn replay(self) -> Result<Replay<'a>, BlobError> {
        match self {
            Self::Memory(file) => Ok(Replay::of(file.clone())),
            Self::Spool(spool) => spool.replay().await,
        }
    }
}

/// The file of a version in the form that its job's clients fetch; none where that is the plain file.
pub(crate) async fn make_form(
    app: &App,
    spec: &JobSpec,
    version: u32,
    source: Source<'_>,
) -> Result<Option<(ModelFileRow, Staged)>, VersionError> {
    let form = spec.plan.download.codec;
    if form == ModelForm::F32 {
        return Ok(None);
    }
    let mut made = MadeFile::begin(app, spec.id, version, MadeFor::Form(form));
    match write_form(spec, form, source, &mut made).await {
        Ok(()) => Ok(Some(made.finish(app.clock.now_ms()).await?)),
        Err(error) => {
            made.discard().await;
            Err(error)
        }
    }
}

async fn write_form(
    spec: &JobSpec,
    form: ModelForm,
    source: Source<'_>,
    made: &mut MadeFile,
) -> Result<(), VersionError> {
    let mut survey = FormSurvey::new(spec.parameters.clone(), form);
    if survey.wants_file() {
        let mut plain = source.replay().await?;
        while let Some(data) = plain.next().await? {
            let (back, pushed) = blocking(move || {
                let pushed = survey.push(&data);
                (survey, pushed)
            })
            .await;
            survey = back;
            pushed?;
        }
    }
    let mut writer = survey.finish()?;
    let mut plain = source.replay().await?;
    while let Some(data) = plain.next().await? {
        let (back, pushed) = blocking(move || {
            let pushed = writer.push(&data);
            (writer, pushed)
        })
        .await;
        writer = back;
        made.push(pushed?).await?;
    }
    Ok(writer.finish()?)
}

/// A file that is made of a version: shrunk, hashed and written part by part.
#[derive(Debug)]
pub(crate) struct MadeFile {
    version: u32,
    form: MadeFor,
    shrinker: Shrinker,
    hasher: Sha256Hasher,
    /// Whether the body is a zstd frame; unknown while it is empty.
    packed: Option<bool>,
    spool: Spool,
}

impl MadeFile {
    pub(crate) fn begin(app: &App, job: JobId, version: u32, form: MadeFor) -> Self {
        let spool = spool(app, model_file_key(job, version, form));
        let (shrinker, hasher) = (Shrinker::default(), Sha256Hasher::new());
        Self { version, form, shrinker, hasher, packed: None, spool }
    }

    /// Takes the next bytes of the file.
    pub(crate) async fn push(&mut self, file: Vec<u8>) -> Result<(), BlobError> {
        let mut shrinker = std::mem::take(&mut self.shrinker);
        let (shrinker, body) = blocking(move || {
            let mut body = Vec::new();
            shrinker.push(&file, &mut body);
            (shrinker, body)
        })
        .await;
        self.shrinker = shrinker;
        self.keep(&body).await
    }

    async fn keep(&mut self, body: &[u8]) -> Result<(), BlobError> {
        if !body.is_empty() {
            // The first bytes come together: a part's worth of them is tried first.
            self.packed.get_or_insert_with(|| is_packed(body));
        }
        self.hasher.update(body);
        self.spool.push(body).await
    }

    /// The file is whole. What cannot be stored is given up.
    pub(crate) async fn finish(mut self, now_ms: i64) -> Result<(ModelFileRow, Staged), BlobError> {
        let mut body = Vec::new();
        std::mem::take(&mut self.shrinker).finish(&mut body);
        let staged = match self.keep(&body).await {
            Ok(()) => self.spool.finish(now_ms).await,
            Err(error) => Err(error),
        };
        match staged {
            Ok(staged) => {
                let row = ModelFileRow {
                    version: self.version,
                    form: self.form,
                    sha256: self.hasher.finish(),
                    bytes: self.spool.bytes(),
                    packed: self.packed.unwrap_or_default(),
                };
                Ok((row, staged))
            }
            Err(error) => {
                self.spool.discard().await;
                Err(error)
            }
        }
    }

    /// Gives it up.
    pub(crate) async fn discard(self) {
        self.spool.discard().await;
    }
}
