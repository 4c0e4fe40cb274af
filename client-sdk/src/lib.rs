//! The Tributary SDK: federated learning inside a device app.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use tributary_client::examples::{MemoryExamples, Targets};
//! use tributary_client::{AlwaysOn, Client, LayerTrainer, Outcome};
//!
//! # let (inputs, labels): (Vec<f32>, Vec<u32>) = (vec![0.0; 64], vec![0]);
//! let client = Client::builder("https://fl.example.org", "tributary_enrolment_..").state_dir("state").build()?;
//! let examples = MemoryExamples::new(vec![64], inputs, Targets::Classes(labels))?;
//! let mut trainer = LayerTrainer::new(Arc::new(examples));
//! match client.run_once(&mut trainer, &AlwaysOn).await? {
//!     Outcome::Contributed { round, .. } => println!("contributed to round {round}"),
//!     other => println!("next session in {:?}", other.retry_after()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! One call of [`Client::run_once`] is one session: it checks in, does the work of at most one round, and says how long
//! to wait before the next session, as the job schedulers of phones expect. [`Client::run`] repeats it for daemons. A
//! session stores its result before it sends it: a process that is killed after training uploads at its next start
//! instead of training again.
//!
//! # Map
//!
//! | module | what it is |
//! |---|---|
//! | [`client`] | [`Builder`], [`Settings`] and [`Client`]: what a client is made from, one session, the loop of sessions |
//! | [`outcome`], [`error`] | how a session ends |
//! | [`progress`] | what a session is doing |
//! | [`pausing`] | training that lets its thread go at each checkpoint |
//! | [`host`], `conditions` | what the app says about the device: may the session continue? |
//! | `blocking`, `cancel` | sessions that block their thread, and their end from outside |
//! | [`trainer`] | local training as a trait, for layer lists, for modules of burn, and for several example sets |
//! | [`examples`] | example sets: in memory, from CSV, from IDX files |
//! | [`inputs`] | from raw examples to what a network reads, and the sums that fix means and deviations |
//! | [`store`] | what is kept between sessions, and where: `FileStore`, [`MemoryStore`] |
//! | [`keys`] | the device's key pair and its certificate: [`KeyStore`], `StoredKey` |
//! | [`attest`] | what the platform says about the device |
//! | [`transport`] | how requests reach the coordinator: `HttpTransport` |
//! | [`clock`] | time as an argument |
//! | `platform` | what the machine gives: an operating system (feature `native`), or nothing, as in a browser |
//! | `locked` | locks that stay usable after a panic |
//! | `floor` | what an app demands of every job |
//! | [`secure`] | a member of a group whose updates are summed under masks |
//! | `group` | links between the members of a group that send to each other (feature `group`) |
//! | [`relay`] | the calls of a relay to its parent coordinator |
//! | `session` | what a session does next (a value without I/O), and the loop that does it |
//! | `tasks` | what a client does for an assignment: train, evaluate, describe |
//! | `predict` | a network that only predicts, and its export as an ONNX file |
//! | `kernels` | inner loops over vectors, for training and prediction |
//! | `models` | the model of an assignment: cached, cached plus deltas, or downloaded |
//!
//! A session goes through them in this order: `session` asks `transport` for an assignment and `models` for its model,
//! runs a task with the app's `trainer`, stores the result in `store` and delivers it over `transport`.
//!
//! On `wasm32-unknown-unknown` the app brings transport, store and clock, and says where random bytes come from: in a
//! browser, with `getrandom = { version = "..", features = ["wasm_js"] }`, of this crate's version, among its own
//! dependencies.

#![warn(missing_docs)]

pub mod attest;
#[cfg(feature = "native")]
pub mod blocking;
mod cadence;
#[cfg(feature = "native")]
pub mod cancel;
pub mod client;
pub mod clock;
#[cfg(feature = "native")]
pub mod conditions;
pub mod error;
pub mod examples;
#[cfg(test)]
mod fixtures;
mod floor;
#[cfg(feature = "group")]
pub mod group;
pub mod host;
pub mod inputs;
#[cfg(feature = "layers")]
mod kernels;
pub mod keys;
mod locked;
mod models;
#[cfg(all(test, feature = "layers"))]
mod networks;
pub mod outcome;
pub mod pausing;
mod platform;
#[cfg(feature = "layers")]
pub mod predict;
pub mod progress;
pub mod relay;
pub mod releases;
pub mod secure;
mod session;
pub mod store;
pub mod table;
mod tasks;
pub mod trainer;
pub mod transport;

pub use attest::{Attest, AttestError, Attestation};
#[cfg(feature = "native")]
pub use blocking::BlockingClient;
/// The burn that this SDK was built with. An app that brings its own network must use the same one.
#[cfg(feature = "burn")]
pub use burn;
#[cfg(feature = "native")]
pub use cancel::CancelToken;
pub use client::{Builder, Client, Settings};
#[cfg(feature = "native")]
pub use conditions::{ConditionedHost, Conditions, Device, Thermal, Unmet};
pub use error::ClientError;
pub use floor::PrivacyFloor;
pub use host::{AlwaysOn, Host};
#[cfg(feature = "native")]
pub use keys::StoredKey;
pub use keys::{ClientCertificate, KeyError, KeyStore, certificate_request};
/// For the packages of this repository.
#[doc(hidden)]
pub use locked::Locked;
pub use outcome::Outcome;
pub use pausing::PausingTrainer;
pub use progress::Progress;
pub use relay::{NextOrder, Uplink};
pub use releases::{Freshness, ReleasedModel};
#[cfg(feature = "native")]
pub use store::FileStore;
pub use store::{MemoryStore, Store};
pub use table::{Cell, Table};
#[cfg(feature = "burn")]
pub use trainer::BurnTrainer;
#[cfg(feature = "wgpu")]
pub use trainer::Gpu;
#[cfg(feature = "layers")]
pub use trainer::{AcceleratedTrainer, LayerTrainer};
pub use trainer::{
    Budget, Checkpoint, Checkpoints, Correction, DescribeTask, EvaluateTask, Evaluated, NamedTensor, Sets, SetsError,
    StopFlags, TrainError, TrainTask, Trained, Trainer,
};
pub use transport::Transport;
#[cfg(feature = "native")]
pub use transport::{HttpTransport, Trust, TrustError, is_exposed};
/// Types of the protocol in signatures of this crate.
pub use tributary_protocol::classes::ClassCounts;
pub use tributary_protocol::device::{Assignment, AssignmentStatus, DeviceState, OpenJob, WaitsFor};
pub use tributary_protocol::example_sets::{ExampleSet, ExampleSets};
pub use tributary_protocol::id::{AssignmentId, ClientId, Name};
pub use tributary_protocol::inputs::{Description, Inputs};
pub use tributary_protocol::layers::ModelSpec;
pub use tributary_protocol::model::Model;
pub use tributary_protocol::plan::{Algorithm, Loss, Training};
pub use tributary_protocol::problem::{Problem, ProblemType};
pub use tributary_protocol::relay::{Delivered, Part, RelayTerms, SumQuery};
pub use tributary_protocol::scalars::{ScalarName, Scalars, ScalarsError};
pub use tributary_protocol::seed::Seed;

/// The Rust code of the README compiles.
#[cfg(all(doctest, feature = "layers", feature = "native"))]
#[doc = include_str!("../../README.md")]
struct Readme;
