//! The model that a round makes.

use serde_json::json;

use crate::support::{WEIGHTS, World, postgres};

/// Goal: version 1 is version 0 plus the mean of the deltas weighted by examples, times the server's learning rate.
/// Method: three clients send known deltas; the mean is computed here in f64.
#[tokio::test]
async fn the_next_version_is_the_weighted_mean_of_the_updates() {
    let world = World::start().await;
    let changes = json!({
        "round": { "updates_goal": 3 },
        "aggregation": { "optimizer": { "kind": "sgd", "learning_rate": 0.5 } },
    });
    let job = world.job(changes).await;
    let [a, b, c] = world.devices().await;
    let assignments = world.assign([&a, &b, &c]).await;
    let deltas: [[f32; WEIGHTS]; 3] =
        [[0.1, -0.2, 0.3, 1.5, -2.5, 0.0], [-7.5, 0.25, 1e-3, 1.0, 2.5, 1e-20], [0.3, 0.3, -0.3, -8.0, 8.0, 0.125]];
    let examples = [3, 1000, 77];
    for ((device, assignment), (delta, weight)) in
        [&a, &b, &c].into_iter().zip(&assignments).zip(deltas.iter().zip(examples))
    {
        device.contribute(assignment, delta, weight).await;
    }
    world.drive().await;
    let (before, after) = (world.weights(job.head.id, 0).await, world.weights(job.head.id, 1).await);
    let total: f64 = examples.iter().map(|weight| f64::from(*weight)).sum();
    for index in 0..WEIGHTS {
        let weighted = deltas.iter().zip(examples).map(|(delta, weight)| f64::from(delta[index]) * f64::from(weight));
        let expected = f64::from(before[index]) + 0.5 * weighted.sum::<f64>() / total;
        let nearest = expected as f32;
        let near = [nearest.next_down(), nearest, nearest.next_up()];
        assert!(near.contains(&after[index]), "weight {index}: {} instead of {expected}", after[index]);
    }
    let round = world.round(job.head.id, 1).await;
    assert_eq!(round.weight, 1080);
    let norms: Vec<f64> =
        world.assignments(job.head.id, 1).await.iter().map(|held| held.update_norm.unwrap()).collect();
    for (norm, delta) in norms.iter().zip(&deltas) {
        let expected = delta.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        assert!((norm - expected).abs() < 1e-9, "{norm} instead of {expected}");
    }
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_version_never_changes_and_the_same_updates_in_any_order_make_the_same_bytes() {
    let deltas: [[f32; WEIGHTS]; 3] = [[0.1; WEIGHTS], [-0.37; WEIGHTS], [1e-7; WEIGHTS]];
    let mut files = Vec::new();
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let world = World::start().await;
        let job = world.job(json!({ "round": { "updates_goal": 3 } })).await;
        let devices: [_; 3] = world.devices().await;
        let [a, b, c] = &devices;
        for round in 1..=2 {
            let assignments = world.assign([a, b, c]).await;
            for place in order {
                devices[place].contribute(&assignments[place], &deltas[place], 10 + place as u32).await;
            }
            world.drive().await;
            assert_eq!(world.job_now(job.head.id).await.head.model_version, Some(round));
        }
        let mut versions = Vec::new();
        for version in 0..=2 {
            versions.push(world.model_file(job.head.id, version).await);
        }
        world.check_books(job.head.id).await;
        files.push(versions);
    }
    assert_eq!(files[0], files[1]);
    assert_eq!(files[0], files[2]);
    assert_ne!(files[0][1], files[0][2]);
}

/// Goal: step, diversity and cosines of a round are those of its updates, whatever came first.
/// Method: two orthogonal updates of equal weight and known lengths, then two that cancel out.
async fn updates_are_measured(world: World) {
    let changes = json!({
        "round": { "updates_goal": 2 },
        "aggregation": { "optimizer": { "kind": "sgd", "learning_rate": 0.5 } },
    });
    let job = world.job(changes).await;
    let [a, b] = world.devices().await;
    let mut along = [0.0; WEIGHTS];
    along[0] = 4.0;
    let mut across = [0.0; WEIGHTS];
    across[1] = 3.0;
    let [first, second] = world.assign([&a, &b]).await;
    b.contribute(&second, &across, 10).await;
    a.contribute(&first, &along, 10).await;
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    // The mean is (2, 1.5), of which the server goes half the way.
    assert_eq!((round.step_norm, round.diversity), (Some(1.25), Some(1.0)));
    let held = world.assignments(job.head.id, 1).await;
    assert_eq!(held.iter().map(|held| held.cosine).collect::<Vec<_>>(), [Some(0.8), Some(0.6)]);

    let [first, second] = world.assign([&a, &b]).await;
    a.contribute(&first, &along, 30).await;
    b.contribute(&second, &along.map(|value| value * -3.0 / 2.0), 20).await;
    world.drive().await;
    let round = world.round(job.head.id, 2).await;
    assert_eq!((round.step_norm, round.diversity), (Some(0.0), None), "they cancel out");
    assert!(world.assignments(job.head.id, 2).await.iter().all(|held| held.cosine.is_none()));
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn the_updates_of_a_round_are_measured() {
    updates_are_measured(World::start().await).await;
}

#[tokio::test]
async fn the_updates_of_a_round_are_measured_on_postgresql() {
    let Some(database) = postgres().await else { return };
    updates_are_measured(World::start_on(database).await).await;
}

/// Goal: a job says how many updates its rounds can use. Method: two clients send updates of the
/// same direction, so that one of them would do.
#[tokio::test]
async fn a_job_says_how_many_updates_its_rounds_can_use() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 2 } })).await;
    let [a, b] = world.devices().await;
    for round in 0..6 {
        assert_eq!(world.job_now(job.head.id).await.progress.unwrap().useful_updates.is_some(), round >= 5);
        let [to_a, to_b] = world.assign([&a, &b]).await;
        a.contribute(&to_a, &[0.5; WEIGHTS], 10).await;
        b.contribute(&to_b, &[0.5; WEIGHTS], 10).await;
        world.drive().await;
    }
    let useful = world.job_now(job.head.id).await.progress.unwrap().useful_updates.unwrap();
    assert_eq!((useful.updates, useful.batch), (Some(1), Some(10)), "{}", useful.text);
    assert!(useful.text.contains("about one update"), "{}", useful.text);
}
