//! What the cached model is: an app predicts with it while there is no network.
//!
//! The card of a model is stored before the model replaces the one before, and beside the card of that one. A process
//! that is killed in between leaves the old model with its card, and one that is killed later the new one with its own.

use serde::{Deserialize, Serialize};
use tributary_protocol::card::ModelCard;
use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;

use super::contract::{Durability, StoreError};
use super::slots::Slot;
use super::state::{State, json};

/// A file that was downloaded, and what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CachedCard {
    /// Of the file in its form.
    pub(crate) file_sha256: Sha256Hash,
    pub(crate) form: ModelForm,
    pub(crate) job: JobId,
    pub(crate) card: ModelCard,
}

impl State {
    /// Says what a file is, before or after it is cached. The card of the file that is cached now stays.
    pub(crate) fn save_card(&self, slot: &Slot, card: &CachedCard) -> Result<(), StoreError> {
        let mut cards = self.cards(slot)?;
        if cards.first() == Some(card) {
            return Ok(());
        }
        cards.retain(|known| known.file_sha256 != card.file_sha256);
        cards.truncate(1);
        cards.insert(0, card.clone());
        self.store.put(&slot.cards(), &json(&cards), Durability::Process)
    }

    /// Whether the model of a slot may be that of a job of this name.
    #[cfg(any(test, feature = "layers"))]
    pub(crate) fn may_be_of(&self, slot: &Slot, job: &str) -> Result<bool, StoreError> {
        Ok(self.cards(slot)?.iter().any(|card| card.card.job.as_str() == job))
    }

    /// The card of the file with this hash.
    #[cfg(any(test, feature = "layers"))]
    pub(crate) fn card_of(&self, slot: &Slot, file_sha256: Sha256Hash) -> Result<Option<CachedCard>, StoreError> {
        Ok(self.cards(slot)?.into_iter().find(|card| card.file_sha256 == file_sha256))
    }

    fn cards(&self, slot: &Slot) -> Result<Vec<CachedCard>, StoreError> {
        Ok(self.read_json(&slot.cards())?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::MemoryStore;
    use tributary_protocol::plan::Loss;

    fn card(file: &[u8], version: u32) -> CachedCard {
        let hash = Sha256Hash::of(file);
        CachedCard {
            file_sha256: hash,
            form: ModelForm::F32,
            job: JobId::from_random([1; 16]),
            card: ModelCard {
                job: "points".parse().unwrap(),
                version,
                sha256: hash,
                plan_sha256: hash,
                loss: Loss::Mse,
                model: serde_json::from_str(r#"{"parameters":[{"name":"w","shape":[1]}]}"#).unwrap(),
            },
        }
    }

    #[test]
    fn the_cached_model_has_a_card_whenever_the_process_dies() {
        let (state, slot) = (State::new(Arc::new(MemoryStore::default())), Slot::of(None));
        let cached = |state: &State| {
            let (hash, _) = state.cached_model(&slot).unwrap().unwrap();
            state.card_of(&slot, hash).unwrap().map(|card| card.card.version)
        };
        for version in 1..=4u32 {
            let file = version.to_le_bytes();
            state.save_card(&slot, &card(&file, version)).unwrap();
            if version > 1 {
                assert_eq!(cached(&state), Some(version - 1), "killed before the model is cached");
            }
            state.save_model(&slot, &file).unwrap();
            assert_eq!(cached(&state), Some(version));
        }
        assert_eq!(state.cards(&slot).unwrap().len(), 2);
        // The same version with other inputs.
        let file = 4u32.to_le_bytes();
        state.save_card(&slot, &card(&file, 5)).unwrap();
        assert_eq!(cached(&state), Some(5));
    }
}
