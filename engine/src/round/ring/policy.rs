//! What a job says of its groups, with times of one round.

use tributary_protocol::job_file::JobFile;

/// Time that a member has to bring a body, beside `frame_ms`: 64 KiB a second, the floor of a link.
const FLOOR_BYTES_PER_MS: u64 = 64;

/// The policy of the groups of one round. Times are in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPolicy {
    /// Members with which a group forms at once.
    pub goal: u32,
    /// Fewest members of a group.
    pub members_min: u32,
    /// When a group forms with those that are ready.
    pub form_by_ms: i64,
    /// When members send their own updates.
    pub star_from_ms: i64,
    /// Groups that the round may form.
    pub attempts: u32,
    /// Longest silence of a neighbour.
    pub frame_ms: i64,
    /// Time that one member has to bring the sum.
    pub upload_ms: i64,
}

impl RingPolicy {
    /// The policy of a round with this goal and minimum, which ends at this time and has sums of so many bytes; none in
    /// a job without groups.
    #[must_use]
    pub fn of(
        file: &JobFile,
        [goal, minimum]: [u32; 2],
        [deadline_at_ms, deadline_ms]: [i64; 2],
        sum_bytes: u64,
    ) -> Option<Self> {
        let group = file.group?;
        let before = |share: f64| deadline_at_ms - ((1.0 - share) * deadline_ms as f64) as i64;
        let frame_ms = i64::try_from(group.frame_ms).unwrap_or(i64::MAX);
        let upload_ms = i64::try_from(sum_bytes.div_ceil(FLOOR_BYTES_PER_MS)).unwrap_or(i64::MAX);
        Some(Self {
            goal,
            members_min: minimum.max(2),
            form_by_ms: before(group.form_by),
            star_from_ms: before(group.star_from),
            attempts: group.attempts,
            frame_ms,
            upload_ms: frame_ms.saturating_add(upload_ms),
        })
    }

    /// Members whose sums must have one hash: more than half of them.
    #[must_use]
    pub fn agree(members: u32) -> u32 {
        members / 2 + 1
    }
}
