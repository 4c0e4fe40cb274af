//! The SDK for apps in Kotlin, Swift and C: what `tributary_client` does, in types that cross a language's border.
//! There is no logic here.
//!
//! | module | what it is |
//! |---|---|
//! | `client` | a client, and one session of it |
//! | `settings` | what a client is made from |
//! | `examples` | examples and labels in memory, which the SDK trains on by itself |
//! | `trainer` | a trainer that the app brings |
//! | `sets` | examples or trainers by the names of example sets |
//! | `checkpoint` | where a training of the app was suspended |
//! | `host` | what the app says about the device |
//! | `keys` | a key pair in the device's hardware |
//! | `attest` | what the platform says about the device |
//! | `model` | a model that predicts, from a file or from the client's folder |
//! | `outcome`, `errors` | how a session ends |
//! | `table` | the rows from which an app answers analyses |
//! | `floats` | numbers as bytes |
//! | `c` | the same for C: `tributary.h` |
//!
//! UniFFI makes Kotlin and Swift of everything that is exported here; `examples/bindgen.rs` writes it. A panic inside a
//! call is caught at the border by UniFFI and by `c`: the app gets an error.

#![expect(
    unsafe_code,
    reason = "exported symbols are unsafe attributes, which UniFFI's macros write; pointers of C occur in `c` only"
)]

mod attest;
pub mod c;
mod checkpoint;
mod client;
mod errors;
mod examples;
mod floats;
mod host;
mod keys;
mod model;
mod outcome;
mod release;
mod sets;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod trainer;

pub use attest::{Attestation, Attester};
pub use checkpoint::Checkpoint;
pub use client::{Cancel, Client};
pub use errors::{CallbackError, TrainerError, TributaryError};
pub use examples::Examples;
pub use floats::Floats;
pub use host::{Conditions, Device, Host, Thermal};
pub use keys::KeyStore;
pub use model::{Model, Prediction, prepared};
pub use outcome::Outcome;
pub use release::Freshness;
pub use sets::Sets;
pub use settings::{Consent, PrivacyFloor, Settings};
pub use table::{Cell, Table};
pub use trainer::{EvaluateTask, Evaluated, Stop, Tensor, TrainTask, Trained, Trainer};

uniffi::setup_scaffolding!("tributary");
