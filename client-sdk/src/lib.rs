//! The Tributary SDK: federated learning inside a device app.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use tributary_client::examples::{MemoryExamples, Targets};
//! use tributary_client::{AlwaysOn, BurnTrainer, Client, Outcome};
//!
//! # let (inputs, labels): (Vec<f32>, Vec<u32>) = (vec![0.0; 64], vec![0]);
//! let client = Client::builder("https://fl.example.org", "tributary_enrolment_..").state_dir("state").build()?;
//! let examples = MemoryExamples::new(vec![64], inputs, Targets::Classes(labels))?;
//! let mut trainer = BurnTrainer::new(Arc::new(examples));
//! match client.run_once(&mut trainer, &AlwaysOn).await? {
//!     Outcome::Contributed { round, .. } => println!("contributed to round {round}"),
//!     other => println!("come back in {:?}", other.retry_after()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! One call of [`Client::run_once`] is one session: it checks in, does at most one round's work, and says when to come
//! back. That is what job schedulers of phones want. [`Client::run`] repeats it for daemons. What a session has
//! achieved is on disk, so a process that is killed after training uploads at its next start instead of training again.
//!
//! | module | what it is |
//! |---|---|
//! | [`client`] | the builder, one session, the loop around it |
//! | [`host`] | what the app says about the device: may it go on? |
//! | [`trainer`] | local training as a trait, and burn's implementation |
//! | [`examples`] | example sets: in memory, from CSV, from IDX files |
//! | [`error`] | what can go wrong |

pub mod client;
pub mod clock;
pub mod error;
pub mod examples;
pub mod host;
mod models;
mod retry;
mod session;
mod state;
pub mod trainer;
mod transfer;
mod transport;

/// The burn that this SDK was built with: networks of an app's own must use the same one.
#[cfg(feature = "burn")]
pub use burn;
pub use client::{Builder, Client, Outcome};
pub use error::ClientError;
pub use host::{AlwaysOn, Host};
#[cfg(feature = "burn")]
pub use trainer::BurnTrainer;
pub use trainer::{EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};

/// The Rust code of the README compiles.
#[cfg(all(doctest, feature = "burn"))]
#[doc = include_str!("../../README.md")]
struct Readme;
