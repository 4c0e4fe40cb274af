//! A training that was suspended: where it stopped, and for which assignment.

use serde::{Deserialize, Serialize};
use tributary_protocol::device::Assignment;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;

use super::client_state::ClientState;
use super::contract::{Durability, StoreError};
use super::state::{State, json};
use crate::trainer::Checkpoint;

/// A [`Note`]. Its existence says that the entries of its slot are complete.
const NOTE: &str = "suspended.json";
/// Two slots, each with vectors, and with what a trainer keeps in a format of its own if it keeps any. A checkpoint is
/// written beside the one before it, which counts until the note is replaced.
const SLOTS: [[&str; 2]; 2] =
    [["suspended.safetensors", "suspended.bin"], ["suspended-1.safetensors", "suspended-1.bin"]];

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
    /// Which of the slots it is in.
    #[serde(default)]
    is_in_second: bool,
}

/// A training that goes on.
#[derive(Debug, PartialEq)]
pub(crate) struct Suspended {
    pub(crate) checkpoint: Checkpoint,
    /// How long it took so far.
    pub(crate) train_ms: u64,
}

impl State {
    /// Stores where a training stopped or is, in the place of an earlier checkpoint. A process that is killed meanwhile
    /// leaves the earlier one.
    pub(crate) fn save_suspended(&self, assignment: &Assignment, suspended: Suspended) -> Result<(), StoreError> {
        let earlier = self.read_json::<Note>(NOTE).ok().flatten();
        let is_in_second = earlier.as_ref().is_some_and(|note| !note.is_in_second);
        let [vectors_entry, bytes_entry] = SLOTS[usize::from(is_in_second)];
        let Suspended { checkpoint: Checkpoint { steps, losses, vectors, bytes }, train_ms } = suspended;
        let Assignment { job, round, model_sha256, .. } = *assignment;
        let file = ClientState { job, round, model_sha256, vectors }.to_bytes();
        let (sha256, bytes_sha256) = (Sha256Hash::of(&file), (!bytes.is_empty()).then(|| Sha256Hash::of(&bytes)));
        self.store.put(vectors_entry, &file, Durability::Process)?;
        if bytes_sha256.is_some() {
            self.store.put(bytes_entry, &bytes, Durability::Process)?;
        }
        let losses = losses.to_bits();
        let note = Note { assignment: assignment.id, steps, losses, train_ms, sha256, bytes_sha256, is_in_second };
        self.store.put(NOTE, &json(&note), Durability::Process)?;
        SLOTS[usize::from(!is_in_second)].iter().try_for_each(|entry| self.store.remove(entry))
    }

    /// Where the training for this assignment stopped. One for another assignment is removed, as its round is over. One
    /// that cannot be read counts as none: the training begins again.
    pub(crate) fn suspended(&self, assignment: &Assignment) -> Option<Suspended> {
        let read = || {
            let note = self.read_json::<Note>(NOTE)?.filter(|note| note.assignment == assignment.id);
            let Some(note) = note else { return Ok(None) };
            let [vectors_entry, bytes_entry] = SLOTS[usize::from(note.is_in_second)];
            let vectors = self.whole(vectors_entry, note.sha256)?;
            let bytes = match note.bytes_sha256 {
                Some(sha256) => self.whole(bytes_entry, sha256)?,
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
        SLOTS.iter().flatten().try_for_each(|entry| self.store.remove(entry))
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
        for entry in SLOTS[0] {
            state.remove_suspended().unwrap();
            state.save_suspended(&assignment(1), suspended()).unwrap();
            let file = store.get(entry).unwrap().unwrap();
            store.put(entry, &file[..file.len() - 1], Durability::Process).unwrap();
            assert_eq!(state.suspended(&assignment(1)), None, "{entry} is damaged");
        }
        state.remove_suspended().unwrap();
        assert!(SLOTS.iter().flatten().chain([&NOTE]).all(|entry| store.get(entry).unwrap().is_none()));
    }

    /// A store whose process is killed before it writes this entry.
    #[derive(Debug)]
    struct KilledBefore(Arc<MemoryStore>, &'static str);

    impl Store for KilledBefore {
        fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
            self.0.get(name)
        }

        fn put(&self, name: &str, value: &[u8], durability: Durability) -> Result<(), StoreError> {
            match name == self.1 {
                true => Err(StoreError { place: name.to_owned(), source: std::io::Error::other("killed") }),
                false => self.0.put(name, value, durability),
            }
        }

        fn append(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
            self.0.append(name, bytes)
        }

        fn rename(&self, from: &str, to: &str) -> Result<bool, StoreError> {
            self.0.rename(from, to)
        }

        fn remove(&self, name: &str) -> Result<(), StoreError> {
            self.0.remove(name)
        }

        fn names(&self) -> Result<Vec<String>, StoreError> {
            self.0.names()
        }

        fn place(&self, name: &str) -> String {
            self.0.place(name)
        }
    }

    #[test]
    fn a_kill_while_a_checkpoint_is_written_leaves_the_one_before() {
        for before in [SLOTS[1][0], SLOTS[1][1], NOTE] {
            let store = Arc::new(MemoryStore::new());
            let state = State::new(Arc::clone(&store) as Arc<_>);
            state.save_suspended(&assignment(1), suspended()).unwrap();
            let dying = State::new(Arc::new(KilledBefore(Arc::clone(&store), before)));
            let later = Suspended { train_ms: 99, ..suspended() };
            assert!(dying.save_suspended(&assignment(1), later).is_err());
            assert_eq!(state.suspended(&assignment(1)), Some(suspended()), "killed before {before}");
        }
        let state = State::new(Arc::new(MemoryStore::new()));
        for train_ms in 1..5 {
            let next = || Suspended { train_ms, ..suspended() };
            state.save_suspended(&assignment(1), next()).unwrap();
            assert_eq!(state.suspended(&assignment(1)), Some(next()));
        }
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
