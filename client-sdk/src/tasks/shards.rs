//! The parts of an update that several coordinators add up. Its file is kept whole, and cut when it is sent.

use std::sync::Arc;

use bytes::Bytes;
use tributary_protocol::body::shrink;
use tributary_protocol::device::{Assignment, Plan};
use tributary_protocol::model::ParameterList;
use tributary_protocol::update::{Shard, cut};

use super::encode::{header_of, parameters_of};
use crate::trainer::TrainError;

/// The parameters of an update and its shards.
type Sharded = (Arc<ParameterList>, Vec<Shard>);

/// Checks before a training that its update can be cut as the plan says.
///
/// # Errors
/// [`TrainError::DoesNotFit`] if it cannot.
pub(super) fn check(assignment: &Assignment, shared: &ParameterList) -> Result<(), TrainError> {
    shards(assignment, shared).map(drop)
}

/// What is kept of an update's file until it is sent.
pub(super) fn body(file: Vec<u8>, plan: &Plan) -> Vec<u8> {
    if plan.shards.is_some() { file } else { shrink(file) }
}

/// The parts of an update's file, compressed; none where it is sent whole.
///
/// # Errors
/// [`TrainError::DoesNotFit`] if the file is no update of this plan.
pub(crate) fn update_parts(file: &[u8], assignment: &Assignment) -> Result<Option<Vec<Bytes>>, TrainError> {
    let fits = |error: &dyn std::fmt::Display| TrainError::DoesNotFit(error.to_string());
    if assignment.plan.shards.is_none() {
        return Ok(None);
    }
    let all = assignment.plan.model.parts().map_err(|error| fits(&error))?;
    let Some((parameters, shards)) = shards(assignment, all.shared())? else { return Ok(None) };
    let parts = cut(file, &parameters, &header_of(assignment), &shards).map_err(|error| fits(&error))?;
    Ok(Some(parts.into_iter().map(|part| shrink(part).into()).collect()))
}

/// The parameters of an update of these shared ones, and the plan's ranges of them.
fn shards(assignment: &Assignment, shared: &ParameterList) -> Result<Option<Sharded>, TrainError> {
    let Some(count) = assignment.plan.shards else { return Ok(None) };
    let parameters = parameters_of(assignment, shared)?;
    let vectors = parameters.total().checked_div(shared.total()).unwrap_or(1);
    let shards = Shard::all(&parameters, vectors, assignment.plan.codec, count);
    if shards.len() != usize::from(count) {
        let most = shards.len();
        return Err(TrainError::DoesNotFit(format!("an update in {count} parts, where {most} are the most")));
    }
    Ok(Some((parameters, shards)))
}
