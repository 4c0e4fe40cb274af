//! A job that standardises its columns over all clients: exact sums first, then training, then predictions.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::examples::{MemoryExamples, RawTargets};
use tributary_client::predict::UsableModel;
use tributary_client::{AlwaysOn, Client, LayerTrainer, Outcome};
use tributary_protocol::card::ModelCard;
use tributary_protocol::device::{CheckInResponse, WaitsFor};
use tributary_protocol::id::JobId;
use tributary_protocol::inputs::Inputs;
use tributary_protocol::operator::Job;
use tributary_protocol::safetensors::{model_from_bytes, model_to_bytes};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{Phase, Task};

use crate::support::{Answer, World, draw_everybody, http, job_file, postgres, within_reason};

const SILOS: usize = 5;
/// One that is measured from another origin at each site, one in millions, and a category.
const COLUMNS: usize = 3;

fn job(name: &str) -> Value {
    let mut file = job_file(&json!({
        "name": name,
        "training": { "epochs": 6, "batch_size": 8, "optimizer": { "kind": "adam", "learning_rate": 0.02 } },
        "round": { "updates_goal": SILOS, "updates_min": 3 },
        "stop": { "rounds": 3 },
    }));
    file["model"] = json!({
        "input": [4],
        "layers": [
            { "kind": "linear", "out_features": 8 }, { "kind": "relu" }, { "kind": "linear", "out_features": 2 },
        ],
        "inputs": {
            "standardize": "federated",
            "columns": [
                { "name": "age", "unit": "years" },
                { "name": "cells", "missing": "replace" },
                { "name": "ward", "kind": "category", "categories": ["east", "west"], "missing": "replace" },
            ],
            "target": { "name": "stays", "classes": ["no", "yes"] },
        },
    });
    file
}

/// Rows of a site: who is old with many cells stays. Sites have other ages, some cells are missing.
fn rows(site: usize) -> (Vec<f64>, Vec<u32>) {
    let mut stream = Seed(3).derive("site", site as u64).stream();
    let (mut values, mut classes) = (Vec::new(), Vec::new());
    for row in 0..40 + 9 * site {
        let age = 30.0 + 8.0 * site as f64 + 20.0 * f64::from(stream.uniform(-1.0, 1.0));
        let cells = 5e6 + 1e6 * f64::from(stream.uniform(-1.0, 1.0));
        let is_missing = row % 11 == 3;
        classes.push(u32::from((age - 46.0) / 15.0 + (cells - 5e6) / 6e5 > 0.0));
        values.extend([age, if is_missing { f64::NAN } else { cells }, (row % 3 % 2) as f64]);
    }
    (values, classes)
}

fn silo(site: usize) -> LayerTrainer {
    let (values, classes) = rows(site);
    LayerTrainer::new(Arc::new(MemoryExamples::from_rows(COLUMNS, values, RawTargets::Classes(classes)).unwrap()))
}

/// A client that has checked in once, so that the coordinator knows its examples.
async fn client(world: &World, folder: &TempDir) -> Client {
    let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(folder.path());
    let client = builder.http_client(http()).wait(std::time::Duration::ZERO).build().unwrap();
    within_reason(client.run_once(&mut silo(0), &AlwaysOn)).await.unwrap();
    client
}

/// Mean and deviation of the present values of a column of the pooled table, added up in its order.
fn pooled(column: usize) -> (f64, f64) {
    let tables: Vec<f64> = (0..SILOS).flat_map(|site| rows(site).0).collect();
    let present = || tables.iter().skip(column).step_by(COLUMNS).filter(|value| !value.is_nan());
    let count = present().count() as f64;
    let mean = present().sum::<f64>() / count;
    (mean, (present().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

fn assert_near(got: Option<f64>, wanted: f64) {
    let got = got.unwrap();
    assert!((got - wanted).abs() <= 1e-12 * wanted.abs(), "{got} instead of {wanted}");
}

async fn inputs_now(world: &World, job: JobId) -> Inputs {
    world.job_now(job).await.file.model.inputs.unwrap()
}

/// Describes the tables, the sites in this order, in a job that this coordinator drives. Answers the inputs then.
async fn described(driver: &World, job: JobId, clients: &[Client], order: [usize; SILOS]) -> Inputs {
    draw_everybody(driver).await;
    for place in order {
        let outcome = within_reason(clients[place].run_once(&mut silo(place), &AlwaysOn)).await.unwrap();
        assert!(matches!(outcome, Outcome::Described { round: 1, .. }), "{outcome:?}");
    }
    driver.drive().await;
    inputs_now(driver, job).await
}

fn assert_pooled(inputs: &Inputs) {
    for (column, (mean, deviation)) in [(0, pooled(0)), (1, pooled(1))] {
        assert_near(inputs.columns[column].mean, mean);
        assert_near(inputs.columns[column].deviation, deviation);
    }
}

#[tokio::test]
async fn sites_standardise_together_and_the_model_predicts_from_raw_rows() {
    let world = World::start().await;
    let job: Job = world.create_job(&job("stays")).await.ok();
    let id = job.head.id;
    let folders: Vec<_> = (0..SILOS).map(|_| TempDir::new().unwrap()).collect();
    let mut clients = Vec::new();
    for folder in &folders {
        clients.push(client(&world, folder).await);
    }
    let inputs = described(&world, id, &clients, [0, 1, 2, 3, 4]).await;
    assert_pooled(&inputs);
    assert_eq!(inputs.columns[2].replacement, Some(0.0), "most rows are of the ward east");
    assert_eq!(world.description(id, 1).await.phase, Phase::Committed);
    for round in 1..=3 {
        draw_everybody(&world).await;
        for (place, client) in clients.iter().enumerate() {
            let outcome = within_reason(client.run_once(&mut silo(place), &AlwaysOn)).await.unwrap();
            assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
        }
        world.drive().await;
        assert_eq!(world.round(id, round).await.phase, Phase::Committed);
    }
    // Each site has the version that its last training began from, and predicts with it.
    let held = clients[2].model("stays").unwrap().unwrap();
    assert_eq!((held.card().version, held.class_name(1).as_str()), (2, "yes"));
    assert!(held.predict(&rows(0).0[..COLUMNS]).unwrap().class.is_some());
    assert!(clients[2].model("others").unwrap().is_none());
    let job = world.job_now(id).await;
    let plain = world.model_file(id, 3).await;
    let card = ModelCard {
        job: job.file.name.clone(),
        version: 3,
        sha256: tributary_protocol::hash::Sha256Hash::of(&plain),
        plan_sha256: job.plan_hash,
        loss: job.file.training.loss,
        model: job.file.model.clone(),
    };
    let model = model_from_bytes(&plain).unwrap();
    let usable = UsableModel::from_bytes(&model_to_bytes(&model, &card.metadata())).unwrap();
    let (mut right, mut all) = (0, 0);
    for site in 0..SILOS {
        let (values, classes) = rows(site);
        for (row, class) in values.chunks(COLUMNS).zip(classes) {
            right += usize::from(usable.predict(row).unwrap().class == Some(class as usize));
            all += 1;
        }
    }
    // A missing value of the second column leaves some rows open.
    assert!(right * 100 > all * 88, "{right} of {all}");
}

#[tokio::test]
async fn three_coordinators_find_what_one_finds() {
    let Some(database) = postgres().await else { return };
    let one = World::start_on(database).await;
    let (other, third) = (one.beside().await, one.beside_as("third").await);
    let id = one.create_job(&job("stays")).await.ok::<Job>().head.id;
    let folders: Vec<_> = (0..SILOS).map(|_| TempDir::new().unwrap()).collect();
    let mut clients = Vec::new();
    for (world, folder) in [&one, &other, &third].into_iter().cycle().zip(&folders) {
        clients.push(client(world, folder).await);
    }
    assert_pooled(&described(&one, id, &clients, [3, 0, 4, 1, 2]).await);
}

#[tokio::test]
async fn order_and_a_restart_change_no_bit() {
    let mut first = None;
    for (order, restarts) in [([0, 1, 2, 3, 4], false), ([4, 2, 0, 3, 1], true)] {
        let mut world = World::start().await;
        let job: Job = world.create_job(&job("stays")).await.ok();
        let folders: Vec<_> = (0..SILOS).map(|_| TempDir::new().unwrap()).collect();
        let mut clients = Vec::new();
        for folder in &folders {
            clients.push(client(&world, folder).await);
        }
        draw_everybody(&world).await;
        for (at, place) in order.into_iter().enumerate() {
            if restarts && at == 3 {
                world.restart().await;
                clients.clear();
                for folder in &folders {
                    let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(folder.path());
                    clients.push(builder.http_client(http()).wait(std::time::Duration::ZERO).build().unwrap());
                }
            }
            within_reason(clients[place].run_once(&mut silo(place), &AlwaysOn)).await.unwrap();
        }
        world.drive().await;
        let inputs = inputs_now(&world, job.head.id).await;
        assert!(!inputs.lacks_statistics());
        let first = first.get_or_insert_with(|| inputs.clone());
        assert_eq!(&inputs, first);
    }
}

#[tokio::test]
async fn a_site_with_few_rows_tells_nothing_and_small_counts_are_withheld() {
    let world = World::start().await;
    let mut file = job("stays");
    file["round"]["updates_goal"] = json!(2);
    file["round"]["updates_min"] = json!(1);
    let job: Job = world.create_job(&file).await.ok();
    let folders: Vec<_> = (0..2).map(|_| TempDir::new().unwrap()).collect();
    let (small, large) = (client(&world, &folders[0]).await, client(&world, &folders[1]).await);
    draw_everybody(&world).await;
    let few = MemoryExamples::from_rows(COLUMNS, vec![1.0; 2 * COLUMNS], RawTargets::Classes(vec![0, 1])).unwrap();
    let refused = within_reason(small.run_once(&mut LayerTrainer::new(Arc::new(few)), &AlwaysOn)).await.unwrap_err();
    assert!(refused.to_string().contains("2 rows, and this client tells nothing of fewer than 5"), "{refused}");
    // Four rows of the ward west are fewer than five.
    let mut values: Vec<f64> = (0..12).flat_map(|row| [f64::from(row), 1.0, f64::from(u8::from(row < 4))]).collect();
    values[1] = f64::NAN;
    let rows = MemoryExamples::from_rows(COLUMNS, values, RawTargets::Classes(vec![0; 12])).unwrap();
    within_reason(large.run_once(&mut LayerTrainer::new(Arc::new(rows)), &AlwaysOn)).await.unwrap();
    world.drive().await;
    let inputs = inputs_now(&world, job.head.id).await;
    assert_eq!((inputs.columns[0].mean, inputs.columns[1].deviation), (Some(5.5), Some(1.0)));
    assert_eq!(inputs.columns[2].replacement, Some(0.0));
    let assignments = world.look(&format!("/jobs/{}/rounds/1/assignments?task=describe", job.head.id)).await.value();
    let states: Vec<&str> =
        assignments["items"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert!(states.contains(&"failed") && states.contains(&"reported"), "{states:?}");
}

#[tokio::test]
async fn a_job_says_that_nobody_came_to_describe() {
    let world = World::start().await;
    let job: Job = world.create_job(&job("stays")).await.ok();
    world.drive().await;
    world.pass_ms(59_000).await;
    let waits = world.job_now(job.head.id).await.health;
    assert!(waits[0].text.contains("5"), "{waits:?}");
    world.pass_ms(1_000).await;
    world.drive().await;
    assert_eq!(world.description(job.head.id, 1).await.phase, Phase::Abandoned);
    world.pass_ms(1_000).await;
    world.drive().await;
    world.pass_ms(60_000).await;
    let abandoned = world.job_now(job.head.id).await.health;
    assert!(abandoned.iter().any(|line| line.text.contains("Description 2")), "{abandoned:?}");
}

#[tokio::test]
async fn a_client_that_may_not_describe_learns_why() {
    let world = World::start().await;
    let mut file = job("stays");
    file["eligibility"] = json!({ "examples_min": 5 });
    world.create_job(&file).await.ok::<Job>();
    world.drive().await;
    let poor = world.device().await.holding(4);
    let CheckInResponse::Retry { waits_for: Some(told), .. } = poor.check_in(0).await else { panic!("it got work") };
    let reason = "4 examples, where the job requires 5".to_owned();
    assert_eq!(told, WaitsFor::Admission { job: "stays".parse().unwrap(), reason });
}

#[tokio::test]
async fn sums_that_no_table_has_are_refused_and_change_nothing() {
    let world = World::start().await;
    let mut file = job("stays");
    file["round"]["updates_goal"] = json!(2);
    file["round"]["updates_min"] = json!(2);
    let job: Job = world.create_job(&file).await.ok();
    let [honest, liar] = world.devices().await;
    let given = world.assign([&honest, &liar]).await;
    assert!(given.iter().all(|assignment| assignment.task == Task::Describe));
    let good = json!({ "examples": 6, "columns": [
        { "numbers": { "count": 6, "sum": "110680464442257309696", "squares": "2041694201525630780780247644590609268736" } },
        { "numbers": { "count": 0, "sum": "0", "squares": "0" } },
        { "categories": [4, 2] },
    ] });
    let put = async |device: &crate::support::Device, at: usize, body: &Value| {
        let path = format!("/assignments/{}/description", given[at].id);
        Answer::to(device.request(Method::PUT, &path).json(body)).await
    };
    assert_eq!(put(&honest, 0, &good).await.status, 200);
    assert_eq!(put(&honest, 0, &good).await.status, 200, "the same again");
    let mut other = good.clone();
    other["examples"] = json!(7);
    assert_eq!(put(&honest, 0, &other).await.status, 409, "other sums");
    let mut wrong = good.clone();
    wrong["columns"][2] = json!({ "categories": [4, 3] });
    let refused = put(&liar, 1, &wrong).await;
    assert_eq!(refused.status, 422);
    assert!(String::from_utf8_lossy(&refused.body).contains("ward: counts and sums that no values have"));
    world.drive().await;
    assert!(inputs_now(&world, job.head.id).await.lacks_statistics(), "one description of two came");
    let round = world.description(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported, round.rejected), (Phase::Abandoned, 1, 1));
    world.pass_ms(4_000).await;
    let given = world.assign([&honest, &liar]).await;
    assert!(given.iter().all(|assignment| (assignment.task, assignment.round) == (Task::Describe, 2)));
}
