//! When the stages of a session ended, as operators see it.

use serde_json::json;
use tempfile::TempDir;
use tributary_client::Outcome;

use super::sessions::session;
use crate::support::{Adds, Meanwhile, NOW_MS, World, figures, postgres, sdk_client};

/// Goal: download, training and upload of a session of the SDK are told apart.
/// Method: the coordinator's clock moves in training alone, by a second.
async fn stages_are_told_apart(world: World) {
    let job = world.job(json!({ "round": { "updates_goal": 1 } })).await;
    let directory = TempDir::new().unwrap();
    let hand = std::sync::Arc::clone(&world.hand);
    let mut trainer = Meanwhile(Adds::new(0.5), move || {
        hand.advance_ms(1_000);
        Ok(())
    });
    let outcome = session(&world, &sdk_client(&world, directory.path()), &mut trainer).await.unwrap();
    assert!(matches!(outcome, Outcome::Contributed { .. }), "{outcome:?}");
    let held = &world.assignments(job.head.id, 1).await[0];
    assert_eq!((held.assigned_at_ms, held.fetched_at_ms), (NOW_MS, Some(NOW_MS)));
    assert_eq!((held.upload_at_ms, held.upload_ms), (Some(NOW_MS + 1_000), Some(0)));
    assert_eq!(held.shape, "cadtu+");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn the_stages_of_a_session_are_told_apart() {
    stages_are_told_apart(World::start().await).await;
}

#[tokio::test]
async fn the_stages_of_a_session_are_told_apart_on_postgresql() {
    let Some(database) = postgres().await else { return };
    stages_are_told_apart(World::start_on(database).await).await;
}

#[tokio::test]
async fn a_refused_update_and_a_straggler_tell_how_far_they_came() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "deadline_ms": 10_000 } })).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    world.hand.advance_ms(5);
    for device in [&a, &b] {
        let model = device.request(reqwest::Method::GET, &format!("/jobs/{}/models/0", job.head.id));
        assert_eq!(crate::support::Answer::to(model).await.status, 200);
    }
    world.hand.advance_ms(5);
    let update = a.put_update(first.id, &figures(1), b"nonsense".to_vec()).await;
    assert_eq!(update.status, 422);
    world.pass_ms(10_000).await;
    let held = world.assignments(job.head.id, 1).await;
    let times = |index: usize| (held[index].fetched_at_ms, held[index].upload_at_ms, held[index].upload_ms);
    assert_eq!(times(0), (Some(NOW_MS + 5), Some(NOW_MS + 10), Some(0)), "{:?}", first.id);
    assert_eq!(times(1), (Some(NOW_MS + 5), None, None), "{:?}", second.id);
}
