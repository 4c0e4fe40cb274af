//! Groups in virtual time, for tests: members that send, lie, leave and die, and what is stored of them.

mod fleet;
mod history;

use tributary_protocol::state::{GroupFailure, GroupStage};

use super::facts::{GroupFacts, RoundOver, SecretFacts};
use super::parameters::GroupParameters;
use super::policy::MaskingPolicy;
use super::step::GroupStep;
use super::times::StageTimes;

/// Stages with messages.
pub(super) const STAGES: usize = 4;

/// What a member does in its group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Behaviour {
    /// From the beginning of each stage until its message is here.
    pub(super) delays_ms: [i64; STAGES],
    /// The stage in which it is lost, before its message.
    pub(super) lost_in: Option<usize>,
    /// Whether it says that it gives up.
    pub(super) tells: bool,
    /// When it leaves in silence, wherever it is.
    pub(super) leaves_at_ms: Option<i64>,
    /// Whether its shares are false.
    pub(super) lies: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Member {
    behaviour: Behaviour,
    /// By stage, whether its message is here.
    sent: [bool; STAGES],
    gave_up: bool,
}

/// What is stored of a group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) parameters: GroupParameters,
    pub(super) stage: GroupStage,
    pub(super) failure: Option<GroupFailure>,
    pub(super) survivors: Option<Vec<bool>>,
    /// The stages that the group was in.
    pub(super) stages: Vec<GroupStage>,
    pub(super) over: Option<RoundOver>,
    policy: MaskingPolicy,
    times: StageTimes,
    members: Vec<Member>,
    entered_at_ms: i64,
    began_at_ms: i64,
}

fn index(stage: GroupStage) -> usize {
    GroupStage::ALL.iter().position(|other| *other == stage).unwrap()
}

impl Group {
    pub(super) fn new(policy: MaskingPolicy, times: StageTimes, members: Vec<Behaviour>, now_ms: i64) -> Self {
        Self {
            parameters: GroupParameters::of(members.len() as u32, &policy).unwrap(),
            stage: GroupStage::Sharing,
            failure: None,
            survivors: None,
            stages: vec![GroupStage::Sharing],
            over: None,
            policy,
            times,
            members: members.into_iter().map(|behaviour| Member { behaviour, ..Member::default() }).collect(),
            entered_at_ms: now_ms,
            began_at_ms: now_ms,
        }
    }

    /// Whether a message of this member is expected in this stage.
    fn takes_part(&self, at: usize, stage: GroupStage) -> bool {
        match stage {
            GroupStage::Sharing => true,
            GroupStage::Masking => self.members[at].sent[0],
            _ => self.survivors.as_ref().is_some_and(|survivors| survivors[at]),
        }
    }

    /// Members send what is due. Who is lost in a stage sends nothing in it, nor later.
    pub(super) fn send(&mut self, now_ms: i64) {
        if self.stage.is_final() {
            return;
        }
        let (stage, since_ms) = (index(self.stage), now_ms - self.entered_at_ms);
        for at in 0..self.members.len() {
            let takes_part = self.takes_part(at, self.stage);
            let member = &mut self.members[at];
            let Behaviour { delays_ms, lost_in, tells, leaves_at_ms, .. } = member.behaviour;
            let is_gone = leaves_at_ms.is_some_and(|at_ms| now_ms >= at_ms);
            if !takes_part || is_gone || member.sent[stage] || since_ms < delays_ms[stage] {
                continue;
            }
            match lost_in.is_some_and(|lost_in| lost_in <= stage) {
                true => member.gave_up |= tells,
                false => member.sent[stage] = true,
            }
        }
    }

    /// A coordinator that was restarted begins the time of the stage anew.
    pub(super) fn restart(&mut self, now_ms: i64) {
        self.began_at_ms = now_ms;
    }

    pub(super) fn facts(&self) -> GroupFacts {
        let stage = index(self.stage);
        let count = |of: &dyn Fn(usize) -> bool| (0..self.members.len()).filter(|at| of(*at)).count() as u32;
        let sent = |stage: usize| count(&|at| self.members[at].sent[stage]);
        let is_awaited =
            |at: usize| self.takes_part(at, self.stage) && !self.members[at].sent[stage] && !self.members[at].gave_up;
        GroupFacts {
            stage: self.stage,
            began_at_ms: self.began_at_ms,
            stage_ms: self.times.stage_ms(self.stage),
            parameters: self.parameters,
            group_min: self.policy.group_min,
            is_signed: self.policy.is_signed,
            over: self.over,
            awaited: if self.stage.is_final() { 0 } else { count(&is_awaited) },
            shared: sent(0),
            whole: self.survivors.as_ref().map_or_else(|| sent(1), |_| self.counted()),
            signed: sent(2),
            secrets: if self.stage == GroupStage::Unmasking { self.secrets() } else { Vec::new() },
        }
    }

    /// Members whose update is in the sum, if there is one.
    pub(super) fn counted(&self) -> u32 {
        self.survivors.iter().flatten().filter(|survived| **survived).count() as u32
    }

    fn secrets(&self) -> Vec<SecretFacts> {
        (0..self.members.len()).filter(|at| self.members[*at].sent[0]).map(|owner| self.secret(owner)).collect()
    }

    /// Honest shares give a secret once they are enough: other choices are tried, and liars are named.
    fn secret(&self, owner: usize) -> SecretFacts {
        let (mut honest, mut all) = (0, 0);
        for at in self.neighbours(owner).filter(|at| self.members[*at].sent[3]) {
            all += 1;
            honest += u32::from(!self.members[at].behaviour.lies);
        }
        let threshold = self.parameters.threshold;
        match honest >= threshold {
            true => SecretFacts { shares: honest, is_false: false },
            false => SecretFacts { shares: all, is_false: all >= threshold },
        }
    }

    /// The neighbours of a member in the circle.
    fn neighbours(&self, owner: usize) -> impl Iterator<Item = usize> + use<> {
        let (members, degree) = (self.members.len(), self.parameters.degree as usize);
        let all = degree + 1 == members;
        let reach = if all { members - 1 } else { degree / 2 };
        let before = if all { 0 } else { reach };
        (1..=reach)
            .map(move |by| (owner + by) % members)
            .chain((1..=before).map(move |by| (owner + members - by) % members))
    }

    /// Performs a step that was decided on these facts, unless another driver was first. Returns whether it was done.
    pub(super) fn perform(&mut self, decided_in: GroupStage, step: GroupStep, now_ms: i64) -> bool {
        let Some(next) = step.leads_to().filter(|_| decided_in == self.stage) else { return false };
        if self.survivors.is_none() && matches!(step, GroupStep::Agree | GroupStep::Unmask) {
            self.survivors = Some(self.members.iter().map(|member| member.sent[1]).collect());
        }
        if let GroupStep::Fail(failure) = step {
            self.failure = Some(failure);
        }
        self.stage = next;
        self.stages.push(next);
        (self.entered_at_ms, self.began_at_ms) = (now_ms, now_ms);
        true
    }
}
