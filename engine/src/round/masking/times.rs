//! How long the stages of a group may take, and until when groups form.

use tributary_protocol::state::GroupStage;

/// Longest time of a stage whose messages are small.
pub const STAGE_MS: i64 = 30_000;
/// Longest time of Masking, for bodies of any size.
pub const MASKING_MS_MAX: i64 = 300_000;
/// An upload may take this many times as long as it would alone: the members of a group upload at the same time.
const UPLOAD_ROOM: f64 = 2.0;
/// How long before the deadline of a round its last groups form. A driver that misses a notification looks a second
/// later, and would otherwise find the round closed.
const FORMS_BEFORE_MS: i64 = 2_000;
/// A short round gives up at most this part of its time.
const FORMS_BEFORE_PART: i64 = 10;
/// How long a client waits for a group before others may have to do without it. A held answer lasts 60 seconds, and a
/// phone may use its end to leave.
pub const GROUP_WAIT_MS: i64 = 45_000;

/// The longest times of the stages of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTimes {
    /// Of the stages whose messages are small: [`STAGE_MS`] where nothing else is set.
    pub short_ms: i64,
    pub masking_ms: i64,
    /// Whether the group has the stage Agreeing.
    pub is_signed: bool,
}

impl StageTimes {
    /// The times of a group whose members upload bodies of this size, the slowest of them at this rate. Where no uplink
    /// was measured, Masking may take its longest time.
    pub fn of(body_bytes: u64, uplink_bytes_per_s: Option<f64>, is_signed: bool) -> Self {
        let upload_ms = uplink_bytes_per_s.filter(|rate| *rate > 0.0).map(|rate| body_bytes as f64 / rate * 1e3);
        // The conversion saturates.
        let masking_ms = upload_ms.map_or(MASKING_MS_MAX, |upload_ms| (UPLOAD_ROOM * upload_ms).ceil() as i64);
        Self { short_ms: STAGE_MS, masking_ms: masking_ms.clamp(STAGE_MS, MASKING_MS_MAX), is_signed }
    }

    /// The longest time of a stage.
    pub fn stage_ms(&self, stage: GroupStage) -> i64 {
        match stage {
            GroupStage::Sharing | GroupStage::Unmasking => self.short_ms,
            GroupStage::Masking => self.masking_ms,
            GroupStage::Agreeing if self.is_signed => self.short_ms,
            GroupStage::Agreeing | GroupStage::Summed | GroupStage::Failed => 0,
        }
    }

    /// The longest time of a stage and of all stages behind it.
    pub fn rest_ms(&self, stage: GroupStage) -> i64 {
        GroupStage::ALL.iter().filter(|later| **later >= stage).map(|later| self.stage_ms(*later)).sum()
    }
}

/// From when on no group forms: shortly before the deadline. The stages of a group that forms last run beyond it.
pub fn forms_until_ms(deadline_at_ms: i64, deadline_ms: i64) -> i64 {
    deadline_at_ms.saturating_sub(FORMS_BEFORE_MS.min(deadline_ms / FORMS_BEFORE_PART))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masking_takes_as_long_as_the_slowest_upload_needs() {
        let masking_ms = |bytes, rate| StageTimes::of(bytes, rate, true).masking_ms;
        assert_eq!(masking_ms(1_900_000, Some(1e6)), 30_000, "small bodies have the time of small messages");
        assert_eq!(masking_ms(4_000_000, Some(1e5)), 80_000);
        assert_eq!(masking_ms(4_000_000, Some(1e3)), 300_000);
        assert_eq!(masking_ms(u64::MAX, Some(1e-300)), 300_000);
        assert_eq!([None, Some(0.0), Some(f64::NAN), Some(-1.0)].map(|rate| masking_ms(1, rate)), [300_000; 4]);
    }

    #[test]
    fn the_rest_is_the_sum_of_the_stages_that_are_left() {
        use GroupStage::{Failed, Masking, Sharing, Unmasking};
        let signed = StageTimes { short_ms: STAGE_MS, masking_ms: 80_000, is_signed: true };
        assert_eq!([Sharing, Masking, Unmasking, Failed].map(|at| signed.rest_ms(at)), [170_000, 140_000, 30_000, 0]);
        assert_eq!(StageTimes { is_signed: false, ..signed }.rest_ms(Sharing), 140_000);
    }

    #[test]
    fn the_last_groups_form_shortly_before_the_deadline() {
        assert_eq!(forms_until_ms(600_000, 600_000), 598_000);
        assert_eq!(forms_until_ms(1_000, 1_000), 900);
        assert_eq!(forms_until_ms(0, 0), 0);
    }
}
