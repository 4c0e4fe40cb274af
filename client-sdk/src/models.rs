//! The model of an assignment: the one on disk, the one on disk and the steps since, or fetched as a whole.
//!
//! Whichever way it comes, its hash is what the assignment says, so every client of a round begins with the same bits.

use std::sync::Arc;

use tributary_protocol::body::packed_bytes_max;
use tributary_protocol::device::Assignment;
use tributary_protocol::download::{DELTA_CHAIN_MAX, ModelDeltaFile, ModelForm};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::model::{Model, ParameterList};
use tributary_protocol::safetensors::{model_metadata, model_to_bytes};
use tributary_protocol::update::{
    add_model_delta, bytes_max, form_bytes, model_delta_bytes_max, model_delta_header, model_in_form,
};

use crate::ClientError;
use crate::client::Client;
use crate::state::Identity;
use crate::transfer::{Download, WantedFile};

/// The model that an assignment starts from.
pub(crate) async fn fetch_model(
    client: &Client,
    identity: &Identity,
    assignment: &Assignment,
) -> Result<Model, ClientError> {
    let parameters = assignment.plan.model.parameters();
    let parameters = parameters.map_err(|error| ClientError::BadAnswer(format!("the plan's model: {error}")))?;
    let wanted = Wanted::of(client, identity, assignment, Arc::new(parameters))?;
    let body = match client.state.cached_model()? {
        Some((known, body)) if known == wanted.sha256 => body,
        Some((known, body)) => match wanted.catch_up(known, &body).await? {
            Some(body) => body,
            None => wanted.fetch().await?,
        },
        None => wanted.fetch().await?,
    };
    model_in_form(&body, &wanted.parameters, wanted.form)
        .map_err(|error| ClientError::BadAnswer(format!("the model does not fit its plan: {error}")))
}

/// A model to get.
struct Wanted<'a> {
    client: &'a Client,
    identity: &'a Identity,
    assignment: &'a Assignment,
    parameters: Arc<ParameterList>,
    form: ModelForm,
    sha256: Sha256Hash,
}

impl<'a> Wanted<'a> {
    fn of(
        client: &'a Client,
        identity: &'a Identity,
        assignment: &'a Assignment,
        parameters: Arc<ParameterList>,
    ) -> Result<Self, ClientError> {
        let (form, sha256) = match assignment.form {
            Some(file) => (file.form, file.sha256),
            None => (ModelForm::F32, assignment.model_sha256),
        };
        // A client that began elsewhere than the others would spoil their mean.
        let planned = assignment.plan.download.codec;
        if form != planned {
            let (form, planned) = (form.as_str(), planned.as_str());
            return Err(ClientError::BadAnswer(format!("a model as {form}, where the plan says {planned}")));
        }
        Ok(Self { client, identity, assignment, parameters, form, sha256 })
    }

    /// Fetches all of it.
    async fn fetch(&self) -> Result<Vec<u8>, ClientError> {
        let query = match self.form {
            ModelForm::F32 => String::new(),
            form => format!("?form={}", form.as_str()),
        };
        let file = WantedFile {
            path: format!("{}{query}", self.path(self.assignment.model_version)),
            sha256: self.sha256,
            bytes_max: packed_bytes_max(bytes_max(&self.parameters, self.form.codec())),
            again_if_damaged: true,
        };
        let body = self.download(&file).await?;
        self.keep(&body);
        Ok(body)
    }

    /// Adds the steps since the model on disk, if they are known, and shorter than the whole. None where they do not
    /// lead to the model: it is to be fetched as a whole.
    async fn catch_up(&self, known: Sha256Hash, body: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
        let steps = &self.assignment.model_deltas;
        let Some(place) = steps.iter().position(|step| step.base_sha256 == known) else { return Ok(None) };
        let steps = &steps[place..];
        let bytes = steps.iter().fold(0, |bytes: u64, step| bytes.saturating_add(step.bytes));
        let shorter = bytes < form_bytes(&self.parameters, ModelForm::F32);
        if self.form != ModelForm::F32 || !shorter || steps.len() > DELTA_CHAIN_MAX as usize {
            return Ok(None);
        }
        let Ok(mut model) = model_in_form(body, &self.parameters, ModelForm::F32) else { return Ok(None) };
        let mut file = Vec::new();
        let leads_to = steps.iter().skip(1).map(|next| next.base_sha256).chain([self.sha256]);
        for (step, sha256) in steps.iter().zip(leads_to) {
            let Some(next) = self.step(model, step).await? else { return Ok(None) };
            file = model_to_bytes(&next, &model_metadata());
            if Sha256Hash::of(&file) != sha256 {
                tracing::warn!(version = step.version, "a step does not lead to its version");
                return Ok(None);
            }
            // A session that breaks off now goes on from here.
            self.keep(&file);
            model = next;
        }
        Ok(Some(file))
    }

    /// The model and one step; none when the step cannot be had or is none.
    async fn step(&self, model: Model, step: &ModelDeltaFile) -> Result<Option<Model>, ClientError> {
        let file = WantedFile {
            path: format!("{}/delta", self.path(step.version)),
            sha256: step.sha256,
            bytes_max: packed_bytes_max(model_delta_bytes_max(&self.parameters)),
            again_if_damaged: false,
        };
        let body = match self.download(&file).await {
            Ok(body) => body,
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, version = step.version, "a step cannot be had; the whole model is fetched");
                return Ok(None);
            }
        };
        let header = model_delta_header(&self.assignment.job.to_string(), step.version.saturating_sub(1));
        let mut values = model.into_values();
        if let Err(error) = add_model_delta(&mut values, &body, &self.parameters, header) {
            tracing::warn!(%error, version = step.version, "a step cannot be read; the whole model is fetched");
            return Ok(None);
        }
        Ok(Model::new(Arc::clone(&self.parameters), values).ok())
    }

    async fn download(&self, file: &WantedFile) -> Result<Vec<u8>, ClientError> {
        let mut download = Download::resume(self.client.state.partial_model(file.sha256));
        self.client.transport.file(&self.identity.secret, file, &mut download).await
    }

    fn path(&self, version: u32) -> String {
        format!("/device/v1/jobs/{}/models/{version}", self.assignment.job)
    }

    /// Without a cache (a full disk) the next round fetches it again.
    fn keep(&self, body: &[u8]) {
        if let Err(error) = self.client.state.save_model(body) {
            tracing::warn!(%error, "the model is not cached");
        }
    }
}
