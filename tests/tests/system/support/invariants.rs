//! The invariants of a job: what must hold at any moment, whatever happened to it.

use axum::body::Bytes;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Assignment, Event, ModelVersion, Page, Round};
use tributary_protocol::state::{AssignmentState, Phase};

use super::World;

impl World {
    /// Checks a job's books: the counters of its rounds are what its assignments say, its events are numbered without
    /// holes, phases only go forward, its model versions are those of its committed rounds and have the stored hashes.
    pub(crate) async fn check_books(&self, job: JobId) {
        let events: Page<Event> = self.look(&format!("/events?job={job}&limit=1000")).await.ok();
        let numbers: Vec<u64> = events.items.iter().map(|event| event.sequence).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "events have no holes");
        for task in ["train", "evaluate"] {
            let rounds: Page<Round> = self.look(&format!("/jobs/{job}/rounds?task={task}")).await.ok();
            for round in &rounds.items {
                self.check_round(job, task, round, &events.items).await;
            }
            if task == "train" {
                self.check_models(job, &rounds.items).await;
            }
        }
    }

    async fn check_round(&self, job: JobId, task: &str, round: &Round, events: &[Event]) {
        let path = format!("/jobs/{job}/rounds/{}/assignments?task={task}", round.number);
        let assignments: Page<Assignment> = self.look(&path).await.ok();
        let assignments = assignments.items;
        let of = |state| assignments.iter().filter(move |assignment| assignment.state == state);
        let ended = |state| of(state).map(|assignment| assignment.places.unwrap_or(1)).sum::<u32>();
        // The places of a relay whose clients brought no update.
        let missing =
            of(AssignmentState::Reported).map(|sum| sum.places.unwrap_or(0) - sum.updates.unwrap_or(0)).sum::<u32>();
        let counted = (round.cohort, round.reported, round.rejected, round.failed, round.expired);
        let listed = (
            assignments.iter().map(|assignment| assignment.places.unwrap_or(1)).sum::<u32>(),
            ended(AssignmentState::Reported) - missing,
            ended(AssignmentState::Rejected),
            ended(AssignmentState::Failed) + missing,
            ended(AssignmentState::Expired),
        );
        assert_eq!(counted, listed, "{task} round {}: cohort, reported, rejected, failed, expired", round.number);
        let sum = |of: fn(&Assignment) -> u64| assignments.iter().map(of).sum::<u64>();
        // A round without a goal has no clients: the coordinator evaluated its own examples.
        if round.goal > 0 {
            assert_eq!(round.weight, sum(|assignment| assignment.weight.unwrap_or(0)));
        }
        // Counted in the round when the assignment ends; until then the count is the assignment's own.
        let has_ended = |assignment: &&Assignment| assignment.state != AssignmentState::Assigned;
        let bytes = |of: fn(&Assignment) -> u64| assignments.iter().filter(has_ended).map(of).sum::<u64>();
        assert_eq!(round.traffic.bytes_up, bytes(|assignment| assignment.traffic.bytes_up));
        assert_eq!(round.traffic.bytes_down, bytes(|assignment| assignment.traffic.bytes_down));
        assert_eq!(round.traffic.raw_bytes_up, bytes(|assignment| assignment.traffic.raw_bytes_up));
        assert_eq!(round.traffic.raw_bytes_down, bytes(|assignment| assignment.traffic.raw_bytes_down));
        // Those of a buffer move on when the next one opens.
        if !round.phase.is_open() && round.buffer.is_none() {
            assert_eq!(ended(AssignmentState::Assigned), 0, "an ended round leaves nobody waiting");
        }
        match round.phase {
            Phase::Committed => assert!(round.reported >= round.minimum),
            Phase::Abandoned => assert!(round.reason.is_some(), "an abandoned round says why"),
            _ => {}
        }
        let of_round = events.iter().filter(|event| {
            event.round == Some(round.number) && event.task == Some(round.task) && event.assignment.is_none()
        });
        let phases: Vec<Phase> = of_round.map(|event| event.became.parse().unwrap()).collect();
        assert!(phases.windows(2).all(|pair| pair[0] < pair[1]), "phases never go back: {phases:?}");
        assert_eq!(phases.last(), Some(&round.phase), "{events:?}");
    }

    async fn check_models(&self, job: JobId, rounds: &[Round]) {
        let models: Page<ModelVersion> = self.look(&format!("/jobs/{job}/models")).await.ok();
        let committed = rounds.iter().filter(|round| round.phase == Phase::Committed).map(|round| Some(round.number));
        let expected: Vec<Option<u32>> = std::iter::once(None).chain(committed).collect();
        let made_by: Vec<_> = models.items.iter().map(|model| model.round).collect();
        assert_eq!(made_by, expected, "one version per round");
        for (version, model) in (0..).zip(&models.items) {
            assert_eq!(model.version, version);
            let file = Bytes::from(self.model_file(job, version).await);
            assert_eq!((Sha256Hash::of(&file), file.len() as u64), (model.sha256, model.bytes));
        }
    }
}
