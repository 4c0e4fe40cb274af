//! The model of a release, from the store.

use tributary_protocol::card::ModelCard;
use tributary_protocol::model::Model;

use crate::error::ClientError;
#[cfg(feature = "layers")]
use crate::predict::UsableModel;

/// A released model.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleasedModel {
    /// Number of the release in its channel, from 1.
    pub number: u32,
    /// What the model is, and how it is used.
    pub card: ModelCard,
    /// Its parameters, with the client's own personal ones where it has trained them.
    pub model: Model,
}

impl ReleasedModel {
    /// The model, ready to predict.
    ///
    /// # Errors
    /// [`ClientError::Unusable`] if the network is part of the app.
    #[cfg(feature = "layers")]
    pub fn usable(&self) -> Result<UsableModel, ClientError> {
        let usable = UsableModel::new(self.card.clone(), &self.model);
        usable.map_err(|error| ClientError::Unusable(error.to_string()))
    }

    /// Why an app cannot use the model: a list of layers that this SDK cannot compute.
    pub(super) fn check(&self) -> Result<(), ClientError> {
        #[cfg(feature = "layers")]
        if matches!(self.card.model.spec, tributary_protocol::layers::ModelSpec::Layers(_)) {
            self.usable()?;
        }
        Ok(())
    }
}
