//! What a client keeps on disk: who it is, the models it has, and work that is done but not delivered.
//!
//! Every file is replaced as a whole: written beside its place, then renamed. A process that is killed leaves the old file
//! or the new one, never half of one. Only the identity is synced to the disk too: after a power failure it could not be
//! had again, while a damaged model or update is noticed by its hash and fetched or trained anew.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tributary_protocol::device::{Assignment, EvaluationReport, UpdateQuery};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, JobId, Name, Secret};
use tributary_protocol::update::Memory;

use crate::ClientError;

/// Who the client is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) server: String,
    pub(crate) client: ClientId,
    pub(crate) secret: Secret,
    pub(crate) population: Name,
}

/// Work that is done but not delivered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) assignment: Assignment,
    pub(crate) work: Work,
    /// Sessions in which it was answered with nonsense.
    #[serde(default)]
    pub(crate) failures: u32,
}

/// The result to deliver.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// An update; its file lies beside, with this hash.
    Update { query: UpdateQuery, sha256: Sha256Hash },
    /// An evaluation.
    Evaluation(EvaluationReport),
}

/// What the pending update leaves out.
const NEXT_MEMORY: &str = "memory-next.safetensors";

/// Where it is kept what the updates of a job left out.
fn memory_name(job: JobId) -> String {
    format!("memory-{job}.safetensors")
}

/// A model file that has not come to its end: the hash of the whole as text, then its bytes so far.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    sha256: Sha256Hash,
}

impl Partial {
    /// The bytes so far; none where another model's are there.
    pub(crate) fn read(&self) -> Vec<u8> {
        let Ok(Some(mut file)) = read(&self.path) else { return Vec::new() };
        let whose = self.sha256.to_string();
        if file.starts_with(whose.as_bytes()) {
            return file.split_off(whose.len());
        }
        let _ = self.forget();
        Vec::new()
    }

    /// Adds what has come. A file that cannot take all of it is deleted.
    pub(crate) fn append(&self, data: &[u8]) -> Result<(), ClientError> {
        let append = || {
            if let Some(directory) = self.path.parent() {
                fs::create_dir_all(directory)?;
            }
            let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.path)?;
            if file.metadata()?.len() == 0 {
                file.write_all(self.sha256.to_string().as_bytes())?;
            }
            file.write_all(data)
        };
        append().map_err(|source| {
            let _ = self.forget();
            ClientError::State { path: self.path.clone(), source }
        })
    }

    /// Deletes it.
    pub(crate) fn forget(&self) -> Result<(), ClientError> {
        remove(&self.path)
    }
}

/// The state directory.
#[derive(Clone, Debug)]
pub(crate) struct State {
    directory: PathBuf,
}

impl State {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Who the client is, if it enrolled with this server.
    pub(crate) fn identity(&self, server: &str) -> Result<Option<Identity>, ClientError> {
        let path = self.path("identity.json");
        let identity: Option<Identity> = read_json(&path)?;
        match identity {
            Some(identity) if identity.server != server => {
                Err(ClientError::ForeignState { path, server: identity.server })
            }
            identity => Ok(identity),
        }
    }

    pub(crate) fn save_identity(&self, identity: &Identity) -> Result<(), ClientError> {
        let path = self.write("identity.json", &json(identity))?;
        sync(&path, &self.directory).map_err(|source| ClientError::State { path, source })
    }

    /// Work to deliver. What cannot be read is dropped: the coordinator has closed its round, or will.
    pub(crate) fn pending(&self) -> Result<Option<(Pending, Vec<u8>)>, ClientError> {
        let path = self.path("pending.json");
        let Some(pending) = read_json::<Pending>(&path)? else {
            remove(&path)?;
            return Ok(None);
        };
        let body = match &pending.work {
            Work::Evaluation(_) => Some(Vec::new()),
            Work::Update { sha256, .. } => {
                read(&self.path("update.safetensors"))?.filter(|body| Sha256Hash::of(body) == *sha256)
            }
        };
        match body {
            Some(body) => Ok(Some((pending, body))),
            None => {
                self.delivered()?;
                Ok(None)
            }
        }
    }

    /// Stores work before it is delivered. The update's file comes first: the pending file says that it is whole.
    pub(crate) fn save_pending(&self, pending: &Pending, body: &[u8]) -> Result<(), ClientError> {
        if matches!(pending.work, Work::Update { .. }) {
            self.write("update.safetensors", body)?;
        }
        self.write("pending.json", &json(pending)).map(drop)
    }

    /// Stores that delivering it failed once more.
    pub(crate) fn count_failure(&self, pending: &Pending, failures: u32) -> Result<(), ClientError> {
        self.write("pending.json", &json(&Pending { failures, ..pending.clone() })).map(drop)
    }

    /// Nothing is pending any more.
    pub(crate) fn delivered(&self) -> Result<(), ClientError> {
        remove(&self.path("pending.json"))?;
        remove(&self.path("update.safetensors"))?;
        remove(&self.path(NEXT_MEMORY))
    }

    /// What earlier updates of a job left out; none when it cannot be read, which costs a little learning.
    pub(crate) fn memory(&self, job: JobId) -> Option<Memory> {
        let file = read(&self.path(&memory_name(job))).ok().flatten()?;
        let memory = Memory::from_bytes(&file);
        memory.inspect_err(|error| tracing::warn!(%error, "what earlier updates left out cannot be read")).ok()
    }

    /// Stores what an update leaves out, to be remembered once the update is accepted.
    pub(crate) fn save_next_memory(&self, memory: Option<&Memory>) -> Result<(), ClientError> {
        match memory {
            Some(memory) => self.write(NEXT_MEMORY, &memory.to_bytes()).map(drop),
            None => remove(&self.path(NEXT_MEMORY)),
        }
    }

    /// The update of a job is accepted: what it left out is for the next one. Doing it twice changes nothing.
    pub(crate) fn remember(&self, job: JobId) -> Result<(), ClientError> {
        let (next, path) = (self.path(NEXT_MEMORY), self.path(&memory_name(job)));
        match fs::rename(&next, &path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(ClientError::State { path, source }),
            _ => Ok(()),
        }
    }

    /// The cached model, a body as it came, and its hash: that says which version it is, and whether it is whole.
    pub(crate) fn cached_model(&self) -> Result<Option<(Sha256Hash, Vec<u8>)>, ClientError> {
        let body = read(&self.path("model.safetensors"))?;
        Ok(body.map(|body| (Sha256Hash::of(&body), body)))
    }

    /// Keeps the newest model file, in the place of the one before.
    pub(crate) fn save_model(&self, body: &[u8]) -> Result<(), ClientError> {
        self.write("model.safetensors", body).map(drop)
    }

    /// What has come of the model file of this hash.
    pub(crate) fn partial_model(&self, sha256: Sha256Hash) -> Partial {
        Partial { path: self.path("model.partial"), sha256 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, ClientError> {
        let path = self.path(name);
        let failed = |source| ClientError::State { path: path.clone(), source };
        fs::create_dir_all(&self.directory).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.directory).map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(path)
    }
}

/// Makes a file and its name durable; where directories cannot be opened (Windows) the file system does it by itself.
fn sync(path: &Path, directory: &Path) -> std::io::Result<()> {
    fs::File::open(path)?.sync_all()?;
    if cfg!(unix) { fs::File::open(directory)?.sync_all() } else { Ok(()) }
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("our own types have no map with keys that JSON lacks")
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, ClientError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ClientError::State { path: path.to_owned(), source }),
    }
}

/// A file's value; none when it is missing or was written by another release.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ClientError> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "this file cannot be read and is ignored");
            Ok(None)
        }
    }
}

fn remove(path: &Path) -> Result<(), ClientError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(ClientError::State { path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::id::SecretKind;

    use super::*;

    fn identity(server: &str) -> Identity {
        Identity {
            server: server.into(),
            client: ClientId::from_random([1; 16]),
            secret: Secret::from_random(SecretKind::Client, [2; 32]),
            population: "p".parse().unwrap(),
        }
    }

    #[test]
    fn an_identity_survives_and_belongs_to_one_server() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::new(directory.path().join("deep/state"));
        assert!(state.identity("http://a").unwrap().is_none());
        state.save_identity(&identity("http://a")).unwrap();
        assert_eq!(state.identity("http://a").unwrap().unwrap().client, ClientId::from_random([1; 16]));
        assert!(matches!(state.identity("http://b"), Err(ClientError::ForeignState { .. })));
        state.save_identity(&identity("http://b")).unwrap();
        assert!(state.identity("http://b").unwrap().is_some(), "a new identity replaces the old one");
    }

    #[test]
    fn a_damaged_file_is_ignored_and_a_damaged_model_is_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::new(directory.path().to_owned());
        fs::write(directory.path().join("identity.json"), b"{\"server\":").unwrap();
        assert!(state.identity("http://a").unwrap().is_none());
        state.save_model(b"weights").unwrap();
        let weights = Sha256Hash::of(b"weights");
        assert_eq!(state.cached_model().unwrap(), Some((weights, b"weights".to_vec())));
        fs::write(directory.path().join("model.safetensors"), b"weighty").unwrap();
        assert_ne!(state.cached_model().unwrap().unwrap().0, weights);
    }

    #[test]
    fn what_came_of_a_model_is_there_for_that_model_only() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::new(directory.path().join("new"));
        let partial = |model: &[u8]| state.partial_model(Sha256Hash::of(model));
        assert!(partial(b"one").read().is_empty());
        partial(b"one").append(b"ab").unwrap();
        partial(b"one").append(b"c").unwrap();
        assert_eq!(partial(b"one").read(), b"abc");
        assert!(partial(b"two").read().is_empty(), "another model's");
        assert!(partial(b"one").read().is_empty(), "and gone with that");
        partial(b"two").append(b"d").unwrap();
        assert_eq!(partial(b"two").read(), b"d");
        partial(b"two").forget().unwrap();
        assert!(partial(b"two").read().is_empty());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, b"").unwrap();
        let error = State::new(file.join("state")).save_model(b"x").expect_err("a file is no directory");
        assert!(error.to_string().contains("file"), "{error}");
    }
}
