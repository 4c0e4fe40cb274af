//! Slots of cached models: one for jobs that name no example set, and one for each set that jobs name. So the models of
//! an app with several stay side by side.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;

use super::contract::{Durability, StoreError};
use super::state::State;

/// Bytes of the hash of a name in the names of entries, in hexadecimal digits. A name itself may have letters that
/// names of entries have not.
const HASH_CHARS: usize = 16;
/// Begins and ends the name of the entry of a slot's cards.
const CARDS: [&str; 2] = ["cards", ".json"];

/// Where the model of an example set is cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot(
    /// What its entries' names have in common: empty without a name.
    String,
);

impl Slot {
    /// The slot of jobs that name this set; without a name, that of jobs that name none.
    pub(crate) fn of(data: Option<&Name>) -> Self {
        Self(data.map_or_else(String::new, |name| {
            let hash = Sha256Hash::of(name.as_str().as_bytes()).to_string();
            format!("-{}", &hash[..HASH_CHARS])
        }))
    }

    /// The entry of the newest model body as it was sent: plain, in another form, or as a zstd frame.
    pub(super) fn model(&self) -> String {
        format!("model{}.safetensors", self.0)
    }

    /// The entry that says what the model is.
    pub(super) fn cards(&self) -> String {
        let [begin, end] = CARDS;
        format!("{begin}{}{end}", self.0)
    }
}

impl State {
    /// The slots with a model that has a card.
    #[cfg(any(test, feature = "layers"))]
    pub(crate) fn slots(&self) -> Result<Vec<Slot>, StoreError> {
        let [begin, end] = CARDS;
        let names = self.store.names()?;
        let slot = |name: &String| Some(Slot(name.strip_prefix(begin)?.strip_suffix(end)?.to_owned()));
        Ok(names.iter().filter_map(slot).collect())
    }

    /// The cached model body and its hash, which says which version it is and whether it is undamaged.
    pub(crate) fn cached_model(&self, slot: &Slot) -> Result<Option<(Sha256Hash, Vec<u8>)>, StoreError> {
        let body = self.store.get(&slot.model())?;
        Ok(body.map(|body| (Sha256Hash::of(&body), body)))
    }

    /// Caches a model body in the place of the one before.
    pub(crate) fn save_model(&self, slot: &Slot, body: &[u8]) -> Result<(), StoreError> {
        self.store.put(&slot.model(), body, Durability::Process)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::MemoryStore;
    use crate::store::Store;

    #[test]
    fn each_example_set_has_a_model_beside_that_of_the_first_release() {
        let store = Arc::new(MemoryStore::default());
        let state = State::new(Arc::clone(&store) as Arc<_>);
        let [unnamed, typing, photos] = [None, Some("typing"), Some("photos_2")]
            .map(|name| Slot::of(name.map(|name| name.parse().unwrap()).as_ref()));
        for (slot, body) in [(&unnamed, b"a"), (&typing, b"b"), (&photos, b"c")] {
            state.save_model(slot, body).unwrap();
            store.put(&slot.cards(), b"[]", Durability::Process).unwrap();
        }
        assert_eq!(store.get("model.safetensors").unwrap().unwrap(), b"a");
        assert_eq!(state.cached_model(&typing).unwrap().unwrap().1, b"b");
        let mut slots = state.slots().unwrap();
        slots.sort_by_key(|slot| slot.0.clone());
        let mut expected = [unnamed, typing, photos];
        expected.sort_by_key(|slot| slot.0.clone());
        assert_eq!(slots, expected);
        let is_fit = |name: &String| name.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-".contains(letter));
        assert!(store.names().unwrap().iter().all(is_fit));
    }
}
