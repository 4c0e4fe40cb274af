//! A training that was suspended: where it stopped, and for which assignment.

use serde::{Deserialize, Serialize};
use tributary_protocol::device::Assignment;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;

use super::client_state::ClientState;
use super::contract::{Durability, StoreError};
use super::state::{State, json};
use crate::trainer::Checkpoint;

/// A [`Note`]. Its existence says that the other entries are complete.
const NOTE: &str = "suspended.json";
const VECTORS: &str = "suspended.safetensors";
/// What a trainer keeps in a format of its own; only if it keeps any.
const BYTES: &str = "suspended.bin";

/// A checkpoint without its vectors and bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    assignment: AssignmentId,
    steps: u64,
    /// The bits of the sum of losses: decimal digits would round it.
    losses: u64,
    train_ms: u64,
    /// Hash of the vectors' file.
    sha256: Sha256Hash,
    /// Hash of the bytes, if there are any.
    #[serde(default)]
    bytes_sha256: Option<Sha256Hash>,
}

/// A training that goes on.
#[derive(Debug, PartialEq)]
pub(crate) struct Suspended {
    pub(crate) checkpoint: Checkpoint,
    /// How long it took so far.
    pub(crate) train_ms: u64,
}

impl State {
    /// Stores where a training stopped, in the place of an earlier one.
    pub(crate) fn save_suspended(&self, assignment: &Assignment, suspended: Suspended) -> Result<(), StoreError> {
        self.remove_suspended()?;
        let Suspended { checkpoint: Checkpoint { steps, losses, vectors, bytes }, train_ms } = suspended;
        let Assignment { job, round, model_sha256, .. } = *assignment;
        let file = ClientState { job, round, model_sha256, vectors }.to_bytes();
        let (sha256, bytes_sha256) = (Sha256Hash::of(&file), (!bytes.is_empty()).then(|| Sha256Hash::of(&bytes)));
        let note = Note { assignment: assignment.id, steps, losses: losses.to_bits(), train_ms, sha256, bytes_sha256 };
        self.store.put(VECTORS, &file, Durability::Process)?;
        if bytes_sha256.is_some() {
            self.store.put(BYTES, &bytes, Durability::Process)?;
        }
        self.store.put(NOTE, &json(&note), Durability::Process)
    }

    /// Where the training for this assignment stopped. One for another assignment is removed, as its round is over. One
    /// that cannot be read counts as none: the training begins again.
    pub(crate) fn suspended(&self, assignment: &Assignment) -> Option<Suspended> {
        let read = || {
            let note = self.read_json::<Note>(NOTE)?.filter(|note| note.assignment == assignment.id);
            let Some(note) = note else { return Ok(None) };
            let vectors = self.whole(VECTORS, note.sha256)?;
            let bytes = match note.bytes_sha256 {
                Some(sha256) => self.whole(BYTES, sha256)?,
                None => Some(Vec::new()),
            };
            Ok::<_, StoreError>(vectors.zip(bytes).map(|(vectors, bytes)| (note, vectors, bytes)))
        };
        let (note, file, bytes) =
            read().inspect_err(|error| tracing::warn!(%error, "a checkpoint is ignored")).ok()??;
        let vectors = ClientState::from_bytes(&file, assignment.job).ok()?.vectors;
        let checkpoint = Checkpoint { steps: note.steps, losses: f64::from_bits(note.losses), vectors, bytes };
        Some(Suspended { checkpoint, train_ms: note.train_ms })
    }

    /// An entry, if it is the one with this hash.
    fn whole(&self, entry: &str, sha256: Sha256Hash) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.store.get(entry)?.filter(|bytes| Sha256Hash::of(bytes) == sha256))
    }

    /// The training is finished, or its round is over.
    pub(crate) fn remove_suspended(&self) -> Result<(), StoreError> {
        self.store.remove(NOTE)?;
        self.store.remove(BYTES)?;
        self.store.remove(VECTORS)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::json;
    use tributary_protocol::id::JobId;

    use super::super::{MemoryStore, Store};
    use super::*;

    fn assignment(id: u8) -> Assignment {
        let plan = json!({
            "model": { "parameters": [{ "name": "w", "shape": [1] }] },
            "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
            "codec": "f32", "weight_max": 10,
        });
        serde_json::from_value(json!({
            "id": AssignmentId::from_random([id; 16]), "task": "train", "job": JobId::from_random([5; 16]), "round": 1,
            "model_version": 0, "model_sha256": Sha256Hash([0; 32]), "plan": plan, "seed": 1, "deadline_in_ms": 1000,
        }))
        .unwrap()
    }

    fn suspended() -> Suspended {
        let vectors = BTreeMap::from([("values".to_owned(), vec![1.5, -2.0])]);
        let checkpoint = Checkpoint { steps: 3, losses: 0.1 + 0.2, vectors, bytes: vec![0, 255, 7] };
        Suspended { checkpoint, train_ms: 7 }
    }

    #[test]
    fn a_checkpoint_is_for_its_assignment_and_counts_only_undamaged() {
        let store = Arc::new(MemoryStore::new());
        let state = State::new(Arc::clone(&store) as Arc<_>);
        assert_eq!(state.suspended(&assignment(1)), None);
        state.save_suspended(&assignment(1), suspended()).unwrap();
        assert_eq!(state.suspended(&assignment(1)), Some(suspended()));
        assert_eq!(state.suspended(&assignment(2)), None, "of another round");
        for entry in [VECTORS, BYTES] {
            state.save_suspended(&assignment(1), suspended()).unwrap();
            let file = store.get(entry).unwrap().unwrap();
            store.put(entry, &file[..file.len() - 1], Durability::Process).unwrap();
            assert_eq!(state.suspended(&assignment(1)), None, "{entry} is damaged");
        }
        state.remove_suspended().unwrap();
        assert!([NOTE, VECTORS, BYTES].iter().all(|entry| store.get(entry).unwrap().is_none()));
    }

    #[test]
    fn a_checkpoint_without_bytes_replaces_one_that_had_some() {
        let state = State::new(Arc::new(MemoryStore::new()));
        state.save_suspended(&assignment(1), suspended()).unwrap();
        let plain = Suspended { checkpoint: Checkpoint { bytes: Vec::new(), ..suspended().checkpoint }, train_ms: 8 };
        state.save_suspended(&assignment(1), Suspended { checkpoint: plain.checkpoint.clone(), ..plain }).unwrap();
        assert_eq!(state.suspended(&assignment(1)), Some(plain));
    }
}
