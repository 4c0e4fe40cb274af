//! Getting a release: by the differences from the one that is here, or as a whole.

use std::sync::Arc;

use tributary_protocol::body::packed_bytes_max;
use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Name, Secret};
use tributary_protocol::model::{Model, ParameterList};
use tributary_protocol::release::{DIFFERENCES_MAX, Difference, Released};
use tributary_protocol::safetensors::{model_metadata, model_to_bytes};
use tributary_protocol::update::{
    add_model_delta, bytes_max, model_delta_bytes_max, model_delta_header, model_in_form,
};

use super::stored::StoredRelease;
use crate::error::ClientError;
use crate::session::Context;
use crate::transport::download::WantedFile;

/// Gets a release, checks that it can be used, and keeps it in the place of the one before.
///
/// # Errors
/// [`ClientError`]; the one before is kept. One that cannot be used is [`ClientError::Unusable`].
pub(super) async fn install(
    context: &Context,
    secret: &Secret,
    channel: &Name,
    released: &Released,
) -> Result<(), ClientError> {
    let unusable = |error: &dyn std::fmt::Display| ClientError::Unusable(error.to_string());
    let parameters = released.card.model.parameters().map_err(|error| unusable(&error))?;
    let wanted = Wanted { context, secret, channel, released, parameters: Arc::new(parameters) };
    let file = match wanted.by_differences().await? {
        Some(file) => file,
        None => wanted.whole().await?,
    };
    let release = StoredRelease::of(released);
    let model = context.state.with_own(&release, &file).map_err(|error| unusable(&error))?;
    model.check()?;
    Ok(context.state.save_release(channel, release, &file)?)
}

struct Wanted<'a> {
    context: &'a Context,
    secret: &'a Secret,
    channel: &'a Name,
    released: &'a Released,
    parameters: Arc<ParameterList>,
}

impl Wanted<'_> {
    async fn whole(&self) -> Result<Vec<u8>, ClientError> {
        let file = WantedFile {
            path: format!("/device/v1/releases/{}/model", self.released.id),
            sha256: self.released.sha256,
            bytes_max: bytes_max(&self.parameters, ModelForm::F32.codec()),
            again_if_damaged: true,
        };
        self.download(&file).await
    }

    /// Adds the differences to the release that is here, if they lead from it to the wanted one and are shorter. None
    /// if they do not, or cannot be had.
    async fn by_differences(&self) -> Result<Option<Vec<u8>>, ClientError> {
        let state = &self.context.state;
        let Some(here) = state.channel(self.channel)?.has else { return Ok(None) };
        let all = &self.released.differences;
        let Some(place) = all.iter().position(|difference| difference.base_sha256 == here.sha256) else {
            return Ok(None);
        };
        let differences = &all[place..];
        let bytes = differences.iter().fold(0, |bytes: u64, difference| bytes.saturating_add(difference.bytes));
        if bytes >= self.released.bytes || differences.len() > DIFFERENCES_MAX {
            return Ok(None);
        }
        let Some(file) = state.release_file(self.channel, &here)? else { return Ok(None) };
        let Ok(model) = model_in_form(&file, &self.parameters, ModelForm::F32) else { return Ok(None) };
        let mut values = model.into_values();
        for difference in differences {
            if !self.add(&mut values, difference).await? {
                return Ok(None);
            }
        }
        let Ok(model) = Model::new(Arc::clone(&self.parameters), values) else { return Ok(None) };
        let file = model_to_bytes(&model, &model_metadata());
        let is_right = Sha256Hash::of(&file) == self.released.sha256;
        if !is_right {
            tracing::warn!(channel = self.channel.as_str(), "differences do not lead to their release");
        }
        Ok(is_right.then_some(file))
    }

    /// False if a difference is gone or unusable: the whole file is downloaded then.
    async fn add(&self, values: &mut [f32], difference: &Difference) -> Result<bool, ClientError> {
        let id = difference.release;
        let file = WantedFile {
            path: format!("/device/v1/releases/{id}/difference"),
            sha256: difference.sha256,
            bytes_max: packed_bytes_max(model_delta_bytes_max(&self.parameters)),
            again_if_damaged: false,
        };
        let body = match self.download(&file).await {
            Err(error) if error.is_temporary() => return Err(error),
            downloaded => downloaded,
        };
        let header = model_delta_header(&id.to_string(), difference.number);
        let added = body.map(|body| add_model_delta(values, &body, &self.parameters, header));
        let is_added = matches!(added, Ok(Ok(())));
        if !is_added {
            tracing::warn!(?added, "no difference to a release; the whole file is downloaded");
        }
        Ok(is_added)
    }

    async fn download(&self, file: &WantedFile) -> Result<Vec<u8>, ClientError> {
        self.context.coordinator.download(self.secret, file, self.context.state.partial(file.sha256)).await
    }
}
