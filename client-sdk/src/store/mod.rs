//! What a client keeps from one session to the next, and where.
//!
//! | part | what it is |
//! |---|---|
//! | [`Store`] | the trait: named entries of bytes |
//! | `FileStore` | one file per entry in a directory; the default with the feature `native` |
//! | [`MemoryStore`] | in memory, for tests and simulations |
//! | `claim` | a directory is one process's |
//! | `state` | the entries of the SDK, with their types: identity, finished work |
//! | `slots`, `cards` | the cached model of each example set, and what it is |
//! | `client_state` | what a job keeps on the device between rounds, such as the residual of error feedback |
//! | `kept` | the vectors of a client state, without what an abandoned round changed |
//! | `suspended` | where a training was suspended |
//! | `partial` | a download that is not complete |

pub(crate) mod cards;
#[cfg(feature = "native")]
mod claim;
pub(crate) mod client_state;
mod contract;
#[cfg(feature = "native")]
mod files;
pub(crate) mod kept;
mod memory;
pub(crate) mod partial;
pub(crate) mod slots;
pub(crate) mod state;
pub(crate) mod suspended;
#[cfg(test)]
mod tests;

pub use contract::{Durability, Store, StoreError};
#[cfg(feature = "native")]
pub use files::FileStore;
pub use memory::MemoryStore;
