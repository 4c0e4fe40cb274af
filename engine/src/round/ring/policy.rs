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
        let group = file.group.as_ref()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_groups_are_shares_of_the_deadline_of_their_round() {
        let job = "name = 'a'\npopulation = 'b'\nmodel.parameters = [{ name = 'w', shape = [2] }]\n\
            training.steps = 1\ntraining.optimizer = { kind = 'sgd', learning_rate = 0.1 }\n";
        let group =
            "group = { topology.kind = 'ring', form_by = 0.5, star_from = 0.75, attempts = 3, frame_ms = 2000 }";
        let file = JobFile::parse(&format!("{job}{group}")).unwrap();
        let policy = RingPolicy {
            goal: 8,
            members_min: 5,
            form_by_ms: 980_000,
            star_from_ms: 990_000,
            attempts: 3,
            frame_ms: 2_000,
            upload_ms: 2_101,
        };
        // A round of 40 seconds, and a sum of little more than 100 times 64 bytes.
        let of = |file: &JobFile, minimum| RingPolicy::of(file, [8, minimum], [1_000_000, 40_000], 6_401);
        assert_eq!(of(&file, 5), Some(policy));
        assert_eq!(of(&file, 1), Some(RingPolicy { members_min: 2, ..policy }), "one member is no group");
        assert_eq!(of(&JobFile::parse(job).unwrap(), 5), None);
        assert_eq!([2, 3, 4].map(RingPolicy::agree), [2, 2, 3]);
    }
}
