//! The way out: from a round's sum to the next model version, and to the files that clients download.
//!
//! | part | what it does |
//! |---|---|
//! | `version` | a new version: a set of bodies that one transaction stores |
//! | [`file`] | a file that is made of a version: a form, or a model delta |
//! | `first` | version 0: drawn from the job's seed, or uploaded |
//! | `commit` | the next version: base model plus the step of the aggregation rule |
//! | `statistics` | update statistics of a round |
//!
//! No model is ever whole in memory: all of this streams chunks.

pub(crate) mod commit;
pub(crate) mod file;
pub(crate) mod first;
pub(crate) mod statistics;
pub(crate) mod version;

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::blob::SharedParts;
pub use commit::CommitError;

/// Models that are written at the same time in a form that is not stored: each is read from beginning to end.
const FORMS_MADE_MAX: usize = 8;

#[derive(Debug)]
pub struct Models {
    /// Chunks that several downloads share.
    pub shared_parts: SharedParts,
    /// Permits for writing a model in a form that is not stored.
    pub forms_made: Arc<Semaphore>,
}

impl Default for Models {
    fn default() -> Self {
        Self { shared_parts: SharedParts::default(), forms_made: Arc::new(Semaphore::new(FORMS_MADE_MAX)) }
    }
}
