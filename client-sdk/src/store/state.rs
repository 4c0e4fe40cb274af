//! The entries of the SDK: who the client is, finished work that is not delivered, the cached model, client states.
//!
//! Only the identity must survive a power failure: it cannot be obtained again. A damaged model or update is recognised
//! by its hash, and is downloaded or trained again.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tributary_protocol::device::{Assignment, EvaluationReport, UpdateQuery};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, ClientId, JobId, Name, Secret};
use tributary_protocol::inputs::Description;
use tributary_protocol::relay::SumQuery;
use zeroize::Zeroizing;

use super::client_state::ClientState;
use super::contract::{Durability, Store, StoreError};
use super::partial::Partial;
use crate::error::ClientError;
use crate::keys::KEY;
use crate::secure::Member;

const IDENTITY: &str = "identity.json";
/// The identity of a client that has left, until the coordinator knows.
const LEFT: &str = "left.json";
/// A [`Pending`]. Its existence says that the update's entry is complete.
const PENDING: &str = "pending.json";
/// The body of the pending update.
const UPDATE: &str = "update.safetensors";
/// The state that replaces the job's when the pending update is accepted.
const NEXT_STATE: &str = "memory-next.safetensors";

/// The client as a member of the group for its pending update.
const MEMBER: &str = "member.json";
/// What the client has given to jobs whose groups add noise: for each job its [`Noised`].
const NOISED: &str = "noised.json";
/// The masked body of the pending update.
const MASKED: &str = "update.masked";

/// The state that the last accepted update of a job left.
fn state_entry(job: JobId) -> String {
    format!("memory-{job}.safetensors")
}

/// Who the client is, since it enrolled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The coordinator's URL as the app gave it: the secret is sent to no other.
    pub(crate) server: String,
    pub(crate) client: ClientId,
    pub(crate) secret: Secret,
    pub(crate) population: Name,
    /// The coordinator's certificate for the device's key, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    /// The certificate of the population's CA, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authority: Option<String>,
}

/// Updates that were masked with noise, of one job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Noised {
    pub(crate) updates: u32,
    /// The least noise multiplier of their groups.
    pub(crate) multiplier: f64,
}

impl Default for Noised {
    fn default() -> Self {
        Self { updates: 0, multiplier: f64::MAX }
    }
}

impl Noised {
    /// With one more.
    #[must_use]
    pub(crate) fn and(self, multiplier: f64) -> Self {
        // Of two numbers, one that is none counts: nothing is promised with it.
        let least = if multiplier < self.multiplier || multiplier.is_nan() { multiplier } else { self.multiplier };
        Self { updates: self.updates.saturating_add(1), multiplier: least }
    }
}

/// Finished work with its body.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) pending: Pending,
    /// The update's file, compressed unless it is sent in parts; empty for an evaluation.
    pub(crate) body: Bytes,
    /// Whether an earlier session may have sent some of it.
    pub(crate) begun: bool,
}

/// Finished work without its body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) assignment: Assignment,
    /// Hash of the plan's text as it came.
    #[serde(default)]
    pub(crate) plan_sha256: Option<Sha256Hash>,
    pub(crate) work: Work,
    /// Deliveries that ended with an unusable answer.
    #[serde(default)]
    pub(crate) failures: u32,
}

impl Pending {
    /// The hash by which the members of a group know the plan.
    pub(crate) fn plan_hash(&self) -> Sha256Hash {
        // Work of the first release was stored without it.
        self.plan_sha256.unwrap_or_else(|| self.assignment.plan.hash())
    }
}

/// The result of an assignment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// An update, and the hash of its body.
    Update {
        query: UpdateQuery,
        sha256: Sha256Hash,
    },
    /// The sum of the updates of several parts, and the hash of its body.
    Sum {
        query: SumQuery,
        sha256: Sha256Hash,
    },
    Evaluation(EvaluationReport),
    Description(Description),
}

impl Work {
    /// The hash of its body; none for a report without one.
    pub(crate) fn body(&self) -> Option<Sha256Hash> {
        match self {
            Self::Update { sha256, .. } | Self::Sum { sha256, .. } => Some(*sha256),
            Self::Evaluation(_) | Self::Description(_) => None,
        }
    }
}

/// The entries of one client.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Arc<dyn Store>,
}

impl State {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Who the client is, if it has enrolled with this server.
    pub(crate) fn identity(&self, server: &str) -> Result<Option<Identity>, ClientError> {
        // A process that was killed while it left has left.
        if self.left(server)?.is_some() {
            self.leave()?;
            return Ok(None);
        }
        match self.read_json::<Identity>(IDENTITY)? {
            Some(identity) if identity.server != server => {
                Err(ClientError::ForeignState { place: self.store.place(IDENTITY), server: identity.server })
            }
            identity => Ok(identity),
        }
    }

    pub(crate) fn save_identity(&self, identity: &Identity) -> Result<(), StoreError> {
        self.store.put(IDENTITY, &json(identity), Durability::Power)
    }

    /// Removes all entries of a client that leaves, but for what the coordinator must be told with: who the client was,
    /// and its key.
    pub(crate) fn leave(&self) -> Result<(), StoreError> {
        // Before anything is removed: a process that is killed here must still tell the coordinator.
        if let Some(identity) = self.store.get(IDENTITY)? {
            self.store.put(LEFT, &identity, Durability::Power)?;
        }
        let names = self.store.names()?;
        names.iter().filter(|name| ![LEFT, KEY].contains(&name.as_str())).try_for_each(|name| self.store.remove(name))
    }

    /// Who the client of this server was that has left, if the server does not know yet.
    pub(crate) fn left(&self, server: &str) -> Result<Option<Identity>, StoreError> {
        Ok(self.read_json::<Identity>(LEFT)?.filter(|left| left.server == server))
    }

    /// The coordinator knows that the client has left.
    pub(crate) fn gone(&self) -> Result<(), StoreError> {
        self.store.remove(KEY)?;
        self.store.remove(LEFT)
    }

    /// Work that an earlier session finished and did not deliver. Work that cannot be read is removed: its round ends
    /// without it.
    pub(crate) fn finished(&self) -> Result<Option<Finished>, ClientError> {
        let Some(pending) = self.read_json::<Pending>(PENDING)? else {
            self.store.remove(PENDING)?;
            return Ok(None);
        };
        let body = match pending.work.body() {
            None => Some(Vec::new()),
            Some(sha256) => self.store.get(UPDATE)?.filter(|body| Sha256Hash::of(body) == sha256),
        };
        match body {
            Some(body) => Ok(Some(Finished { pending, body: body.into(), begun: true })),
            None => {
                self.remove_finished()?;
                Ok(None)
            }
        }
    }

    /// Stores finished work before it is delivered.
    pub(crate) fn save_finished(&self, finished: &Finished) -> Result<(), StoreError> {
        if finished.pending.work.body().is_some() {
            self.store.put(UPDATE, &finished.body, Durability::Process)?;
        }
        self.save_pending(&finished.pending)
    }

    /// Replaces what is stored beside the body.
    pub(crate) fn save_pending(&self, pending: &Pending) -> Result<(), StoreError> {
        self.store.put(PENDING, &json(pending), Durability::Process)
    }

    /// The coordinator has accepted the work: the job's state is what the update left. Repeating it changes nothing.
    pub(crate) fn accepted(&self, pending: &Pending) -> Result<(), StoreError> {
        if matches!(pending.work, Work::Update { .. }) {
            self.store.rename(NEXT_STATE, &state_entry(pending.assignment.job))?;
        }
        self.remove_finished()
    }

    /// No work is to be delivered any more; the job's state stays what it was.
    pub(crate) fn remove_finished(&self) -> Result<(), StoreError> {
        self.store.remove(PENDING)?;
        // With the keys of the group.
        self.store.remove(MEMBER)?;
        self.store.remove(MASKED)?;
        self.store.remove(UPDATE)?;
        self.store.remove(NEXT_STATE)
    }

    /// The client as a member of the group for its pending update, if it has joined one.
    ///
    /// # Errors
    /// [`ClientError::Privacy`] if it cannot be read: what it has decided is unknown, so nothing more may be said.
    pub(crate) fn member(&self, id: AssignmentId) -> Result<Option<Member>, ClientError> {
        let Some(json) = self.store.get(MEMBER)?.map(Zeroizing::new) else { return Ok(None) };
        let unreadable = |error: &dyn std::fmt::Display| ClientError::Privacy(error.to_string());
        let split =
            json.split_at_checked(id.as_bytes().len()).ok_or_else(|| unreadable(&"a member's keys are lost"))?;
        let (of, json) = split;
        // One of an earlier assignment was left by a session that was killed.
        if of != id.as_bytes() {
            return Ok(None);
        }
        Member::from_json(json).map(Some).map_err(|error| unreadable(&error))
    }

    /// Stores what the member has decided, before it is told to anybody. It survives a power failure: a member that
    /// forgot which share it gave away could give the other one, too.
    pub(crate) fn save_member(&self, id: AssignmentId, member: &Member) -> Result<(), StoreError> {
        let json = Zeroizing::new([&id.as_bytes()[..], &member.to_json()].concat());
        self.store.put(MEMBER, &json, Durability::Power)
    }

    /// The masked body of this hash, if it is stored.
    pub(crate) fn masked(&self, sha256: Option<Sha256Hash>) -> Result<Option<Bytes>, StoreError> {
        let Some(sha256) = sha256 else { return Ok(None) };
        Ok(self.store.get(MASKED)?.filter(|body| Sha256Hash::of(body) == sha256).map(Bytes::from))
    }

    /// What the client has given to a job whose groups add noise.
    ///
    /// # Errors
    /// [`ClientError::Privacy`] if it cannot be read: what was spent is unknown.
    pub(crate) fn noised(&self, job: JobId) -> Result<Noised, ClientError> {
        Ok(self.all_noised()?.remove(&job).unwrap_or_default())
    }

    /// Counts an update before it is masked. It survives a power failure: a client that forgot what it has given would
    /// give more than its app allows.
    pub(crate) fn count_noised(&self, job: JobId, multiplier: f64) -> Result<(), ClientError> {
        let mut all = self.all_noised()?;
        let noised = all.remove(&job).unwrap_or_default().and(multiplier);
        all.insert(job, noised);
        let json = serde_json::to_vec(&all).map_err(|error| ClientError::Privacy(error.to_string()))?;
        Ok(self.store.put(NOISED, &json, Durability::Power)?)
    }

    fn all_noised(&self) -> Result<BTreeMap<JobId, Noised>, ClientError> {
        let Some(json) = self.store.get(NOISED)? else { return Ok(BTreeMap::new()) };
        serde_json::from_slice(&json).map_err(|error| ClientError::Privacy(format!("what was spent is lost: {error}")))
    }

    pub(crate) fn save_masked(&self, body: &[u8]) -> Result<(), StoreError> {
        self.store.put(MASKED, body, Durability::Process)
    }

    /// The state that the job's last accepted update left. `None` if it cannot be read: then the job starts without
    /// one, which delays what the residual held back.
    pub(crate) fn client_state(&self, job: JobId) -> Option<ClientState> {
        let entry = state_entry(job);
        let file =
            self.store.get(&entry).inspect_err(|error| tracing::warn!(%error, "a client state is ignored")).ok()?;
        let read = ClientState::from_bytes(&file?, job);
        let place = || self.store.place(&entry);
        read.inspect_err(|error| tracing::warn!(place = place(), %error, "a client state is ignored")).ok()
    }

    /// Stores a state that belongs to no update.
    #[cfg(feature = "group")]
    pub(crate) fn save_client_state(&self, state: &ClientState) -> Result<(), StoreError> {
        self.store.put(&state_entry(state.job), &state.to_bytes(), Durability::Process)
    }

    /// Stores the state that an update leaves, until the update is accepted. After an error the job has no state at
    /// all: the update holds the old residual, which must not be sent twice.
    pub(crate) fn save_next_state(&self, next: Option<&ClientState>) -> Result<(), StoreError> {
        let Some(next) = next else { return self.store.remove(NEXT_STATE) };
        let saved = self.store.put(NEXT_STATE, &next.to_bytes(), Durability::Process);
        saved.inspect_err(|_| {
            let _ = self.store.remove(NEXT_STATE);
            let _ = self.store.remove(&state_entry(next.job));
        })
    }

    /// What has arrived of the file of this hash.
    pub(crate) fn partial(&self, sha256: Sha256Hash) -> Partial {
        Partial::new(Arc::clone(&self.store), sha256)
    }

    /// The value of an entry; `None` if there is none, or if another release wrote it in another form.
    pub(crate) fn read_json<T: DeserializeOwned>(&self, entry: &str) -> Result<Option<T>, StoreError> {
        let Some(bytes) = self.store.get(entry)? else { return Ok(None) };
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                tracing::warn!(place = self.store.place(entry), %error, "an unreadable entry is ignored");
                Ok(None)
            }
        }
    }
}

pub(crate) fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("these types have no map with keys that JSON lacks")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tributary_protocol::id::SecretKind;

    use super::super::memory::MemoryStore;
    use super::super::slots::Slot;
    use super::*;

    fn identity(server: &str) -> Identity {
        Identity {
            server: server.into(),
            client: ClientId::from_random([1; 16]),
            secret: Secret::from_random(SecretKind::Client, [2; 32]),
            population: "p".parse().unwrap(),
            certificate: None,
            authority: None,
        }
    }

    fn state() -> (State, Arc<MemoryStore>) {
        let store = Arc::new(MemoryStore::new());
        (State::new(Arc::clone(&store) as Arc<_>), store)
    }

    #[test]
    fn a_client_that_was_killed_while_it_left_has_left() {
        let store = Arc::new(MemoryStore::new());
        let state = State::new(Arc::clone(&store) as Arc<_>);
        state.save_identity(&identity("http://a")).unwrap();
        for entry in [&*Slot::of(None).model(), "memory-job_1.safetensors", KEY] {
            store.put(entry, b"x", Durability::Process).unwrap();
        }
        let before = store.get(IDENTITY).unwrap().unwrap();
        store.put(LEFT, &before, Durability::Process).unwrap();
        assert!(state.identity("http://a").unwrap().is_none());
        assert_eq!(store.names().unwrap(), [KEY, LEFT]);
        assert!(state.left("http://b").unwrap().is_none() && state.left("http://a").unwrap().is_some());
        state.gone().unwrap();
        assert!(store.names().unwrap().is_empty());
    }

    #[test]
    fn an_identity_survives_and_belongs_to_one_server() {
        let (state, _) = state();
        assert!(state.identity("http://a").unwrap().is_none());
        state.save_identity(&identity("http://a")).unwrap();
        assert_eq!(state.identity("http://a").unwrap().unwrap().client, ClientId::from_random([1; 16]));
        assert!(matches!(state.identity("http://b"), Err(ClientError::ForeignState { .. })));
        state.save_identity(&identity("http://b")).unwrap();
        assert!(state.identity("http://b").unwrap().is_some(), "a new identity replaces the old one");
    }

    #[test]
    fn a_damaged_entry_is_ignored_and_a_damaged_model_is_another_one() {
        let (state, store) = state();
        store.put(IDENTITY, b"{\"server\":", Durability::Process).unwrap();
        assert!(state.identity("http://a").unwrap().is_none());
        let slot = Slot::of(None);
        state.save_model(&slot, b"weights").unwrap();
        let weights = Sha256Hash::of(b"weights");
        assert_eq!(state.cached_model(&slot).unwrap(), Some((weights, b"weights".to_vec())));
        store.put(&slot.model(), b"weighty", Durability::Process).unwrap();
        assert_ne!(state.cached_model(&slot).unwrap().unwrap().0, weights);
    }

    fn job() -> JobId {
        JobId::from_random([5; 16])
    }

    fn left_by(round: u32) -> ClientState {
        let vectors = BTreeMap::from([("residual".to_owned(), vec![round as f32])]);
        ClientState { job: job(), round, model_sha256: Sha256Hash([0; 32]), vectors }
    }

    /// An update of round 1 of the job, as an earlier release has written it.
    fn pending() -> Pending {
        let assignment = serde_json::json!({
            "id": tributary_protocol::id::AssignmentId::from_random([6; 16]),
            "task": "train", "job": job(), "round": 1, "model_version": 0, "model_sha256": Sha256Hash([0; 32]),
            "plan": {
                "model": { "parameters": [{ "name": "w", "shape": [1] }] },
                "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
                "codec": "f32", "weight_max": 10,
            },
            "seed": 1, "deadline_in_ms": 1000,
        });
        let query = serde_json::json!({ "weight": 3, "loss": 0.5, "steps": 2, "train_ms": 7 });
        let work = serde_json::json!({ "update": { "query": query, "sha256": Sha256Hash::of(b"update") } });
        serde_json::from_value(serde_json::json!({ "assignment": assignment, "work": work })).unwrap()
    }

    fn finished() -> Finished {
        Finished { pending: pending(), body: Bytes::from_static(b"update"), begun: false }
    }

    #[test]
    fn finished_work_survives_until_it_is_removed() {
        let (state, store) = state();
        assert!(state.finished().unwrap().is_none());
        state.save_finished(&finished()).unwrap();
        let read = state.finished().unwrap().unwrap();
        assert_eq!((&read.body[..], &read.pending.work, read.begun), (&b"update"[..], &pending().work, true));
        state.save_pending(&Pending { failures: 3, ..pending() }).unwrap();
        assert_eq!(state.finished().unwrap().unwrap().pending.failures, 3);
        store.put(UPDATE, b"downdate", Durability::Process).unwrap();
        assert!(state.finished().unwrap().is_none(), "its body is damaged");
        assert_eq!(store.get(PENDING).unwrap(), None);
    }

    #[test]
    fn a_client_state_is_replaced_when_its_update_is_accepted_and_only_then() {
        let (state, _) = state();
        let round = || state.client_state(job()).map(|state| state.round);
        state.save_next_state(Some(&left_by(1))).unwrap();
        assert_eq!(round(), None);
        state.accepted(&pending()).unwrap();
        assert_eq!(round(), Some(1));
        state.accepted(&pending()).unwrap();
        assert_eq!(round(), Some(1), "accepted once more after a kill");
        state.save_next_state(Some(&left_by(2))).unwrap();
        state.remove_finished().unwrap();
        state.accepted(&pending()).unwrap();
        assert_eq!(round(), Some(1), "the update of round 2 was refused");
        state.save_next_state(Some(&left_by(3))).unwrap();
        state.save_next_state(None).unwrap();
        state.accepted(&pending()).unwrap();
        assert_eq!(round(), Some(1), "an update without a state replaces none");
    }

    #[test]
    fn a_state_of_another_job_and_a_damaged_one_count_as_none() {
        let (state, store) = state();
        let other = ClientState { job: JobId::from_random([8; 16]), ..left_by(1) };
        for file in [other.to_bytes(), b"no state".to_vec()] {
            store.put(&state_entry(job()), &file, Durability::Process).unwrap();
            assert_eq!(state.client_state(job()), None);
        }
    }
}
