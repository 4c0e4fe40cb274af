//! Groups of masked updates, in sentences: what they will be in a job, and what became of those of a round.

use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::{GroupProgress, Health, RoundGroup};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::slots::SLOTS;
use tributary_protocol::state::{GroupFailure, GroupStage, HealthKind, Severity};

use super::words::count;
use crate::job::first_masking;
use crate::round::masking::{GroupCost, GroupParameters, MaskedUpdate, MaskingPolicy};

/// With fewer members, a sum tells much of each.
const FEW_MEMBERS: u32 = 20;

/// What the groups of a job will be, in two sentences; none where updates are not masked.
pub(super) fn planned(file: &JobFile) -> Option<String> {
    let (secure, policy) = (file.secure_aggregation.as_ref()?, MaskingPolicy::of(file, file.round.goal())?);
    let parameters = GroupParameters::of(policy.group, &policy).ok()?;
    let values = file.model.parts().ok()?.shared().total();
    let quantiser = Quantiser::new(values, secure.clip.start(), secure.levels, secure.keep).ok()?;
    let masking = first_masking(file)?;
    let members = u16::try_from(policy.group).ok()?;
    let update = MaskedUpdate {
        values: (f64::from(quantiser.coordinates()) * secure.keep) as u64,
        bits: masking.value_bits(&quantiser, members)?.into(),
        slots: SLOTS as u64,
    };
    let cost = GroupCost::of(parameters, update, policy.is_signed);
    let few = if policy.group < FEW_MEMBERS { ", and with so few a sum tells much of each" } else { "" };
    let mixed = match masking.any_version {
        true => {
            " Members may have trained different versions, so an operator who lies can give each another model and take \
             their sum apart."
        }
        false => "",
    };
    Some(format!(
        "Groups have {} to {} members{few}. A full one bears {} lost and {} that work with the coordinator; a member sends \
         {} bytes of masked update ({} bits a value), {} of keys and shares, and receives {}.{mixed}",
        policy.group_min,
        policy.group,
        cost.lost_max,
        cost.corrupt_max,
        cost.body_bytes,
        update.bits,
        cost.bytes_up,
        cost.bytes_down
    ))
}

/// A sentence about the groups of a round; none without groups.
pub fn grouped(groups: &[RoundGroup]) -> Option<String> {
    if groups.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    let summed: Vec<&RoundGroup> = groups.iter().filter(|group| group.stage == GroupStage::Summed).collect();
    let members: usize = summed.iter().map(|group| group.members.len()).sum();
    let counted = summed.iter().flat_map(|group| &group.members).filter(|member| is_in_sum(member.came)).count();
    if !summed.is_empty() {
        let groups = count(u32::try_from(summed.len()).unwrap_or(u32::MAX), "group");
        let lost = if counted < members { format!(" of {members}") } else { String::new() };
        parts.push(format!(
            "{groups} of {counted}{lost} clients came to a sum, and nobody has seen one of their updates"
        ));
    }
    let open = groups.iter().filter(|group| !group.stage.is_final()).count();
    if open > 0 {
        let groups = count(u32::try_from(open).unwrap_or(u32::MAX), "group");
        parts.push(format!("{groups} {} at work", if open == 1 { "is" } else { "are" }));
    }
    for group in groups.iter().filter(|group| group.stage == GroupStage::Failed) {
        let members = group.members.len();
        parts.push(format!("a group of {members} clients has no sum, because {}", why(group)));
    }
    let mut sentence = parts.join("; ");
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    Some(format!("{sentence}."))
}

/// Clients of a buffer that wait for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupWanted {
    pub waiting: u32,
    /// Fewest members of a group.
    pub group_min: u32,
    /// Clients at work, which may still join.
    pub training: u32,
}

/// Clients that have finished and find too few others; none while others are at work.
pub(super) fn members_wanted(wanted: Option<GroupWanted>) -> Option<Health> {
    let GroupWanted { waiting, group_min, training } = wanted?;
    (waiting > 0 && training == 0 && waiting < group_min).then(|| Health {
        severity: Severity::Warning,
        kind: HealthKind::WaitingForClients,
        text: format!(
            "{} {} finished and {} for others: a group has {group_min} members at least",
            count(waiting, "client"),
            if waiting == 1 { "has" } else { "have" },
            if waiting == 1 { "waits" } else { "wait" },
        ),
        remedy: Some("start more clients that the job admits, or create a job with a smaller group_min".to_owned()),
    })
}

/// Whether the update of a member is in the sum of its group.
fn is_in_sum(came: GroupProgress) -> bool {
    matches!(came, GroupProgress::Masked | GroupProgress::Signed | GroupProgress::Opened)
}

fn why(group: &RoundGroup) -> String {
    let sent = group.members.iter().filter(|member| is_in_sum(member.came)).count();
    match group.reason {
        Some(GroupFailure::TooFewMembers) => "too few of them sent their shares".to_owned(),
        Some(GroupFailure::TooFewSurvivors) => {
            format!("{sent} of the {} it needs sent their masked updates", group.survivors_min)
        }
        Some(GroupFailure::TooFewSignatures) => "too few of them signed who was left".to_owned(),
        Some(GroupFailure::TooFewShares) => {
            format!("a secret needs {} shares and too few came", group.threshold)
        }
        Some(GroupFailure::FalseShares) => "shares of a secret were false".to_owned(),
        Some(GroupFailure::Norm) => "its sum was longer than its members could make it".to_owned(),
        Some(GroupFailure::Stopped) => "an operator stopped the job".to_owned(),
        Some(GroupFailure::RoundEnded) => "the round ended first".to_owned(),
        Some(GroupFailure::Fault) => "what was stored of it cannot be read".to_owned(),
        None => "it failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::id::GroupId;
    use tributary_protocol::operator::RoundGroupMember;

    use super::*;

    fn group(stage: GroupStage, reason: Option<GroupFailure>, came: &[GroupProgress]) -> RoundGroup {
        let members = (1..).zip(came).map(|(client_number, came)| RoundGroupMember { client_number, came: *came });
        RoundGroup {
            id: GroupId::from_random([0; 16]),
            stage,
            since_ms: 0,
            degree: 2,
            threshold: 2,
            survivors_min: 3,
            signed: false,
            reason,
            members: members.collect(),
        }
    }

    #[test]
    fn the_groups_of_a_job_are_told_with_what_they_bear_and_cost() {
        let of = |round: &str| {
            let file = format!(
                "name = 'a'\npopulation = 'b'\nmodel.parameters = [{{ name = 'w', shape = [1000] }}]\n\
                 training.steps = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n\
                 {round}\nsecure_aggregation.clip = 1.0\naggregation.combine = 'uniform_mean'"
            );
            planned(&JobFile::parse(&file).unwrap()).unwrap()
        };
        // 1,024 values of 12 bits and 5 slots; 19 neighbours.
        assert_eq!(
            of("round.updates_goal = 20"),
            "Groups have 5 to 20 members. A full one bears 6 lost and 2 that work with the coordinator; a member sends \
             1610 bytes of masked update (12 bits a value), 2503 of keys and shares, and receives 6697."
        );
        assert!(
            of("round.updates_goal = 19")
                .starts_with("Groups have 5 to 19 members, and with so few a sum tells much of each. A full")
        );
        let mixed =
            of("round.mode = { kind = 'buffered', buffer = 20, concurrency = 40, staleness_weight.kind = 'constant' }");
        assert!(mixed.ends_with("can give each another model and take their sum apart."), "{mixed}");
    }

    #[test]
    fn too_few_for_a_group_are_told_once_nobody_else_is_at_work() {
        let wanted = |waiting, training| members_wanted(Some(GroupWanted { waiting, group_min: 3, training }));
        assert_eq!([wanted(0, 0), wanted(2, 1), wanted(3, 0), members_wanted(None)], [None, None, None, None]);
        let text = "1 client has finished and waits for others: a group has 3 members at least";
        assert_eq!(wanted(1, 0).unwrap().text, text);
        assert!(wanted(2, 0).unwrap().text.starts_with("2 clients have finished and wait"));
    }

    #[test]
    fn each_group_is_told_by_what_became_of_it() {
        use GroupProgress::{Lost, Masked, Opened};
        assert_eq!(grouped(&[]), None);
        let summed = group(GroupStage::Summed, None, &[Opened, Masked, Opened]);
        assert_eq!(
            grouped(std::slice::from_ref(&summed)).unwrap(),
            "1 group of 3 clients came to a sum, and nobody has seen one of their updates."
        );
        let lossy = group(GroupStage::Summed, None, &[Opened, Lost, Opened, Opened]);
        let open = group(GroupStage::Masking, None, &[Masked]);
        let failed = group(GroupStage::Failed, Some(GroupFailure::TooFewSurvivors), &[Masked, Lost, Lost, Lost]);
        assert_eq!(
            grouped(&[summed, lossy, open, failed]).unwrap(),
            "2 groups of 6 of 7 clients came to a sum, and nobody has seen one of their updates; 1 group is at work; a \
             group of 4 clients has no sum, because 1 of the 3 it needs sent their masked updates."
        );
    }
}
