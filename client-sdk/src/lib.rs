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
//! | [`client`] | [`Builder`] and [`Client`]: settings, one session, the loop of sessions |
//! | [`outcome`], [`error`] | how a session ends |
//! | [`host`] | what the app says about the device: may the session continue? |
//! | [`trainer`] | local training as a trait, for layer lists, and for modules of burn |
//! | [`examples`] | example sets: in memory, from CSV, from IDX files |
//! | [`store`] | what is kept between sessions, and where: [`FileStore`], [`MemoryStore`] |
//! | [`keys`] | the device's key pair and its certificate: [`KeyStore`], [`StoredKey`] |
//! | [`attest`] | what the platform says about the device |
//! | [`transport`] | how requests reach the coordinator: [`HttpTransport`] |
//! | [`clock`] | time as an argument |
//! | `session` | what a session does next (a value without I/O), and the loop that does it |
//! | `tasks` | what a client does for an assignment: train, evaluate |
//! | `models` | the model of an assignment: cached, cached plus deltas, or downloaded |
//!
//! A session goes through them in this order: `session` asks `transport` for an assignment and `models` for its model,
//! runs a task with the app's `trainer`, stores the result in `store` and delivers it over `transport`.

#![warn(missing_docs)]

pub mod attest;
pub mod client;
pub mod clock;
pub mod error;
pub mod examples;
pub mod host;
pub mod keys;
mod models;
pub mod outcome;
mod session;
pub mod store;
mod tasks;
pub mod trainer;
pub mod transport;

pub use attest::{Attest, AttestError, Attestation};
/// The burn that this SDK was built with. An app that brings its own network must use the same one.
#[cfg(feature = "burn")]
pub use burn;
pub use client::{Builder, Client};
pub use error::ClientError;
pub use host::{AlwaysOn, Host};
pub use keys::{ClientCertificate, KeyError, KeyStore, StoredKey};
pub use outcome::Outcome;
pub use store::{FileStore, MemoryStore, Store};
#[cfg(feature = "burn")]
pub use trainer::BurnTrainer;
#[cfg(feature = "layers")]
pub use trainer::LayerTrainer;
pub use trainer::{Budget, Correction, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
pub use transport::{HttpTransport, Transport, Trust, TrustError, is_exposed};
pub use tributary_protocol::classes::ClassCounts;
pub use tributary_protocol::metrics::{MetricName, Metrics, MetricsError};

/// The Rust code of the README compiles.
#[cfg(all(doctest, feature = "layers"))]
#[doc = include_str!("../../README.md")]
struct Readme;
