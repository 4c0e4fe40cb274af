//! Rules that combine updates, and optimisers of the server: one round and several, through the whole coordinator.

use serde_json::{Value, json};
use tributary_protocol::model::Companion;
use tributary_protocol::problem::ProblemType;
use tributary_server::db::{MadeFor, model_file_key};

use crate::streams::places;
use crate::support::{Device, WEIGHTS, World};

/// Five honest updates and two attackers, each in the first two weights. All values are exact in f32, so that a tie of
/// Krum's scores is one.
const FIXTURE: [[f32; 2]; 7] =
    [[1.25, 1.25], [1.375, 1.125], [1.125, 1.5], [1.3125, 1.25], [1.1875, 1.1875], [7.0, -7.0], [6.0, -8.0]];

fn whole(update: [f32; 2]) -> [f32; WEIGHTS] {
    let mut delta = [0.0; WEIGHTS];
    delta[..2].copy_from_slice(&update);
    delta
}

/// The change of the first two weights after a round of the fixture; clients report in this order.
async fn step(aggregation: &Value, order: [usize; 7]) -> [f64; 2] {
    let world = World::start().await;
    let file = json!({ "round": { "updates_goal": 7, "updates_min": 7 }, "aggregation": aggregation });
    let job = world.job(file).await;
    let devices: [Device; 7] = world.devices().await;
    let [a, b, c, d, e, f, g] = &devices;
    let assignments = world.assign([a, b, c, d, e, f, g]).await;
    for place in order {
        devices[place].contribute(&assignments[place], &whole(FIXTURE[place]), 10).await;
    }
    world.drive().await;
    assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(1), "{aggregation}");
    world.check_books(job.head.id).await;
    let (before, after) = (world.weights(job.head.id, 0).await, world.weights(job.head.id, 1).await);
    assert_eq!(before[2..], after[2..], "{aggregation}");
    [0, 1].map(|index| f64::from(after[index]) - f64::from(before[index]))
}

/// Goal: each rule gives what its formula gives, whatever the order of arrival. Method: one round of the fixture; the
/// expected values were computed by hand.
#[tokio::test]
async fn every_rule_makes_the_step_of_its_formula_in_any_order_of_arrival() {
    let mean = [19.25 / 7.0, -8.6875 / 7.0];
    for (combine, expected) in [
        (json!("uniform_mean"), mean),
        (json!("weighted_mean"), mean),
        (json!("median"), [1.3125, 1.1875]),
        (json!({ "kind": "trimmed_mean", "trim": 0.3 }), [1.3125, 1.1875]),
        (json!({ "kind": "krum", "byzantine": 2 }), [1.25, 1.25]),
        (json!({ "kind": "multi_krum", "byzantine": 2, "keep": 3 }), [1.25, 3.6875 / 3.0]),
    ] {
        let aggregation = json!({ "combine": combine });
        for order in [[0, 1, 2, 3, 4, 5, 6], [6, 2, 5, 1, 4, 0, 3]] {
            let step = step(&aggregation, order).await;
            let near = step.iter().zip(expected).all(|(step, expected)| (step - expected).abs() < 1e-6);
            assert!(near, "{combine}: {step:?} instead of {expected:?}");
        }
    }
}

/// Goal: rules without a printed value stay with the five honest clients, also with a codec that sends noise and with
/// one whose bodies have no fixed width.
#[tokio::test]
async fn robust_rules_stay_with_the_honest_clients_with_every_kind_of_codec() {
    for combine in [
        json!("median"),
        json!({ "kind": "bulyan", "byzantine": 1 }),
        json!({ "kind": "geometric_median", "iterations": 100 }),
        json!({ "kind": "centered_clipping", "radius": 0.5, "iterations": 20 }),
        json!({ "kind": "krum", "byzantine": 2 }),
    ] {
        for codec in ["f32", "int8", "eden"] {
            let update = json!({ "codec": codec, "magnitude_max": 32.0 });
            let step = step_with(&combine, &update).await;
            let reach = if codec == "eden" { 2.5 } else { 0.7 };
            let near = step.iter().all(|step| (step - 1.25).abs() < reach);
            assert!(near, "{combine} with {codec}: {step:?}");
        }
    }
    let clipped = step_with(&json!({ "kind": "norm_clipping", "norm": 1.5 }), &json!({ "codec": "f32" })).await;
    assert!(clipped.iter().all(|step| step.abs() < 1.5), "{clipped:?}");
}

async fn step_with(combine: &Value, update: &Value) -> [f64; 2] {
    let codecs: &'static [&'static str] = &["f32", "int8", "eden"];
    let world = World::start().await;
    let file = json!({
        "round": { "updates_goal": 7, "updates_min": 7 },
        "aggregation": { "combine": combine }, "update": update,
    });
    let job = world.job(file).await;
    let devices: [Device; 7] = world.devices().await;
    let devices = devices.map(|device| device.reading(codecs));
    let [a, b, c, d, e, f, g] = &devices;
    let assignments = world.assign([a, b, c, d, e, f, g]).await;
    for ((device, assignment), update) in devices.iter().zip(&assignments).zip(FIXTURE) {
        device.contribute(assignment, &whole(update), 10).await;
    }
    world.drive().await;
    let (before, after) = (world.weights(job.head.id, 0).await, world.weights(job.head.id, 1).await);
    [0, 1].map(|index| f64::from(after[index]) - f64::from(before[index]))
}

/// Goal: q-FedAvg and FedNova read losses and steps from the reports. Method: one round of two clients; the expected
/// steps are those of the formulas.
#[tokio::test]
async fn rules_that_weigh_by_reports_read_them() {
    let reported =
        |weight: u32, loss: f64, steps: u64| json!({ "weight": weight, "loss": loss, "steps": steps, "train_ms": 1 });
    let (one, other) = ([0.3f32, -0.1], [-0.1f32, 0.4]);
    let norm = |delta: [f32; 2]| delta.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
    // q = 1 and L = 10: h = |10 d|^2 + 10 F.
    let total = (100.0 * norm(one) + 20.0) + (100.0 * norm(other) + 5.0);
    let fair = [20.0 / total, 5.0 / total];
    // 10 and 30 examples, 2 and 8 steps: the mean number of steps is 6.5.
    let nova = [0.25 * 6.5 / 2.0, 0.75 * 6.5 / 8.0];
    for (changes, [first, second]) in [
        (json!({ "aggregation": { "combine": { "kind": "q_fedavg", "q": 1.0 } } }), fair),
        (json!({ "training": { "algorithm": { "kind": "fed_nova" } } }), nova),
    ] {
        let world = World::start().await;
        let mut file = changes.clone();
        file["round"] = json!({ "updates_goal": 2, "updates_min": 2 });
        let job = world.job(file).await;
        let [a, b] = world.devices().await;
        let [to_a, to_b] = world.assign([&a, &b]).await;
        let body = |assignment, delta| crate::support::delta_file(assignment, &whole(delta));
        a.put_update(to_a.id, &reported(10, 2.0, 2), body(&to_a, one)).await.value();
        b.put_update(to_b.id, &reported(30, 0.5, 8), body(&to_b, other)).await.value();
        world.drive().await;
        let (before, after) = (world.weights(job.head.id, 0).await, world.weights(job.head.id, 1).await);
        for index in 0..2 {
            let expected = first * f64::from(one[index]) + second * f64::from(other[index]);
            let step = f64::from(after[index]) - f64::from(before[index]);
            assert!((step - expected).abs() < 1e-6, "{changes}: {step} instead of {expected}");
        }
        world.check_books(job.head.id).await;
    }
}

/// Plays three rounds of three clients; restarts the coordinator before each commit if told so. Answers the models.
async fn rounds(world: &mut World, changes: &Value, restarts: bool) -> Vec<Vec<u8>> {
    let mut file = changes.clone();
    file["round"] = json!({ "updates_goal": 3, "updates_min": 3 });
    let job = world.job(file).await;
    let devices: [Device; 3] = world.devices().await;
    let [a, b, c] = &devices;
    for round in 0..3u32 {
        let assignments = world.assign([a, b, c]).await;
        for (place, (device, assignment)) in devices.iter().zip(&assignments).enumerate() {
            let value = |index: usize| ((index + 3 * place + 5 * round as usize) % 11) as f32 * 0.1 - 0.37;
            let delta: Vec<f32> = (0..WEIGHTS).map(value).collect();
            device.contribute(assignment, &delta, 7 + place as u32).await;
        }
        if restarts {
            world.restart().await;
        }
        world.drive().await;
        assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(round + 1), "{changes}");
    }
    world.check_books(job.head.id).await;
    let mut files = Vec::new();
    for version in 0..=3 {
        files.push(world.model_file(job.head.id, version).await);
    }
    let mut companions = Vec::new();
    for version in 0..=3 {
        for companion in Companion::ALL {
            let form = MadeFor::Companion(companion);
            if let Some(row) =
                world.app().db.read().await.unwrap().model_file(job.head.id, version, form).await.unwrap()
            {
                companions.push((version, row));
            }
        }
    }
    // Only the newest version has companions, and they are stored as its rows say.
    for (version, row) in companions {
        assert_eq!(version, 3, "{row:?}");
        let key = model_file_key(job.head.id, version, row.form);
        let app = world.app();
        let mut chunks = app.blobs.chunks(&app.db, key, row.sha256).await.unwrap();
        let mut file = Vec::new();
        while let Some(chunk) = chunks.next().await.unwrap() {
            file.extend_from_slice(&chunk);
        }
        assert_eq!(file.len() as u64, row.bytes);
        files.push(file);
    }
    files
}

/// Changes of a job whose updates are gradients.
fn gradients(optimizer: Value) -> Value {
    json!({ "aggregation": { "optimizer": optimizer }, "training": { "epochs": null, "steps": 1 } })
}

/// Goal: the line search reads the reported losses, and keeps what it knows with the version. Method: a loss that
/// rises is answered by a step back along the same direction.
#[tokio::test]
async fn lbfgs_goes_back_when_the_loss_rises() {
    let mut world = World::start().await;
    let job = world.job(gradients(json!({ "kind": "lbfgs" }))).await;
    let device = world.device().await;
    let delta: Vec<f32> = (0..WEIGHTS).map(|index| 0.01 * index as f32).collect();
    for loss in [1.0, 2.0] {
        let [assignment] = world.assign([&device]).await;
        let report = json!({ "weight": 10, "loss": loss, "steps": 1, "train_ms": 1 });
        device.put_update(assignment.id, &report, crate::support::delta_file(&assignment, &delta)).await.value();
        world.restart().await;
        world.drive().await;
    }
    let mut weights = Vec::new();
    for version in 0..3 {
        weights.push(world.weights(job.head.id, version).await);
    }
    for index in 0..WEIGHTS {
        let (there, back) = (weights[1][index] - weights[0][index], weights[2][index] - weights[0][index]);
        // The clients' learning rate is 0.1. The gradient is shorter than 1, so the first step is the gradient.
        assert!((there - delta[index] / 0.1).abs() < 1e-5, "{there}");
        // The loss rises by 1 where it should fall by 0.55: the parabola's minimum is at 0.18.
        assert!(back >= 0.099 * there && back <= 0.501 * there, "{back} of {there}");
    }
}

/// Goal: companions are stored like the model. Method: the same three rounds with and without a restart before every
/// commit, on each place for bodies; all files have the same bits, and older companions are gone.
#[tokio::test]
async fn an_optimiser_goes_on_after_restarts_with_the_same_bits() {
    for (changes, companions) in [
        (json!({ "aggregation": { "optimizer": { "kind": "adam" } } }), 2),
        (
            json!({ "aggregation": { "optimizer": { "kind": "yogi" }, "schedule": { "kind": "warmup", "versions": 2 } } }),
            2,
        ),
        (json!({ "aggregation": { "optimizer": { "kind": "adagrad" } } }), 1),
        (
            json!({
                "aggregation": { "optimizer": { "kind": "sgd", "momentum": 0.9, "nesterov": true } },
                "download": { "delta": true },
            }),
            1,
        ),
        (
            json!({ "aggregation": {
                "combine": { "kind": "centered_clipping", "radius": 0.5 },
                "optimizer": { "kind": "sgd", "momentum": 0.5 },
            } }),
            2,
        ),
        (json!({ "aggregation": { "combine": "median" } }), 0),
        (gradients(json!({ "kind": "lbfgs", "pairs": 2 })), 1),
    ] {
        let undisturbed = rounds(&mut World::start().await, &changes, false).await;
        assert_eq!(undisturbed.len(), 4 + companions, "{changes}");
        assert_eq!(rounds(&mut World::start().await, &changes, true).await, undisturbed, "{changes}");
    }
}

#[tokio::test]
async fn companions_are_the_same_on_every_place_for_bodies() {
    let changes = json!({ "aggregation": { "optimizer": { "kind": "adam" } } });
    let mut files = Vec::new();
    for mut world in places().await {
        files.push(rounds(&mut world, &changes, false).await);
        drop(world);
    }
    assert!(files.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn a_momentum_carries_a_step_into_the_next_round() {
    let world = World::start().await;
    let optimizer = json!({ "kind": "sgd", "learning_rate": 0.5, "momentum": 0.5 });
    let job = world.job(json!({ "aggregation": { "optimizer": optimizer } })).await;
    let device = world.device().await;
    for delta in [1.0, 0.0, 0.0] {
        let [assignment] = world.assign([&device]).await;
        device.contribute(&assignment, &[delta; WEIGHTS], 10).await;
        world.drive().await;
    }
    let mut steps = Vec::new();
    for version in 0..3 {
        let (from, to) = (world.weights(job.head.id, version).await, world.weights(job.head.id, version + 1).await);
        steps.push(to[0] - from[0]);
    }
    for (step, expected) in steps.iter().zip([0.5, 0.25, 0.125]) {
        assert!((step - expected).abs() < 1e-6, "{steps:?}");
    }
    let norm = world.round(job.head.id, 2).await.step_norm.unwrap();
    assert!((norm - 0.25 * (WEIGHTS as f64).sqrt()).abs() < 1e-9, "the norm of the step, not of the updates: {norm}");
}

#[tokio::test]
async fn a_senseless_pair_of_settings_is_refused_with_the_reason() {
    let world = World::start().await;
    let file = crate::support::job_file(&json!({
        "aggregation": { "combine": { "kind": "krum", "byzantine": 1 } }, "round": { "updates_goal": 4, "updates_min": 4 },
    }));
    let problem = world.create_job(&file).await.refused(ProblemType::JobFileInvalid);
    assert!(problem.detail.contains("2 x byzantine + 3 = 5 updates"), "{}", problem.detail);
}

/// Goal: mu of FedProx follows the training loss from round to round, also over a restart and a round without a result.
#[tokio::test]
async fn the_proximal_weight_follows_the_loss_of_the_rounds_before() {
    let mut world = World::start().await;
    let algorithm = json!({ "kind": "fed_prox", "mu": 0.5, "adaptive": { "step": 0.25, "falls": 1 } });
    let job = world.job(json!({ "training": { "algorithm": algorithm }, "round": { "backoff_ms": 1 } })).await;
    let device = world.device().await;
    let mut weights = Vec::new();
    for loss in [Some(1.0), Some(2.0), None, Some(2.5), Some(1.5), Some(1.0)] {
        let [assignment] = world.assign([&device]).await;
        weights.push(assignment.plan.training.algorithm.proximal());
        match loss {
            Some(loss) => {
                let figures = json!({ "weight": 10, "loss": loss, "steps": 1, "train_ms": 1 });
                let body = crate::support::delta_file(&assignment, &[0.5; WEIGHTS]);
                device.put_update(assignment.id, &figures, body).await.value();
            }
            None => drop(device.fail(assignment.id, "diverged").await),
        }
        world.drive().await;
        world.pass_ms(10_000).await;
        world.restart().await;
    }
    assert_eq!(weights, [0.5, 0.5, 0.75, 0.75, 1.0, 0.75]);
    world.check_books(job.head.id).await;
}

/// Goal: the norm of clipping follows the norms of the round before, also over restarts and rounds without updates, and
/// the commit clips to the norm of its own round.
#[tokio::test]
async fn the_norm_of_clipping_follows_the_updates_of_the_rounds_before() {
    let mut world = World::start().await;
    let combine = json!({ "kind": "norm_clipping", "norm": 1.0, "adaptive": { "quantile": 0.5, "rate": 0.2 } });
    let round = json!({ "updates_goal": 2, "updates_min": 2, "backoff_ms": 1 });
    let job = world.job(json!({ "aggregation": { "combine": combine }, "round": round })).await;
    let devices: [Device; 2] = world.devices().await;
    let [a, b] = &devices;
    // Both of the first updates are longer than the norm, then nobody reports, then one is.
    let norms = [Some([4.0f32, 2.0]), None, Some([4.0, 0.5]), Some([0.5, 0.25])];
    let expected = [1.0, f64::exp(0.1), f64::exp(0.1), f64::exp(0.1), 1.0];
    let mut versions = 0;
    for (number, norms) in (1u32..).zip(norms) {
        let assignments = world.assign([a, b]).await;
        let clip_norm = world.round(job.head.id, number).await.clip_norm.unwrap();
        assert!((clip_norm - expected[number as usize - 1]).abs() < 1e-6, "round {number}: {clip_norm}");
        for (place, (device, assignment)) in devices.iter().zip(&assignments).enumerate() {
            match norms {
                Some(norms) => device.contribute(assignment, &whole([norms[place], 0.0]), 10).await,
                None => drop(device.fail(assignment.id, "diverged").await),
            }
        }
        world.drive().await;
        if let Some(norms) = norms {
            let (before, after) =
                (world.weights(job.head.id, versions).await, world.weights(job.head.id, versions + 1).await);
            let mean = norms.iter().map(|norm| f64::from(*norm).min(clip_norm) / 2.0).sum::<f64>();
            let step = f64::from(after[0]) - f64::from(before[0]);
            assert!((step - mean).abs() < 1e-5, "round {number}: {step} instead of {mean}");
            versions += 1;
        }
        world.pass_ms(10_000).await;
        world.restart().await;
    }
    let last = world.round(job.head.id, 5).await.clip_norm.unwrap();
    assert!((last - expected[4]).abs() < 1e-6, "{last}");
    world.check_books(job.head.id).await;
}
