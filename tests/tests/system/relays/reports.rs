//! Evaluations and descriptions through relays come to what they come to without.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::classes::ClassTotals;
use tributary_protocol::device::{Assignment, OpenJobs, ReportAccepted};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::inputs::{Described, Description, Inputs};
use tributary_protocol::operator::{Job, Round};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{Phase, Task};

use super::refusals::{drawn, offers, relay, send_sum};
use super::tree::{ended, next_work, relays};
use crate::support::{Answer, Device, World, delta_file, figures, job_file, within_reason};

const CLIENTS: usize = 6;
/// Numbers of a linear layer from two inputs to two outputs.
const VALUES: usize = 6;
const ROUNDS: u32 = 2;

/// A job as a new user writes it: standardised by all tables, evaluated by all clients.
fn job() -> Value {
    let mut file = job_file(&json!({
        "name": "wards",
        "round": { "updates_goal": CLIENTS, "updates_min": CLIENTS, "deadline_ms": 600_000 },
        "evaluation": { "reports_goal": CLIENTS, "reports_min": CLIENTS, "deadline_ms": 600_000 },
        "stop": { "rounds": ROUNDS },
    }));
    file["model"] = json!({
        "input": [2],
        "layers": [{ "kind": "linear", "out_features": 2 }],
        "inputs": {
            "standardize": "federated",
            "columns": [{ "name": "age" }, { "name": "cells" }],
            "target": { "name": "stays", "classes": ["no", "yes"] },
        },
    });
    file
}

/// The sums of a client's table.
fn description(client: usize, inputs: &Inputs) -> Description {
    let mut sums = Description::empty(inputs);
    sums.examples = 10 + client as u64;
    for row in 0..sums.examples {
        for (column, value) in sums.columns.iter_mut().zip([30.5 + client as f64, 0.1 * row as f64]) {
            let Described::Numbers(moments) = column else { panic!("two columns of numbers") };
            moments.include(value).unwrap();
        }
    }
    sums
}

/// What a client measures: of each class 10 examples, of which more are right the higher its number.
fn evaluation(client: usize) -> Value {
    let (right, examples) = (5 + client, 20);
    let wrong = 10 - right;
    json!({
        "examples": examples, "loss": 1.0 / (1 + client) as f64, "accuracy": right as f64 / 10.0, "evaluate_ms": 3,
        "metrics": { "auc": 0.5 + 0.01 * client as f64 },
        "classes": { "kind": "confusion", "classes": 2, "counts": [right, wrong, wrong, right] },
    })
}

/// Does all the work of a client: a description, and in each round a training and an evaluation.
async fn play(client: usize, device: Device) {
    for _ in 0..1 + 2 * ROUNDS {
        let assignment = within_reason(next_work(&device)).await;
        let id = assignment.id;
        let _: ReportAccepted = match assignment.task {
            Task::Train => {
                let delta = [0.125 * (client as f32 + assignment.round as f32); VALUES];
                let body = delta_file(&assignment, &delta);
                device.put_update(id, &figures(10 + client as u32), body).await.ok()
            }
            Task::Evaluate => device.evaluate(id, &evaluation(client)).await.ok(),
            Task::Describe => {
                let sums = description(client, assignment.plan.model.inputs.as_ref().unwrap());
                put_description(&device, id, "", &sums).await.ok()
            }
        };
    }
}

async fn put_description(device: &Device, id: AssignmentId, query: &str, sums: &Description) -> Answer {
    Answer::to(device.request(Method::PUT, &format!("/assignments/{id}/description{query}")).json(sums)).await
}

/// What a job came to.
struct Played {
    id: JobId,
    inputs: Inputs,
    versions: Vec<Sha256Hash>,
    /// The training rounds, with what their models' evaluations came to.
    trained: Vec<Round>,
    classes: Vec<ClassTotals>,
}

/// What a job came to whose clients are behind these coordinators, as many at each.
async fn played(root: &World, leaves: &[&World]) -> Played {
    let created: Job = root.create_job(&job()).await.ok();
    let id = created.head.id;
    for leaf in leaves {
        // Whoever has a table reads it by the columns of the jobs, before it enrols.
        let asked = leaf.request(Method::GET, "/device/v1/jobs").bearer_auth(&leaf.enrolment);
        let open: OpenJobs = Answer::to(asked).await.ok();
        let columns = open.jobs[0].inputs.as_ref().map(|inputs| inputs.columns[1].name.clone());
        assert_eq!((open.jobs.len(), columns.as_deref()), (1, Some("cells")));
    }
    let each = CLIENTS / leaves.len();
    join_all(join_all((0..CLIENTS).map(async |client| play(client, leaves[client / each].device().await))).await).await;
    within_reason(ended(root, id)).await;
    let inputs = root.job_now(id).await.file.model.inputs.unwrap();
    let (mut versions, mut trained, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    for version in 0..=ROUNDS {
        versions.push(Sha256Hash::of(&root.model_file(id, version).await));
    }
    for number in 1..=ROUNDS {
        trained.push(root.round(id, number).await);
        classes.push(root.evaluation(id, number).await.classes.unwrap());
    }
    root.check_books(id).await;
    Played { id, inputs, versions, trained, classes }
}

#[tokio::test]
async fn relays_describe_and_evaluate_as_their_clients_would() {
    let flat = World::start_driven().await;
    let flat = played(&flat, &[&flat]).await;
    assert_eq!(flat.inputs.columns[0].mean.map(f64::round), Some(33.0));
    let root = World::start_driven().await;
    let [one, two] = relays::<2>(&root).await;
    let tree = played(&root, &[&one, &two]).await;
    assert_eq!((tree.inputs, tree.versions, tree.classes), (flat.inputs, flat.versions, flat.classes));
    for (tree, flat) in tree.trained.iter().zip(&flat.trained) {
        let (on, of) = (tree.measured_on.unwrap(), flat.measured_on.unwrap());
        assert_eq!((on.clients, on.examples, on.worst), (6, of.examples, None));
        assert_eq!((of.clients, of.worst), (6, Some(0.5)));
        let near = |one: Option<f64>, other: Option<f64>| (one.unwrap() - other.unwrap()).abs() < 1e-12;
        assert!(near(tree.accuracy, flat.accuracy) && near(tree.loss, flat.loss), "{tree:?} {flat:?}");
        assert!(near(Some(tree.evaluation_metrics[0].mean), Some(flat.evaluation_metrics[0].mean)));
    }
    // The relay's own page shows what its clients measured.
    let measured = one.evaluation(tree.id, 1).await;
    assert_eq!(measured.measured_on.map(|on| (on.clients, on.worst)), Some((3, Some(0.5))));
    let described = one.description(tree.id, 1).await;
    assert_eq!((described.phase, described.reported), (Phase::Committed, 3));
}

/// Goal: a relay's evaluation or description that breaks a rule is refused by name, and so is a client that says it
/// stands for others.
#[tokio::test]
async fn reports_for_more_clients_than_were_drawn_are_refused() {
    let sums = |assignment: &Assignment| description(0, assignment.plan.model.inputs.as_ref().unwrap());
    for (case, query, words) in [
        ("a relay that says nothing", "", "for how many clients"),
        ("for nobody", "?reports=0", "1 to 3"),
        ("for more than its places", "?reports=4", "4 reports, where 1 to 3"),
    ] {
        let world = World::start().await;
        let _: Job = world.create_job(&job()).await.ok();
        let (relay, others) = (relay(&world).await, [world.device().await, world.device().await, world.device().await]);
        let (offered, waits) = (offers(&relay, 3), others.each_ref().map(Device::wait));
        world.until_waiting(4).await;
        world.drive().await;
        let part = drawn(offered).await;
        assert_eq!((part.task, part.relay.as_ref().map(|terms| terms.places)), (Task::Describe, Some(3)));
        let refused = put_description(&relay, part.id, query, &sums(&part)).await;
        let detail = refused.refused(ProblemType::UpdateRejected).detail;
        assert!(detail.contains(words), "{case}: {detail}");
        let [first, ..] = waits.map(drawn);
        let own = first.await;
        let refused = put_description(&others[0], own.id, "?reports=1", &sums(&own)).await;
        assert!(refused.refused(ProblemType::UpdateRejected).detail.contains("no relay"), "{case}");
    }
}

#[tokio::test]
async fn an_evaluation_for_several_counts_no_more_examples_than_theirs() {
    let world = World::start().await;
    let job = json!({ "round": { "updates_goal": 2 }, "evaluation": { "reports_goal": 2, "reports_min": 2 } });
    let job = world.job(job).await.head.id;
    let relay = relay(&world).await;
    let offered = offers(&relay, 2);
    world.until_waiting(1).await;
    world.drive().await;
    let part = drawn(offered).await;
    let _: ReportAccepted = send_sum(&relay, &part, 2, 60).await.ok();
    world.drive().await;
    let offered = offers(&relay, 2);
    world.until_waiting(1).await;
    world.drive().await;
    let part = drawn(offered).await;
    assert_eq!((part.task, part.plan.weight_max), (Task::Evaluate, 1000));
    let report = |examples: u32| json!({ "examples": examples, "loss": 0.5, "evaluate_ms": 2 });
    let path = format!("/assignments/{}/evaluation?reports=2", part.id);
    let send = async |examples| Answer::to(relay.request(Method::PUT, &path).json(&report(examples))).await;
    let _: ReportAccepted = send(2000).await.ok();
    assert_eq!(send(2001).await.status, 422, "the job's weight_max is 1000");
    world.drive().await;
    let measured = world.evaluation(job, 1).await;
    assert_eq!((measured.phase, measured.reported, measured.weight), (Phase::Committed, 2, 2000), "{measured:?}");
}
