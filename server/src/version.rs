//! A new model version on its way: its file and the one that its clients fetch, both stored by one transaction.

use tributary_protocol::body::{Shrinker, is_packed};
use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::Sha256Hasher;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::ModelVersion;
use tributary_protocol::update::{FormError, FormSurvey};

use crate::app::App;
use crate::blob::{BlobError, Owner, Spool, Staged, model_file_key};
use crate::commit::blocking;
use crate::db::{MadeFor, ModelFileRow, Tx};
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
    /// The version whose plain file this is, with the file that its clients fetch.
    pub(crate) async fn of(app: &App, spec: &JobSpec, model: ModelVersion, file: Spool) -> Result<Self, VersionError> {
        match make_form(app, spec, model.version, &file).await {
            Ok(made) => Ok(Self::with(app, model, file, made).await?),
            Err(error) => {
                file.discard().await;
                Err(error)
            }
        }
    }

    /// The version whose plain file this is, and the file that was made of it.
    pub(crate) async fn with(
        app: &App,
        model: ModelVersion,
        mut file: Spool,
        made: Option<(ModelFileRow, Staged)>,
    ) -> Result<Self, BlobError> {
        match file.finish(model.created_at_ms).await {
            Ok(body) => Ok(Self { model, body, made }),
            Err(error) => {
                file.discard().await;
                if let Some((_, made)) = made {
                    app.blobs.discard_unsettled(&app.db, made).await;
                }
                Err(error)
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

/// The file of a version in the form that its job's clients fetch; none where that is the plain file.
async fn make_form(
    app: &App,
    spec: &JobSpec,
    version: u32,
    plain: &Spool,
) -> Result<Option<(ModelFileRow, Staged)>, VersionError> {
    let form = spec.plan.download.codec;
    if form == ModelForm::F32 {
        return Ok(None);
    }
    let mut made = MadeFile::begin(app, spec.id, version, MadeFor::Form(form));
    match write_form(spec, form, plain, &mut made).await {
        Ok(()) => Ok(Some(made.finish(app.clock.now_ms()).await?)),
        Err(error) => {
            made.discard().await;
            Err(error)
        }
    }
}

async fn write_form(spec: &JobSpec, form: ModelForm, plain: &Spool, made: &mut MadeFile) -> Result<(), VersionError> {
    let mut survey = FormSurvey::new(spec.parameters.clone(), form);
    if survey.wants_file() {
        let mut reader = plain.replay().await?;
        while let Some(data) = reader.next().await? {
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
    let mut reader = plain.replay().await?;
    while let Some(data) = reader.next().await? {
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
