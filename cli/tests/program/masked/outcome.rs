//! What became of a masked job: whose updates its versions are made of.

use std::collections::BTreeMap;

use tributary_protocol::operator::{Assignment, GroupProgress, Round, RoundGroup};
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::state::{AssignmentState, GroupStage, Phase};

use crate::support::operator::Operator;

/// How far a value may be from the mean of the updates: the rounding of all of them.
const ROUNDING: f32 = 1e-3;

/// Counts of a job.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Rounds that committed.
    pub(super) committed: u32,
    /// Members of groups whose updates are in no sum.
    pub(super) lost: u32,
}

/// The update of a client of so many values, by the place of the client.
pub(super) type Delta = fn(usize, usize) -> Vec<f32>;

/// Checks that every group has ended, and, where updates are known, that each version is the mean of those that count
/// in its round.
pub(super) async fn check(operator: &Operator, job: &str, delta: Option<Delta>) -> Counts {
    let mut counts = Counts::default();
    for (round, assignments) in operator.history(job).await {
        let groups = operator.groups(job, round.number).await;
        for group in &groups {
            let is_right = match group.stage {
                GroupStage::Summed => group.reason.is_none(),
                GroupStage::Failed => group.reason.is_some(),
                _ => false,
            };
            assert!(is_right, "a group ends with a sum, or with a reason: {group:?}");
        }
        check_members(&groups);
        if round.phase == Phase::Committed {
            counts.committed += 1;
            if let Some(delta) = delta {
                check_version(operator, job, (&round, &assignments, &groups), delta).await;
            }
        }
        let lost = groups.iter().flat_map(|group| &group.members).filter(|member| member.came == GroupProgress::Lost);
        counts.lost += lost.count() as u32;
    }
    counts
}

/// No client is in two groups of a round.
fn check_members(groups: &[RoundGroup]) {
    let mut members: Vec<u64> =
        groups.iter().flat_map(|group| &group.members).map(|member| member.client_number).collect();
    let count = members.len();
    members.sort_unstable();
    members.dedup();
    assert_eq!(members.len(), count, "a client is in two groups: {groups:?}");
}

/// Numbers of the members whose updates are in the sum of a group.
fn survivors(group: &RoundGroup) -> Vec<u64> {
    let is_lost = |came| matches!(came, GroupProgress::Lost);
    group.members.iter().filter(|member| !is_lost(member.came)).map(|member| member.client_number).collect()
}

async fn check_version(
    operator: &Operator,
    job: &str,
    (round, assignments, groups): (&Round, &[Assignment], &[RoundGroup]),
    delta: Delta,
) {
    let reported = |number: &&u64| {
        let is_reported = |row: &&Assignment| row.client_number == **number && row.state == AssignmentState::Reported;
        assignments.iter().any(|row| is_reported(&row))
    };
    let before = weights(operator, job, round.base_version).await;
    let after = weights(operator, job, round.base_version + 1).await;
    let (mut sum, mut divisor) = (vec![0.0; before.len()], 0.0);
    for group in groups.iter().filter(|group| group.stage == GroupStage::Summed) {
        let members = survivors(group);
        // One that gave up after its update came is in the mean of its group, which does not count for it.
        let counted = members.iter().filter(reported).count() as f32;
        for client in &members {
            let delta = delta(*client as usize - 1, before.len());
            let share = counted / members.len() as f32;
            sum.iter_mut().zip(delta).for_each(|(sum, value)| *sum += value * share);
        }
        divisor += counted;
    }
    assert_eq!(divisor, round.reported as f32, "round {} counts what its groups count", round.number);
    let states = states(assignments);
    for (index, ((before, after), sum)) in before.iter().zip(&after).zip(sum).enumerate() {
        let (moved, mean) = (after - before, sum / divisor);
        assert!(
            (moved - mean).abs() < ROUNDING,
            "round {}: value {index} moved by {moved} instead of {mean}: \
            {groups:?}, {states:?}",
            round.number
        );
    }
}

fn states(assignments: &[Assignment]) -> BTreeMap<u64, AssignmentState> {
    assignments.iter().map(|assignment| (assignment.client_number, assignment.state)).collect()
}

async fn weights(operator: &Operator, job: &str, version: u32) -> Vec<f32> {
    model_from_bytes(&operator.model_file(job, version).await).unwrap().into_values()
}
