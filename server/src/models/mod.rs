//! The way out: from a round's sum to the next model version, and to the files that clients download.
//!
//! | part | what it does |
//! |---|---|
//! | `version` | a new version: a set of bodies that one transaction stores |
//! | [`file`] | a file that is made of a version: a form, or a model delta |
//! | `fixed` | the versions of a job that only evaluates: copies of those of other jobs |
//! | `first` | version 0: drawn from the job's seed, or uploaded |
//! | `offer` | what a drawn client is offered: its assignment, and the files that it fetches |
//! | [`places`] | places for forms that are computed while they are sent |
//! | `growing` | a file that is written, and that may go from one coordinator to the next |
//! | `span` | the bytes of a stored file, from one of them on |
//! | `norms` | the norms of stored updates, where they were not stored with them |
//! | `gather` | the combined updates of a round: its sum, or what a rule makes of the stored updates |
//! | `companion` | vectors that belong to a version, such as the optimiser's moments |
//! | `plan` | the optimiser of a round, once it has seen the whole round |
//! | `commit` | the next version: base model plus the optimiser's step |
//! | `ranges` | the same range by range, each by the coordinator that has the sum of its shard |
//! | `write` | the bytes of its files, piece by piece |
//! | `statistics` | update statistics of a round |
//! | `whole` | a model for an evaluation here, or for the answers of an analysis |
//!
//! All but the last stream chunks: no model is whole in memory.

pub(crate) mod commit;
pub(crate) mod companion;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod first;
pub(crate) mod fixed;
pub(crate) mod gather;
mod growing;
mod norms;
pub(crate) mod offer;
pub mod places;
pub(crate) mod plan;
mod private;
pub(crate) mod ranges;
mod span;
pub(crate) mod statistics;
pub(crate) mod version;
pub(crate) mod whole;
mod write;

use std::sync::Arc;

use crate::blob::SharedChunks;
pub use error::CommitError;
use places::FormPlaces;

#[derive(Debug, Default)]
pub struct Models {
    /// Chunks that several downloads share.
    pub shared_chunks: SharedChunks,
    /// Models that are computed while they are sent.
    pub form_places: Arc<FormPlaces>,
}
