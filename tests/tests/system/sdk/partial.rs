//! Stragglers whose job lets partial work count.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{
    Client, EvaluateTask, Evaluated, HttpTransport, Outcome, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::state::AssignmentState;

use super::session;
use crate::support::{JumpingClock, World};

/// Steps that the trainer would like to take, one a second; each adds 0.25. The deadline is 10 s.
const STEPS: u64 = 20;

struct Slow(Arc<JumpingClock>);

impl Trainer for Slow {
    fn examples(&self) -> u64 {
        10
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let mut values = task.model.values().to_vec();
        let mut steps = 0;
        while steps < STEPS {
            if should_stop() {
                return Err(TrainError::Interrupted);
            }
            if steps > 0 && task.is_over() {
                break;
            }
            self.0.advance_ms(1_000);
            values.iter_mut().for_each(|value| *value += 0.25);
            steps += 1;
        }
        Ok(Trained::new(values, 10, steps, 0.5))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

async fn outcome(world: &World, training: Value) -> (tributary_protocol::id::JobId, Outcome) {
    let job = world.job(json!({ "training": training })).await.head.id;
    let (directory, clock) = (TempDir::new().unwrap(), Arc::new(JumpingClock::default()));
    let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory.path());
    let transport = Arc::new(HttpTransport::new(world.http.clone()));
    let client = builder.transport(transport).clock(Arc::clone(&clock) as Arc<_>).build().unwrap();
    (job, session(world, &client, &mut Slow(clock)).await.unwrap())
}

/// Goal: a client that would miss the deadline contributes the steps that it has taken.
#[tokio::test]
async fn a_straggler_sends_what_it_has_trained_where_the_job_allows_it() {
    let world = World::start().await;
    let (job, outcome) = outcome(&world, json!({ "partial_work": 0.65 })).await;
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    let assignment = &world.assignments(job, 1).await[0];
    assert_eq!((assignment.state, assignment.weight), (AssignmentState::Reported, Some(10)));
    let (before, after) = (world.weights(job, 0).await, world.weights(job, 1).await);
    assert!(before.iter().zip(&after).all(|(before, after)| (after - before - 7.0 * 0.25).abs() < 1e-5));
    world.check_books(job).await;
}

#[tokio::test]
async fn without_partial_work_a_straggler_is_too_late() {
    let world = World::start().await;
    let (job, outcome) = outcome(&world, json!({})).await;
    assert!(matches!(outcome, Outcome::TooLate { round: 1, .. }), "{outcome:?}");
    assert_eq!(world.assignments(job, 1).await[0].state, AssignmentState::Assigned);
}
