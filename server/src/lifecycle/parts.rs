//! Parts of an update: each is stored when it comes, and the last one makes the report of its assignment whole.

use tributary_protocol::hash::Sha256Hasher;
use tributary_protocol::update::{UpdateError, UpdateLimits};

use super::assignments::Refusal;
use crate::db::{AssignmentRow, PartRow, Report, RoundRow, Tx};

/// A part that a client has sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewPart {
    pub(crate) row: PartRow,
    /// Parts of its update.
    pub(crate) count: u16,
}

/// What the transaction of a part made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// The same part had come before. Nothing was changed.
    Before,
    /// Other parts are to come.
    More,
    /// All parts have come.
    Whole,
}

/// Stores a part. With the last one, the report is that of the whole update: its norm, and as its hash that of the
/// hashes of its parts.
///
/// # Errors
/// [`Refusal::Conflict`] for other bytes than those that came before, [`Refusal::Unfit`] where the parts of an update
/// say different weights, or are longer together than the round allows.
pub(super) async fn come(
    tx: &mut Tx,
    (assignment, round): (&AssignmentRow, &RoundRow),
    part: &NewPart,
    report: &mut Report,
) -> Result<Came, Refusal> {
    let mut parts = tx.parts(assignment.id).await?;
    if let Some(before) = parts.iter().find(|before| before.part == part.row.part) {
        let is_same = before.sha256 == part.row.sha256;
        return if is_same { Ok(Came::Before) } else { Err(Refusal::Conflict(assignment.id)) };
    }
    if let Some(other) = parts.iter().find(|other| other.weight != part.row.weight) {
        let (one, two) = (part.row.weight, other.weight);
        return Err(Refusal::Unfit(format!("its parts say different weights, {one} and {two}")));
    }
    tx.insert_part(assignment.id, &part.row).await?;
    parts.push(part.row);
    if parts.len() < usize::from(part.count) {
        tx.count_upload(assignment.id, assignment.round(), report.traffic.bytes_up, false).await?;
        tx.store_times(assignment.id, report.times).await?;
        return Ok(Came::More);
    }
    parts.sort_unstable_by_key(|part| part.part);
    let norm = parts.iter().map(|part| part.squares).sum::<f64>().sqrt();
    let limits =
        UpdateLimits { norm_max: round.norm_max.unwrap_or(f64::INFINITY), ..UpdateLimits::of_magnitude(f32::MAX) };
    if !limits.allow_norm(norm) {
        let long = UpdateError::NormTooLarge { norm, norm_max: limits.norm_max };
        return Err(Refusal::Unfit(long.to_string()));
    }
    report.figures.norm = report.figures.norm.map(|_| norm);
    let mut hasher = Sha256Hasher::new();
    parts.iter().for_each(|part| hasher.update(&part.sha256.0));
    report.sha256 = hasher.finish();
    Ok(Came::Whole)
}
