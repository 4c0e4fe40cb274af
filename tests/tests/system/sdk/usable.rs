//! The model that an app uses between two sessions, and after a session that died.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::store::{Durability, StoreError};
use tributary_client::{Client, HttpTransport, LayerTrainer, Locked, Outcome, Store};
use tributary_protocol::operator::Job;

use super::personal::personal;
use super::session;
use crate::support::{JumpingClock, World, job_file, sdk_client};

const RAW: [f64; 2] = [0.75, -0.5];

fn network(personal: &[&str]) -> Value {
    let mut file = job_file(&json!({ "training": { "optimizer": { "learning_rate": 0.5 } } }));
    let layers = json!([{ "kind": "linear", "out_features": 2 }]);
    file["model"] = json!({ "input": [2], "layers": layers, "personal": personal });
    file
}

fn trainer() -> LayerTrainer {
    let (inputs, classes) = (vec![0.5, -1.0, 1.0, 0.25, -0.75, 0.5], Targets::Classes(vec![0, 1, 1]));
    LayerTrainer::new(Arc::new(MemoryExamples::new(vec![2], inputs, classes).unwrap()))
}

/// What a linear layer with these weights and biases says of [`RAW`].
fn outputs(weights: &[f32], biases: &[f32]) -> Vec<f64> {
    let sum = |row: &[f32]| row.iter().zip(RAW).map(|(weight, raw)| f64::from(*weight) * raw).sum::<f64>();
    weights.chunks(2).zip(biases).map(|(row, bias)| f64::from(*bias) + sum(row)).collect()
}

fn are_near(got: &[f32], wanted: &[f64]) -> bool {
    got.len() == wanted.len() && got.iter().zip(wanted).all(|(got, wanted)| (f64::from(*got) - wanted).abs() < 1e-6)
}

/// Goal: the device's own layers take part in its predictions. Method: two rounds of a client with personal biases;
/// its outputs are those of the shared weights that it downloaded last with the biases in its folder.
#[tokio::test]
async fn a_client_predicts_with_its_own_personal_layers() {
    let world = World::start().await;
    let job: Job = world.create_job(&network(&["layers.0.bias"])).await.ok();
    let folder = TempDir::new().unwrap();
    let client = sdk_client(&world, folder.path());
    assert!(client.model("steps").unwrap().is_none());
    let mut seen = Vec::new();
    for round in 1..=2u32 {
        let outcome = session(&world, &client, &mut trainer()).await.unwrap();
        assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
        let [Some(own), None] = personal(folder.path(), job.head.id) else { panic!("no personal values are kept") };
        let shared = world.weights(job.head.id, round - 1).await;
        assert_ne!(own, shared[..2], "they have learned");
        // A client of a later process, without a way to the coordinator.
        let offline = Client::builder("http://127.0.0.1:1", world.enrolment.clone()).state_dir(folder.path());
        let model = offline.build().unwrap().model("steps").unwrap().unwrap();
        assert_eq!(model.card().version, round - 1);
        let names: Vec<_> =
            model.card().model.parameters().unwrap().specs().iter().map(|one| one.name.clone()).collect();
        let place = |name: &str| names.iter().position(|one| one == name).unwrap();
        let weights = if place("layers.0.weight") < place("layers.0.bias") { &shared[..4] } else { &shared[2..] };
        let told = model.predict(&RAW).unwrap().outputs;
        assert!(are_near(&told, &outputs(weights, &own)), "{told:?}");
        seen.push(told);
    }
    assert_ne!(seen[0], seen[1]);
}

/// A store that remembers what it held whenever a process could have died: after each operation. Stores replace an
/// entry in one step, and a download is in none of the entries that predict before it has arrived.
#[derive(Debug, Default)]
pub(super) struct Remembers {
    entries: Mutex<BTreeMap<String, Vec<u8>>>,
    pub(super) moments: Mutex<Vec<BTreeMap<String, Vec<u8>>>>,
}

impl Remembers {
    pub(super) fn of(entries: BTreeMap<String, Vec<u8>>) -> Arc<Self> {
        Arc::new(Self { entries: Mutex::new(entries), moments: Mutex::default() })
    }

    fn moment(&self) {
        self.moments.locked().push(self.entries.locked().clone());
    }
}

impl Store for Remembers {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.entries.locked().get(name).cloned())
    }

    fn put(&self, name: &str, value: &[u8], _: Durability) -> Result<(), StoreError> {
        self.entries.locked().insert(name.to_owned(), value.to_vec());
        self.moment();
        Ok(())
    }

    fn append(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.entries.locked().entry(name.to_owned()).or_default().extend_from_slice(bytes);
        self.moment();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        let Some(value) = self.entries.locked().remove(from) else { return Ok(false) };
        self.entries.locked().insert(to.to_owned(), value);
        self.moment();
        Ok(true)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.entries.locked().remove(name);
        self.moment();
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.entries.locked().keys().cloned().collect())
    }

    fn place(&self, name: &str) -> String {
        format!("entry {name:?}")
    }
}

pub(super) fn client_of(world: &World, store: Arc<Remembers>) -> Client {
    let builder = Client::builder(world.server(), world.enrolment.clone()).store(store);
    let transport = Arc::new(HttpTransport::new(world.http.clone()));
    builder.transport(transport).clock(Arc::new(JumpingClock::default())).build().unwrap()
}

/// Goal: a process that dies at any moment of a session leaves a device that predicts with the old or the new version.
/// Method: a session downloads a version over the one before; a client predicts with what the store held each time.
#[tokio::test]
async fn a_client_that_died_at_any_moment_predicts_with_the_old_or_the_new_version() {
    let world = World::start().await;
    let job: Job = world.create_job(&network(&[])).await.ok();
    let store = Remembers::of(BTreeMap::new());
    session(&world, &client_of(&world, Arc::clone(&store)), &mut trainer()).await.unwrap();
    let before = store.moments.locked().len();
    session(&world, &client_of(&world, Arc::clone(&store)), &mut trainer()).await.unwrap();

    let mut expected = Vec::new();
    for version in 0..2 {
        let body = world.model_file(job.head.id, version).await;
        let model = tributary_protocol::safetensors::model_from_bytes(&body).unwrap();
        let tensor = |name: &str| model.tensor(model.parameters().index_of(name).unwrap());
        expected.push(outputs(tensor("layers.0.weight"), tensor("layers.0.bias")));
    }
    assert_ne!(expected[0], expected[1]);
    let moments: Vec<_> = store.moments.locked()[before - 1..].to_vec();
    assert!(moments.len() > 10, "only {} moments", moments.len());
    let mut versions = Vec::new();
    for entries in moments {
        let names: BTreeSet<String> = entries.keys().cloned().collect();
        let client = client_of(&world, Remembers::of(entries));
        let model = client.model("steps").unwrap().unwrap_or_else(|| panic!("no model with {names:?}"));
        let version = model.card().version as usize;
        let told = model.predict(&RAW).unwrap().outputs;
        assert!(are_near(&told, &expected[version]), "version {version}: {told:?} with {names:?}");
        versions.push(version);
    }
    assert!(versions.is_sorted() && versions[0] == 0 && versions.ends_with(&[1]), "{versions:?}");
}

/// Goal: what a disk damaged is never taken for a model. Method: each entry of a client's folder is cut or changed at
/// any byte; the client predicts as before, or has no model, or says that it cannot.
#[tokio::test]
async fn a_damaged_folder_gives_the_same_model_or_none() {
    let world = World::start().await;
    world.create_job(&network(&[])).await.ok::<Job>();
    let store = Remembers::of(BTreeMap::new());
    session(&world, &client_of(&world, Arc::clone(&store)), &mut trainer()).await.unwrap();
    let whole = store.entries.locked().clone();
    let told = |entries| client_of(&world, Remembers::of(entries)).model("steps").ok().flatten();
    let good = told(whole.clone()).unwrap().predict(&RAW).unwrap();
    let (mut same, mut none) = (0, 0);
    for (name, bytes) in &whole {
        let mut damaged: Vec<Vec<u8>> = (0..bytes.len()).map(|length| bytes[..length].to_vec()).collect();
        damaged.extend((0..bytes.len()).map(|place| {
            let mut bytes = bytes.clone();
            bytes[place] ^= 1;
            bytes
        }));
        for bytes in damaged {
            let mut entries = whole.clone();
            entries.insert(name.clone(), bytes);
            match told(entries) {
                None => none += 1,
                Some(model) => {
                    assert_eq!(model.predict(&RAW).unwrap(), good, "{name}");
                    same += 1;
                }
            }
        }
    }
    assert!(same > 0 && none > 0, "{same} times the same, {none} times none");
}
