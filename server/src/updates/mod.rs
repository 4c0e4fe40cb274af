//! The way in: updates from their first byte to the sum of their round.
//!
//! | part | what it does |
//! |---|---|
//! | `upload` | receives an update: a small one is held in memory, a large one is stored and added while it arrives |
//! | [`claims`] | one request at a time sends an update |
//! | [`budget`] | memory that updates in flight share |
//! | [`sums`] | the running sums of open rounds |
//! | `decoding` | decodes an update in turns, so that no thread is kept for long |
//! | `fold` | decodes an update in flight into its sum, and out of it |
//! | `parts` | parts in the sum of a shard whose updates never became whole |
//! | `partial` | the sums of relays, as bodies |
//! | [`stored`] | the one reader of accepted updates |
//! | `rebuild` | adds what a sum lacks from the stored updates |

pub mod budget;
pub mod claims;
mod decoding;
pub(crate) mod figures;
pub(crate) mod fold;
pub(crate) mod partial;
pub(crate) mod parts;
pub(crate) mod rebuild;
pub mod stored;
pub mod sums;
pub(crate) mod upload;

use std::sync::Arc;

use crate::lifecycle::acceptance::Acceptance;
use crate::metrics::Metrics;
use budget::UploadMemory;
use claims::Claims;
use sums::Sums;

/// What this coordinator knows of updates on their way.
#[derive(Debug)]
pub struct Updates {
    /// Sums of open rounds.
    pub sums: Sums,
    /// Which request sends which update.
    pub claims: Arc<Claims>,
    /// Stores accepted reports.
    pub acceptance: Arc<Acceptance>,
    /// Memory of updates in flight. Further ones wait, their bodies unread.
    pub budget: UploadMemory,
}

impl Updates {
    /// None yet. Updates in flight may take `memory` bytes together.
    pub fn new(memory: usize, metrics: &Metrics) -> Self {
        let budget = UploadMemory::new(memory, metrics.uploads());
        Self { sums: Sums::default(), claims: Arc::default(), acceptance: Arc::default(), budget }
    }
}
