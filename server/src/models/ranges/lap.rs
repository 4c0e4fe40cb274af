//! In how many laps the coordinators of a job's shards make a version, and whose turn it is.

use std::sync::Arc;

use tributary_engine::job::JobSpec;

use crate::db::RoundRow;

/// What each coordinator does at its turn. In a lap each shard has one, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lap {
    /// The norms of updates are measured, for rules that read them.
    Norms,
    /// The norms of their integers, for a private sum.
    Squares,
    /// The optimiser looks at the whole round.
    Survey,
    /// The version is made.
    Make,
}

fn laps(spec: &Arc<JobSpec>, round: &RoundRow) -> Vec<Lap> {
    let is_private = spec.noised_here().is_some();
    let needs_norms = is_private || spec.gathering(round.base_version).needs_norms();
    let surveys = spec.optimizer(round.base_version, 0).survey().is_some();
    [(needs_norms, Lap::Norms), (is_private, Lap::Squares), (surveys, Lap::Survey), (true, Lap::Make)]
        .into_iter()
        .filter_map(|(is_so, lap)| is_so.then_some(lap))
        .collect()
}

/// The turn after so many, and the shard whose coordinator has it; none when the version is made.
pub(super) fn turn(spec: &Arc<JobSpec>, round: &RoundRow, done: u16) -> Option<(Lap, u16)> {
    let shards = u16::try_from(spec.shards.len()).ok().filter(|shards| *shards > 0)?;
    let lap = laps(spec, round).get(usize::from(done / shards)).copied()?;
    Some((lap, done % shards))
}

/// The shard whose coordinator has the turn after so many; none when the version is made.
pub(crate) fn next_shard(spec: &Arc<JobSpec>, round: &RoundRow, done: u16) -> Option<u16> {
    turn(spec, round, done).map(|(_, shard)| shard)
}
