//! Releases: the model that an app predicts with, whether or not its device trains.
//!
//! An app asks for a **channel**, such as `stable`. What it has of the channel stays usable without a network, and
//! until a newer release is whole, checked and stored. A download that breaks off, a file with another hash and a model
//! that cannot be used leave the one before.

mod channels;
mod fetch;
mod follow;
mod model;
mod stored;

pub use follow::Freshness;
pub use model::ReleasedModel;

pub(crate) use channels::Channels;
