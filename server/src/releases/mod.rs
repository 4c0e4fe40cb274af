//! Releases: the models that the apps of a population predict with.
//!
//! | part | what it does |
//! |---|---|
//! | `make` | the files of a release: its model, and the differences from the release before |
//! | `known` | the releases that are out, in memory |
//! | `answer` | what a channel has for a client, and which release the client says it has |
//!
//! `engine/src/release.rs` says whom a release is meant for; `lifecycle/releases.rs` changes where one stands.

pub(crate) mod answer;
pub(crate) mod known;
pub(crate) mod make;
