//! What the store has of a channel: which release, and its file.
//!
//! A file is stored under a name of its own before the entry that names it, so a process that is killed in between has
//! the release before.

use serde::{Deserialize, Serialize};
use tributary_protocol::card::ModelCard;
use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::release::Released;
use tributary_protocol::update::model_in_form;

use super::model::ReleasedModel;
use crate::store::state::{State, json};
use crate::store::{Durability, StoreError};
use crate::tasks::personal;

/// What the store has of a channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredChannel {
    pub(super) has: Option<StoredRelease>,
    /// The file of a release that this SDK could not use: it is not downloaded again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unusable: Option<Sha256Hash>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredRelease {
    pub(super) number: u32,
    pub(super) job: JobId,
    pub(super) card: ModelCard,
    pub(super) sha256: Sha256Hash,
}

impl StoredRelease {
    pub(super) fn of(released: &Released) -> Self {
        let Released { number, job, card, sha256, .. } = released;
        Self { number: *number, job: *job, card: card.clone(), sha256: *sha256 }
    }
}

fn entry(channel: &Name) -> String {
    format!("release-{}.json", channel.as_str())
}

fn body_entry(channel: &Name, sha256: Sha256Hash) -> String {
    format!("release-{}-{sha256}.safetensors", channel.as_str())
}

impl State {
    pub(super) fn channel(&self, channel: &Name) -> Result<StoredChannel, StoreError> {
        Ok(self.read_json(&entry(channel))?.unwrap_or_default())
    }

    /// Keeps a release in the place of the one before.
    pub(super) fn save_release(&self, channel: &Name, next: StoredRelease, file: &[u8]) -> Result<(), StoreError> {
        let before = self.channel(channel)?;
        let sha256 = next.sha256;
        self.store.put(&body_entry(channel, sha256), file, Durability::Process)?;
        self.save_channel(channel, &StoredChannel { has: Some(next), unusable: None })?;
        self.remove_body(channel, before.has.filter(|before| before.sha256 != sha256).as_ref())
    }

    /// Notes that this file cannot be used.
    pub(super) fn save_unusable(&self, channel: &Name, sha256: Sha256Hash) -> Result<(), StoreError> {
        let before = self.channel(channel)?;
        self.save_channel(channel, &StoredChannel { unusable: Some(sha256), ..before })
    }

    /// Forgets the release of a channel.
    pub(super) fn remove_release(&self, channel: &Name) -> Result<(), StoreError> {
        let before = self.channel(channel)?;
        self.save_channel(channel, &StoredChannel { has: None, ..before.clone() })?;
        self.remove_body(channel, before.has.as_ref())
    }

    fn save_channel(&self, channel: &Name, stored: &StoredChannel) -> Result<(), StoreError> {
        self.store.put(&entry(channel), &json(stored), Durability::Process)
    }

    fn remove_body(&self, channel: &Name, release: Option<&StoredRelease>) -> Result<(), StoreError> {
        match release {
            Some(release) => self.store.remove(&body_entry(channel, release.sha256)),
            None => Ok(()),
        }
    }

    /// The file of a release, if it is there and undamaged.
    pub(super) fn release_file(&self, channel: &Name, release: &StoredRelease) -> Result<Option<Vec<u8>>, StoreError> {
        let file = self.store.get(&body_entry(channel, release.sha256))?;
        Ok(file.filter(|file| Sha256Hash::of(file) == release.sha256))
    }

    /// The release of a channel, with the personal parameters that this client has trained.
    pub(super) fn released(&self, channel: &Name) -> Result<Option<ReleasedModel>, StoreError> {
        let Some(release) = self.channel(channel)?.has else { return Ok(None) };
        let Some(file) = self.release_file(channel, &release)? else { return Ok(None) };
        Ok(self.with_own(&release, &file).ok())
    }

    /// The model in the file of a release.
    pub(super) fn with_own(&self, release: &StoredRelease, file: &[u8]) -> Result<ReleasedModel, String> {
        let parts = release.card.model.parts().map_err(|error| error.to_string())?;
        let model = model_in_form(file, parts.model(), ModelForm::F32).map_err(|error| error.to_string())?;
        let own = personal::kept_values(&parts, self.client_state(release.job));
        let model = personal::with_own(&model, &parts, own.as_deref()).into_owned();
        Ok(ReleasedModel { number: release.number, card: release.card.clone(), model })
    }
}
