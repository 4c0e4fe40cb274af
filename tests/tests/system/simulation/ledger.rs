//! What was seen from outside, and what must hold because of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use tributary_client::{ClientError, Outcome};
use tributary_engine::round::Member;
use tributary_protocol::device::{Assignment, AssignmentStatus, CheckInResponse};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::operator::{self, Event, Round};
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AbandonReason, AssignmentState, Phase, Task};
use tributary_server::app::App;
use tributary_server::blob::model_key;
use tributary_server::db::RoundKey;

use super::network::Reply;
use crate::support::WEIGHTS;

/// Most events of one look; a history has far fewer between two.
const EVENTS_MAX: u32 = 10_000;
/// How far a weight may be from what its updates say: rounding to f32. The smallest step is a thousand times that.
const ROUNDING: f64 = 2e-5;

/// Weight of a client's updates.
pub(super) fn weight(client: usize) -> u64 {
    1 << client
}

/// What a client adds to its own weight of the model in the round of this seed: 2^-1 to 2^-4, so that the next model
/// shows which updates are in it, and how often.
pub(super) fn step(seed: Seed) -> f32 {
    0.5 / (1 << (seed.0 % 4)) as f32
}

/// What part of its step a client adds to a weight that is nobody's own, from 0 to 1 and without a pattern: a
/// compressed update is hardly shorter.
pub(super) fn noise(index: usize) -> f32 {
    ((index as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32
}

/// Everything that clients were told and said.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Whether the job's models move by rounded steps.
    rounds_steps: bool,
    /// Work that the coordinator handed out, by the seed that the trainer gets.
    handed: HashMap<Seed, Handed>,
    /// Reports that it answered with success, whether or not the answer came back.
    acknowledged: HashSet<AssignmentId>,
    /// Work that a client has trained for: from then on the result is on its disk.
    trained: HashSet<AssignmentId>,
    /// What went wrong where nothing may panic.
    faults: Vec<String>,
    /// Sequence number of the last event that was looked at.
    seen: u64,
    phases: BTreeMap<(Task, u32), Phase>,
    ends: HashMap<AssignmentId, String>,
    /// Model versions as they were when they were made.
    models: BTreeMap<u32, Sha256Hash>,
}

#[derive(Clone, Copy, Debug)]
struct Handed {
    assignment: AssignmentId,
    client: usize,
    task: Task,
    round: u32,
    /// The model version that it starts from.
    version: u32,
}

impl Ledger {
    /// An empty one, of a job whose models move by rounded steps, or not.
    pub(super) fn new(rounds_steps: bool) -> Self {
        Self { rounds_steps, ..Self::default() }
    }

    /// The coordinator answered a client's request.
    pub(super) fn answered(&mut self, client: usize, request: &str, reply: &Reply) {
        let success = (200..300).contains(&reply.status());
        let assignment = request.split(['/', '?']).nth(4).and_then(|id| id.parse::<AssignmentId>().ok());
        if !success {
            let lost = reply.status() == 410 && assignment.is_some_and(|id| self.acknowledged.contains(&id));
            self.expect(!lost, || format!("{request} is refused, but was acknowledged"));
            // The rest of an update that comes late finds that another one went on.
            let goes_on = request.starts_with("PATCH") && reply.status() == 409;
            // Refusals that an honest client never gets: other bytes for the same assignment, a broken update, ..
            let honest = goes_on || matches!(reply.status(), 410 | 503);
            self.expect(honest, || format!("{request} is answered {}", reply.status()));
            return;
        }
        match (request.split(' ').next(), assignment) {
            (Some("PUT" | "PATCH"), Some(assignment)) => {
                self.acknowledged.insert(assignment);
            }
            (Some("GET"), Some(assignment)) => {
                let reported = reply.json::<AssignmentStatus>().reported;
                let known = self.acknowledged.contains(&assignment);
                self.expect(reported == known, || format!("{assignment}: reported is {reported}"));
            }
            (Some("POST"), None) if request.ends_with("/checkins") => {
                if let CheckInResponse::Assigned(work) = reply.json() {
                    self.hands_out(client, &work);
                }
            }
            _ => {}
        }
    }

    fn hands_out(&mut self, client: usize, work: &Assignment) {
        let handed =
            Handed { assignment: work.id, client, task: work.task, round: work.round, version: work.model_version };
        let other = self.handed.insert(work.seed, handed).filter(|other| other.assignment != work.id);
        self.expect(other.is_none(), || format!("{handed:?} has the seed of {other:?}"));
        let again = self.acknowledged.contains(&work.id);
        self.expect(!again, || format!("{handed:?} is handed out, but its report was acknowledged"));
    }

    /// A client trained: for work of its own, and only once, even if its process died before it was delivered.
    pub(super) fn trained(&mut self, client: usize, seed: Seed) {
        match self.handed.get(&seed).copied() {
            Some(handed) => {
                self.expect(handed.client == client, || format!("client {client} trains for {handed:?}"));
                let again = !self.trained.insert(handed.assignment) || self.acknowledged.contains(&handed.assignment);
                self.expect(!again, || format!("{handed:?} is trained again"));
            }
            None => self.faults.push(format!("client {client} trains for what nobody handed out")),
        }
    }

    /// A client's session ended: what it was told must be true.
    pub(super) fn ended(&mut self, client: usize, outcome: &Result<Outcome, ClientError>) {
        let (round, task, wanted) = match outcome {
            Ok(Outcome::Contributed { round, .. }) => (*round, Task::Train, true),
            Ok(Outcome::Evaluated { round, .. }) => (*round, Task::Evaluate, true),
            Err(ClientError::Unreachable(_)) | Ok(_) => return,
            Err(error) => return self.faults.push(format!("client {client}: {error}")),
        };
        let mut reports =
            self.handed.values().filter(|work| (work.client, work.round, work.task) == (client, round, task));
        let acknowledged = reports.any(|work| self.acknowledged.contains(&work.assignment));
        self.expect(acknowledged == wanted, || format!("client {client} is told of round {round}: {outcome:?}"));
    }

    fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.faults.push(otherwise());
        }
    }

    /// What went wrong where nothing may panic, does so here.
    pub(super) fn no_faults(&self) {
        assert!(self.faults.is_empty(), "{:#?}", self.faults);
    }

    /// Sequence number of the last event that was looked at.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// Checks new events: no holes, no phase goes back, no assignment ends twice. Returns the rounds that they are
    /// about.
    pub(super) fn follow(&mut self, events: &[Event]) -> Vec<(Task, u32)> {
        let mut rounds = Vec::new();
        for event in events {
            assert_eq!(event.sequence, self.seen + 1, "events have no holes");
            self.seen = event.sequence;
            let (Some(task), Some(round)) = (event.task, event.round) else { continue };
            match event.assignment {
                None => {
                    let phase: Phase = event.became.parse().unwrap();
                    let before = self.phases.insert((task, round), phase);
                    assert!(before < Some(phase), "{task} round {round}: {before:?} became {phase}");
                }
                Some(_) if event.became == "assigned" => {}
                Some(assignment) if event.became == "late" || event.became == "stopped" => {
                    assert_eq!(
                        self.ends.get(&assignment).map(String::as_str),
                        Some("expired"),
                        "only a straggler is late"
                    );
                }
                Some(assignment) => {
                    let before = self.ends.insert(assignment, event.became.clone());
                    assert_eq!(before, None, "{assignment} ended before it was {}", event.became);
                }
            }
            rounds.push((task, round));
        }
        rounds.sort_unstable();
        rounds.dedup();
        rounds
    }

    /// Checks a round: its counters are what its assignments say, and reported are exactly those whose reports were
    /// acknowledged.
    pub(super) fn check_round(&self, round: &Round, assignments: &[operator::Assignment]) {
        let ended = |state| assignments.iter().filter(|assignment| assignment.state == state).count() as u32;
        let counted = [round.cohort, round.reported, round.rejected, round.failed, round.expired];
        let [reported, rejected] = [ended(AssignmentState::Reported), ended(AssignmentState::Rejected)];
        let [failed, expired] = [ended(AssignmentState::Failed), ended(AssignmentState::Expired)];
        assert_eq!(counted, [assignments.len() as u32, reported, rejected, failed, expired], "{round:?}");
        let weights: u64 = assignments.iter().filter_map(|assignment| assignment.weight).sum();
        assert_eq!(round.weight, weights, "{round:?}");
        for assignment in assignments {
            let reported = assignment.state == AssignmentState::Reported;
            assert_eq!(reported, self.acknowledged.contains(&assignment.id), "{assignment:?} of {round:?}");
        }
        // Those of a buffer move on when the next one opens.
        if !round.phase.is_open() && round.buffer.is_none() {
            assert_eq!(ended(AssignmentState::Assigned), 0, "an ended round leaves nobody waiting: {round:?}");
        }
        if round.phase == Phase::Committed {
            assert!(round.reported >= round.minimum, "{round:?}");
        }
        let faulty = matches!(round.reason, Some(AbandonReason::Fault | AbandonReason::NotFinite));
        assert!(!faulty, "what was stored makes a model: {round:?}");
    }

    /// Checks the model of a committed round: the weighted mean of its acknowledged updates, each of them once. In a
    /// buffered job a stale update has less weight, and the divisor does not know of it.
    fn check_model(&mut self, round: &Round, assignments: &[operator::Assignment], base: &Model, next: &Model) {
        self.models.entry(round.base_version).or_insert(base.sha256);
        let before = self.models.insert(round.base_version + 1, next.sha256);
        assert_eq!(before, None, "a version is made once: {round:?}");
        let (mut expected, mut weights, mut all) = (vec![0.0; base.values.len()], 0.0, 0.0);
        for (seed, work) in &self.handed {
            let counted = assignments.iter().find(|counted| counted.id == work.assignment);
            if counted.is_some_and(|counted| counted.state == AssignmentState::Reported) {
                assert!(self.acknowledged.contains(&work.assignment));
                let staleness = round.base_version - work.version;
                assert!(
                    round.buffer.map_or(0, |buffer| buffer.staleness_max.unwrap_or(u32::MAX)) >= staleness,
                    "{work:?} in {round:?}"
                );
                let is_clocked = round.buffer.is_some_and(|buffer| buffer.slack.is_some());
                let factor = if is_clocked { 1.0 } else { f64::from(1 + staleness).sqrt() };
                let moved = f64::from(step(*seed)) * weight(work.client) as f64 / factor;
                expected[work.client] += moved;
                all += moved;
                weights += weight(work.client) as f64;
            }
        }
        for (index, expected) in expected.iter_mut().enumerate().skip(WEIGHTS) {
            *expected = all * f64::from(noise(index));
        }
        let largest = expected.iter().copied().fold(0.0, f64::max) / weights;
        // Half a step of 8 bits, whose size is rounded up a little.
        let rounding = ROUNDING + if self.rounds_steps { largest / 254.0 * 1.01 } else { 0.0 };
        for (index, ((base, next), expected)) in base.values.iter().zip(&next.values).zip(expected).enumerate() {
            let moved = f64::from(*next) - f64::from(*base);
            let expected = expected / weights;
            assert!((moved - expected).abs() < rounding, "{round:?}: weight {index} moved by {moved}, not {expected}");
        }
    }

    /// Checks that no model version has changed since it was made.
    pub(super) async fn check_versions(&self, app: &App, job: JobId) {
        for (version, sha256) in &self.models {
            assert_eq!(Model::read(app, job, *version).await.sha256, *sha256, "version {version} changed");
        }
    }

    /// Looks at what is new, and checks every round that it is about.
    pub(super) async fn check(ledger: &std::sync::Mutex<Self>, app: &App, job: JobId) {
        let mut tx = app.db.read().await.unwrap();
        let after = ledger.lock().unwrap().seen();
        let events = tx.events(job, after, EVENTS_MAX).await.unwrap();
        let slack = tx.job(job).await.unwrap().unwrap().file.0.round.mode.slack();
        if let Some(slack) = slack {
            check_clocks(slack, &tx.members(job).await.unwrap());
        }
        let mut found = Vec::new();
        let rounds = ledger.lock().unwrap().follow(&events);
        for (task, number) in rounds {
            let key = RoundKey { job, task, number };
            let round = Round::from(tx.round(key).await.unwrap().unwrap());
            found.push((round, tx.assignments(key, None, 0, EVENTS_MAX).await.unwrap()));
        }
        drop(tx);
        let committed = |event: &Event, round: &Round| {
            event.became == "committed" && event.task == Some(round.task) && event.round == Some(round.number)
        };
        for (round, assignments) in found {
            ledger.lock().unwrap().check_round(&round, &assignments);
            if round.task == Task::Train && events.iter().any(|event| committed(event, &round)) {
                let base = Model::read(app, job, round.base_version).await;
                let next = Model::read(app, job, round.base_version + 1).await;
                ledger.lock().unwrap().check_model(&round, &assignments, &base, &next);
            }
        }
        ledger.lock().unwrap().no_faults();
    }
}

/// Checks that nobody is too far ahead of the slowest member (Ho et al. 2013).
fn check_clocks(slack: u32, members: &[Member]) {
    let clocks = || members.iter().map(|member| member.clock);
    let spread = clocks().max().unwrap_or(0) - clocks().min().unwrap_or(0);
    assert!(spread <= slack + 1, "a slack of {slack}: {members:?}");
}

/// A stored model version.
struct Model {
    sha256: Sha256Hash,
    values: Vec<f32>,
}

impl Model {
    async fn read(app: &App, job: JobId, version: u32) -> Self {
        let model = app.db.read().await.unwrap().model(job, version).await.unwrap().unwrap();
        let mut reader = app.blobs.reader(&app.db, model_key(job, version), model.sha256).await.unwrap();
        let mut file = Vec::new();
        while let Some(part) = reader.next().await.unwrap() {
            file.extend_from_slice(&part);
        }
        Self { sha256: Sha256Hash::of(&file), values: model_from_bytes(&file).unwrap().into_values() }
    }
}
