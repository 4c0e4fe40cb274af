//! The end of a wait, by a clock that may be set back.

/// Whether the end of a wait of `length_ms` is still to come. An end that is further away than twice the length shows
/// that the clock was set back; the wait ends then, because it would last as long as the clock was wrong. A clock that
/// is set back by less prolongs the wait by less than its length.
pub(super) fn is_ahead(at_ms: i64, length_ms: i64, now_ms: i64) -> bool {
    now_ms < at_ms && at_ms.saturating_sub(now_ms) <= length_ms.saturating_mul(2)
}
