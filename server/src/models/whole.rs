//! A model that is whole in memory: for an evaluation here, and for the answers of an analysis.

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::model::{Model, ModelError};
use tributary_protocol::safetensors::{ModelDecoder, ModelFileError};

use crate::blob::{BlobError, model_key};
use crate::services::Services;

/// Why a stored model cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WholeModelError {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error("the stored model cannot be read: {0}")]
    File(#[from] ModelFileError),
    #[error("the stored model cannot be read: {0}")]
    Values(#[from] ModelError),
}

/// Reads a version of a job's model, 4 bytes per parameter.
pub(crate) async fn whole_model(
    services: &Services,
    spec: &JobSpec,
    version: u32,
    sha256: Sha256Hash,
) -> Result<Model, WholeModelError> {
    let mut values = vec![0.0f32; spec.model.total()];
    let mut decoder = ModelDecoder::new(Arc::clone(&spec.model));
    let mut reader = services.blobs.reader(&services.db, model_key(spec.id, version), sha256).await?;
    while let Some(data) = reader.next().await? {
        decoder.push(&data, &mut |first, block| values[first..first + block.len()].copy_from_slice(block))?;
        tokio::task::yield_now().await;
    }
    decoder.finish()?;
    Ok(Model::new(Arc::clone(&spec.model), values)?)
}
