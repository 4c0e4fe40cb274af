//! Reports that arrive during a transaction of their job share the next one, each as if it had come alone.

use std::future::Future;

use futures_util::future::join_all;
use serde_json::json;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Engine, Job};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase};

use super::scalars::{report, train_once};
use crate::support::{Answer, Device, WEIGHTS, World, delta_file, evaluated_job, figures, postgres, within_reason};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// The answers to these requests, which are sent one after another while a transaction has the job. On SQLite they join
/// one transaction in this order; PostgreSQL has begun one for the first, which waits there for the job.
async fn together<F>(world: &World, job: JobId, requests: Vec<F>) -> Vec<Answer>
where
    F: Future<Output = Answer> + Send + 'static,
{
    let mut busy = world.app().db.begin().await.unwrap();
    busy.lock_job(job).await.unwrap();
    let mut answers = Vec::new();
    for (sent, request) in (1..).zip(requests) {
        answers.push(tokio::spawn(request));
        let arrived = async {
            while world.app().db.engine() == Engine::Sqlite && world.app().updates.acceptance.waiting(job) < sent {
                tokio::task::yield_now().await;
            }
        };
        within_reason(arrived).await;
    }
    drop(busy);
    join_all(answers).await.into_iter().map(Result::unwrap).collect()
}

/// Goal: a round closes at its goal whatever comes at once. Method: five updates wait together for a round that wants
/// three; two of them are too late, and all repeat what they sent.
async fn a_round_closes_at_its_goal(world: World) {
    let job = world.job(json!({ "round": { "updates_goal": 3, "over_selection": 1.6 } })).await;
    let devices: [_; 5] = world.devices().await;
    let assignments = world.assign(devices.each_ref()).await;
    let updates = || {
        let update = |(device, assignment): (&Device, _)| {
            let (device, body) = (device.clone(), delta_file(assignment, &STEP));
            let id = assignment.id;
            async move { device.put_update(id, &figures(10), body).await }
        };
        devices.iter().zip(&assignments).map(update).collect::<Vec<_>>()
    };
    let answers = together(&world, job.head.id, updates()).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 3);
    for answer in answers.into_iter().filter(|answer| answer.status != 200) {
        answer.refused(ProblemType::AssignmentClosed);
    }
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.expired, round.weight), (Phase::Aggregating, 3, 2, 30));
    let again = join_all(updates()).await;
    assert_eq!(again.iter().filter(|answer| answer.status == 200).count(), 3, "acknowledged again, and not counted");
    let states = world.assignments(job.head.id, 1).await;
    let late = states.iter().filter(|one| one.state == AssignmentState::Expired && one.late_at_ms.is_some());
    assert_eq!(late.count(), 2, "they came back");
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.weight), (Phase::Committed, 3, 30));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn updates_that_come_together_close_their_round_at_its_goal() {
    a_round_closes_at_its_goal(World::start_on_sqlite().await).await;
}

#[tokio::test]
async fn updates_that_come_together_close_their_round_at_its_goal_on_postgresql() {
    let Some(database) = postgres().await else { return };
    a_round_closes_at_its_goal(World::start_on(database).await).await;
}

/// Goal: a report that cannot be stored fails no other. Method: of three evaluations that wait together the second
/// counts other classes than the first.
#[tokio::test]
async fn a_report_that_fails_its_transaction_is_refused_alone() {
    let world = World::start_on_sqlite().await;
    let job: Job = world.create_job(&evaluated_job(&json!({ "evaluation": { "reports_goal": 3 } }))).await.ok();
    let [trainer, x, y, z] = world.devices().await;
    let evaluators = [x, y, z].map(|device| device.with("evaluator", "yes"));
    train_once(&world, &trainer).await;
    let assignments = world.assign(evaluators.each_ref()).await;
    let counted = [&[4, 6][..], &[4, 5, 1], &[5, 5]];
    let requests = evaluators.iter().zip(&assignments).zip(counted).map(|((device, assignment), examples)| {
        let (device, id) = (device.clone(), assignment.id);
        let classes = json!({ "kind": "per_class", "examples": examples, "right": examples });
        async move { device.evaluate(id, &report(&json!({ "accuracy": 1.0, "classes": classes }))).await }
    });
    let [first, second, third] = together(&world, job.head.id, requests.collect()).await.try_into().ok().unwrap();
    first.value();
    let problem = second.refused(ProblemType::UpdateRejected);
    assert!(problem.detail.contains("3 classes, where the round counts 2"), "{}", problem.detail);
    third.value();
    world.drive().await;
    let round = world.evaluation(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.rejected), (Phase::Committed, 2, 1));
    assert_eq!(round.classes.unwrap().examples, [9, 11]);
    world.check_books(job.head.id).await;
}
