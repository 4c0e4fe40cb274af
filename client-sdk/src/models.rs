//! The model of an assignment: the cached one, the cached one and the deltas since, or a download of the whole.
//!
//! In each case its hash is the assignment's, so all clients of a round begin with the same bits.

use std::sync::Arc;

use tributary_protocol::body::packed_bytes_max;
use tributary_protocol::card::ModelCard;
use tributary_protocol::device::Assignment;
use tributary_protocol::download::{CompanionFile, DELTA_CHAIN_MAX, ModelDeltaFile, ModelForm};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Secret;
use tributary_protocol::model::Model;
use tributary_protocol::safetensors::{model_metadata, model_to_bytes};
use tributary_protocol::sharing::{Part, Parts};
use tributary_protocol::update::{
    add_model_delta, bytes_max, form_bytes, model_delta_bytes_max, model_delta_header, model_in_form,
};

use crate::cadence::continued;
use crate::error::ClientError;
use crate::store::cards::CachedCard;
use crate::store::slots::Slot;
use crate::store::state::State;
use crate::transport::coordinator::Coordinator;
use crate::transport::download::WantedFile;
use crate::transport::ranges::Ranges;

/// What an assignment starts from.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) model: Model,
    /// Which parameters are shared, frozen and personal.
    pub(crate) parts: Parts,
    /// The control variate of the model's version, where the plan's algorithm has one: a value for each shared
    /// parameter. `None` for zeros.
    pub(crate) control: Option<Vec<f32>>,
    /// Updates since the model was fetched, where it is the client's own; 0 for the newest model.
    pub(crate) updates: u32,
}

/// Gets what an assignment starts from: the model, which is cached, and the control variate, which every version
/// replaces. A client that goes on from its own weights gets nothing.
pub(crate) async fn fetch_base(
    state: &State,
    coordinator: &Coordinator,
    secret: &Secret,
    assignment: &Assignment,
) -> Result<Base, ClientError> {
    let parts = assignment.plan.model.parts();
    let parts = parts.map_err(|error| ClientError::BadAnswer(format!("the plan's model: {error}")))?;
    if let Some((model, updates)) = continued(assignment, parts.model(), || state.kept(assignment)) {
        return Ok(Base { model, parts, control: None, updates });
    }
    let model = fetch_model(state, coordinator, secret, assignment, &parts).await?;
    let Some(body) = control_file(state, coordinator, secret, assignment).await? else {
        return Ok(Base { model, parts, control: None, updates: 0 });
    };
    let control = model_in_form(&body, parts.shared(), ModelForm::F32)
        .map_err(|error| ClientError::BadAnswer(format!("the control variate does not fit its plan: {error}")))?;
    Ok(Base { model, parts, control: Some(control.into_values()), updates: 0 })
}

/// The file of the control variate beside the model that an assignment starts from; none where it is zero, or the
/// plan's algorithm has none.
pub(crate) async fn control_file(
    state: &State,
    coordinator: &Coordinator,
    secret: &Secret,
    assignment: &Assignment,
) -> Result<Option<Vec<u8>>, ClientError> {
    let Some(CompanionFile { sha256, bytes }) = assignment.control else { return Ok(None) };
    let parts = assignment.plan.model.parts();
    let parts = parts.map_err(|error| ClientError::BadAnswer(format!("the plan's model: {error}")))?;
    let most = bytes_max(parts.shared(), ModelForm::F32.codec());
    if bytes > most {
        return Err(ClientError::BadAnswer(format!("a control variate of {bytes} bytes, where {most} are the most")));
    }
    let path = format!("{}/control", model_path(assignment, assignment.model_version));
    let file = WantedFile { path, sha256, bytes_max: bytes, again_if_damaged: true };
    coordinator.download(secret, &file, state.partial(sha256)).await.map(Some)
}

/// Gets the model that an assignment starts from, and caches it.
async fn fetch_model(
    state: &State,
    coordinator: &Coordinator,
    secret: &Secret,
    assignment: &Assignment,
    parts: &Parts,
) -> Result<Model, ClientError> {
    let (form, sha256) = wanted_form(assignment)?;
    let slot = Slot::of(assignment.data.as_ref());
    let cached = state.cached_model(&slot)?;
    let wanted = Wanted { state, coordinator, secret, assignment, parts, form, sha256, slot };
    let body = match cached {
        Some((cached, body)) if cached == sha256 => {
            // The inputs of a plan may have been fixed since.
            wanted.describe(sha256, assignment.model_version, assignment.model_sha256);
            body
        }
        Some((cached, body)) => match wanted.catch_up(cached, body).await? {
            Some(body) => body,
            None => wanted.download_whole().await?,
        },
        None => wanted.download_whole().await?,
    };
    model_in_form(&body, parts.model(), form)
        .map_err(|error| ClientError::BadAnswer(format!("the model does not fit its plan: {error}")))
}

/// The file of the model that an assignment starts from, as plain f32 whatever the plan's form is. It is not cached.
pub(crate) async fn plain_model(
    state: &State,
    coordinator: &Coordinator,
    secret: &Secret,
    assignment: &Assignment,
) -> Result<Vec<u8>, ClientError> {
    let parameters = assignment.plan.model.parameters();
    let parameters = parameters.map_err(|error| ClientError::BadAnswer(format!("the plan's model: {error}")))?;
    let sha256 = assignment.model_sha256;
    let file = WantedFile {
        path: model_path(assignment, assignment.model_version),
        sha256,
        bytes_max: bytes_max(&parameters, ModelForm::F32.codec()),
        again_if_damaged: true,
    };
    coordinator.download(secret, &file, state.partial(sha256)).await
}

/// The path of a version of the assignment's model.
fn model_path(assignment: &Assignment, version: u32) -> String {
    format!("/device/v1/jobs/{}/models/{version}", assignment.job)
}

/// In which form the model is sent, and the hash of that file.
fn wanted_form(assignment: &Assignment) -> Result<(ModelForm, Sha256Hash), ClientError> {
    let (form, sha256) = match assignment.form {
        Some(file) => (file.form, file.sha256),
        None => (ModelForm::F32, assignment.model_sha256),
    };
    // A client that starts from other bits than the rest of its cohort distorts their mean.
    let planned = assignment.plan.download.codec;
    if form != planned {
        let (form, planned) = (form.as_str(), planned.as_str());
        return Err(ClientError::BadAnswer(format!("a model as {form}, where the plan says {planned}")));
    }
    Ok((form, sha256))
}

/// The model to get, and what it takes to get it.
struct Wanted<'a> {
    state: &'a State,
    coordinator: &'a Coordinator,
    secret: &'a Secret,
    assignment: &'a Assignment,
    parts: &'a Parts,
    form: ModelForm,
    /// Of the file in that form.
    sha256: Sha256Hash,
    /// Where it is cached.
    slot: Slot,
}

impl Wanted<'_> {
    async fn download_whole(&self) -> Result<Vec<u8>, ClientError> {
        let query = match self.form {
            ModelForm::F32 => String::new(),
            form => format!("?form={}", form.as_str()),
        };
        let file = WantedFile {
            path: format!("{}{query}", self.path(self.assignment.model_version)),
            sha256: self.sha256,
            bytes_max: packed_bytes_max(bytes_max(self.parts.model(), self.form.codec())),
            again_if_damaged: true,
        };
        let body = match self.download_ranges(&file).await {
            Some(body) => body,
            None => self.download(&file).await?,
        };
        self.describe(self.sha256, self.assignment.model_version, self.assignment.model_sha256);
        self.cache(&body);
        Ok(body)
    }

    /// Adds the deltas since the cached model, if the assignment lists them and they are shorter than the model. `None`
    /// if they do not lead to the wanted model, which is then downloaded as a whole.
    ///
    /// Beside the model in the making there is one more vector of its length at any time: files are dropped once they
    /// are read.
    async fn catch_up(&self, cached: Sha256Hash, body: Vec<u8>) -> Result<Option<Vec<u8>>, ClientError> {
        let deltas = &self.assignment.model_deltas;
        let Some(place) = deltas.iter().position(|delta| delta.base_sha256 == cached) else { return Ok(None) };
        let deltas = &deltas[place..];
        let bytes = deltas.iter().fold(0, |bytes: u64, delta| bytes.saturating_add(delta.bytes));
        let shorter = bytes < form_bytes(self.parts.model(), ModelForm::F32);
        if self.form != ModelForm::F32 || !shorter || deltas.len() > DELTA_CHAIN_MAX as usize {
            return Ok(None);
        }
        let Ok(mut model) = model_in_form(&body, self.parts.model(), ModelForm::F32) else { return Ok(None) };
        let mut file = body;
        let leads_to = deltas.iter().skip(1).map(|next| next.base_sha256).chain([self.sha256]);
        for (delta, sha256) in deltas.iter().zip(leads_to) {
            drop(file);
            let Some(next) = self.add_delta(model, delta).await? else { return Ok(None) };
            file = model_to_bytes(&next, &model_metadata());
            if Sha256Hash::of(&file) != sha256 {
                tracing::warn!(version = delta.version, "a model delta does not lead to its version");
                return Ok(None);
            }
            // A session that breaks off after this delta continues with the next one.
            self.describe(sha256, delta.version, sha256);
            self.cache(&file);
            model = next;
        }
        Ok(Some(file))
    }

    /// The model plus one delta, which has the shared parameters only; `None` if the delta is gone or unusable.
    async fn add_delta(&self, model: Model, delta: &ModelDeltaFile) -> Result<Option<Model>, ClientError> {
        let file = WantedFile {
            path: format!("{}/delta", self.path(delta.version)),
            sha256: delta.sha256,
            bytes_max: packed_bytes_max(model_delta_bytes_max(self.parts.shared())),
            again_if_damaged: false,
        };
        let body = match self.download(&file).await {
            Ok(body) => body,
            Err(error) if error.is_temporary() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, version = delta.version, "no model delta; the whole model is downloaded");
                return Ok(None);
            }
        };
        let header = model_delta_header(&self.assignment.job.to_string(), delta.version.saturating_sub(1));
        let mut values = model.into_values();
        let add = |values: &mut [f32]| add_model_delta(values, &body, self.parts.shared(), header);
        let added = if self.parts.is_all_shared() {
            add(&mut values)
        } else {
            let mut shared = self.parts.take(Part::Shared, &values);
            add(&mut shared).inspect(|()| self.parts.put(Part::Shared, &shared, &mut values))
        };
        if let Err(error) = added {
            tracing::warn!(%error, version = delta.version, "an unusable model delta; the whole model is downloaded");
            return Ok(None);
        }
        Ok(Model::new(Arc::clone(self.parts.model()), values).ok())
    }

    /// The model from the coordinators that add up the parts of its updates. None where it is not sharded, or part of
    /// it has arrived before.
    async fn download_ranges(&self, file: &WantedFile) -> Option<Vec<u8>> {
        let count = self.assignment.plan.shards.filter(|_| self.form == ModelForm::F32)?;
        let bytes = form_bytes(self.parts.model(), self.form);
        let ranges = Ranges { count, owners: &self.assignment.owners, bytes };
        let is_new = self.state.partial(file.sha256).read().is_empty();
        if is_new { self.coordinator.download_ranges(self.secret, file, ranges).await } else { None }
    }

    async fn download(&self, file: &WantedFile) -> Result<Vec<u8>, ClientError> {
        self.coordinator.download(self.secret, file, self.state.partial(file.sha256)).await
    }

    fn path(&self, version: u32) -> String {
        model_path(self.assignment, version)
    }

    fn describe(&self, file_sha256: Sha256Hash, version: u32, sha256: Sha256Hash) {
        describe((self.state, &self.slot), self.assignment, self.form, [file_sha256, sha256], version);
    }

    /// A model that cannot be cached (the disk is full) is downloaded again in the next round.
    fn cache(&self, body: &[u8]) {
        if let Err(error) = self.state.save_model(&self.slot, body) {
            tracing::warn!(%error, "the model is not cached");
        }
    }
}

/// Says what the file is that is cached next, so that the app can predict with it. The hashes are those of the file and
/// of the model as plain f32.
pub(crate) fn describe(
    (state, slot): (&State, &Slot),
    assignment: &Assignment,
    form: ModelForm,
    [file_sha256, sha256]: [Sha256Hash; 2],
    version: u32,
) {
    let Assignment { job, job_name: Some(name), plan, .. } = assignment else { return };
    let card = ModelCard {
        job: name.clone(),
        version,
        sha256,
        plan_sha256: plan.hash(),
        loss: plan.training.loss,
        model: plan.model.clone(),
    };
    let card = CachedCard { file_sha256, form, job: *job, card };
    if let Err(error) = state.save_card(slot, &card) {
        tracing::warn!(%error, "the model cannot be used without a network");
    }
}
