//! Whether a round needed an assignment, as part of a query.

/// Whether the round `r` had enough reports without the assignment `a`. One in a buffer that ended before its time, for
/// no reason of its own, was not needed because its job had ended.
macro_rules! goal_met {
    () => {
        "case when a.deadline_at_ms is null then r.reported >= r.goal \
         else a.reason is null and coalesce(a.ended_at_ms, a.deadline_at_ms) < a.deadline_at_ms end"
    };
}
pub(super) use goal_met;
