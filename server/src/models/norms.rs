//! The norms of stored updates, where they were not stored with them.

use std::collections::HashMap;
use std::sync::Arc;

use tributary_engine::aggregate::NormOf;
use tributary_engine::job::JobSpec;
use tributary_protocol::id::AssignmentId;

use crate::db::DbError;
use crate::services::Services;
use crate::updates::stored::{StoredError, StoredUpdate, each};

/// Reads updates for their norms, or parts of updates, which go on from those before.
pub(super) async fn norms(
    services: &Services,
    spec: &Arc<JobSpec>,
    updates: &[StoredUpdate],
    before: &HashMap<AssignmentId, Vec<u64>>,
) -> Result<HashMap<AssignmentId, NormOf>, StoredError> {
    let first = spec.shard.as_ref().map_or(0, |shard| shard.range.start);
    let sink = |update: &StoredUpdate| match before.get(&update.assignment) {
        None => Ok(Some(NormOf::default())),
        Some(bits) => {
            let corrupt = || DbError::Corrupt(format!("the squares of {} are no such numbers", update.assignment));
            Ok(Some(NormOf::going_on(bits, first).ok_or_else(corrupt)?))
        }
    };
    let norms = each(services, spec, updates.to_vec(), sink, |norm, _| norm).await?;
    Ok(updates.iter().map(|update| update.assignment).zip(norms).collect())
}
