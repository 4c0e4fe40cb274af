//! Bodies of models and updates: in the database, in files beside a SQLite database, or in an object store that
//! `--blobs` names.
//!
//! With a store, a body is put there **before** the transaction that makes it count, under a key that no other attempt
//! shares; that transaction stores the key. So a row never refers to a body that is not there, a refused upload cannot
//! overwrite an accepted one, and what a crash leaves behind is an orphan that nothing refers to: [`sweep`] deletes it.
//! Without a store, small bodies are written in that same transaction.
//!
//! A body of more than one chunk is never held whole: [`Spool`] writes it chunk by chunk under a name of its own while
//! it arrives or is made, in separate transactions. The transaction that makes it count only stores which body it
//! is. In files, the chunks of a body are ranges of one file; in an object store, each is an object. A body that is
//! never made to count is deleted when its time is up ([`Blobs::clear`]).
//!
//! Each chunk and each object has a CRC-32, which reads compare. A body from an object store is compared with its
//! SHA-256 instead, because other programs can write there. Files, and the folders that lead to them, are synced once,
//! before the transaction that makes the body count: a power failure may take chunks of an unfinished upload.

mod appended;
mod blobs;
mod error;
mod open;
mod read;
mod shared;
mod spool;
mod staged;
mod store;
pub mod sweep;
mod workbench;

pub use blobs::Blobs;
pub use error::{BlobError, StoreError};
pub use open::{OpenStoreError, environment, folder_beside, open_beside, open_store};
pub use read::{Reader, StoredBody};
pub use shared::SharedChunks;
pub use spool::{Owner, Replay, Spool};
pub use staged::Staged;
pub use store::{OpenedStore, Store};
pub use workbench::Workbench;

pub use crate::db::{masked_key, model_file_key, model_key, part_key, update_key};
