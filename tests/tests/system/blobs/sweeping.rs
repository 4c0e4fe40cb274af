//! What nothing refers to is deleted, when it is old enough, and nothing else.

use std::sync::Arc;

use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde_json::json;
use tributary_server::blob::sweep::{self, ORPHAN_AGE_MS, Swept, sweep};
use tributary_server::blob::{BlobError, Blobs, OpenedStore, StoreError};

use super::faulty::{Call, Fault};
use super::{counts, faulty, in_memory, objects};
use crate::support::{NOW_MS, WEIGHTS, World, within_reason};

async fn swept(world: &World, now_ms: i64) -> Result<Swept, BlobError> {
    let Blobs::Store(store) = &world.app().blobs else { panic!("the world has a store") };
    sweep(&world.app().db, store, now_ms).await
}

/// When the newest object of the store was put, by the store's clock.
async fn newest_ms(store: &OpenedStore) -> i64 {
    objects(store).await.iter().map(|object| object.last_modified.timestamp_millis()).max().unwrap()
}

/// Puts an object beside those of the world, as a crash would leave it.
async fn leave(store: &OpenedStore, name: &str) {
    let known = objects(store).await[0].location.clone();
    let deployment = known.parts().next().unwrap();
    store.objects.put(&Path::from_iter([deployment]).join(name), "left".into()).await.unwrap();
}

#[tokio::test]
async fn old_orphans_go_and_young_ones_and_bodies_in_use_stay() {
    let store = in_memory();
    let world = World::start_with_blobs(Some(store.clone())).await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    world.drive().await;
    let [work] = world.assign([&device]).await;
    device.contribute(&work, &[0.5; WEIGHTS], 3).await;
    for number in 0..1_100 {
        leave(&store, &format!("orphan-{number}")).await;
    }
    let elsewhere = Path::from("another-deployment/model/x");
    store.objects.put(&elsewhere, "theirs".into()).await.unwrap();

    let newest_ms = newest_ms(&store).await;
    assert_eq!(swept(&world, newest_ms).await.unwrap(), Swept { objects: 1_102, orphans: 0 });
    assert_eq!(swept(&world, newest_ms + 1 + ORPHAN_AGE_MS).await.unwrap(), Swept { objects: 1_102, orphans: 1_100 });
    assert_eq!(swept(&world, i64::MAX).await.unwrap(), Swept { objects: 2, orphans: 0 });
    store.objects.head(&elsewhere).await.unwrap();

    // The update that was in use counts, and goes with its round.
    world.drive().await;
    assert_eq!(swept(&world, i64::MAX).await.unwrap(), Swept { objects: 2, orphans: 0 });
    let expected: Vec<f32> = world.weights(job.head.id, 0).await.iter().map(|value| value + 0.5).collect();
    assert_eq!(world.weights(job.head.id, 1).await, expected);
}

#[tokio::test]
async fn a_sweep_that_fails_deletes_nothing_wrong_and_the_next_one_goes_on() {
    let (faulty, store) = faulty();
    let world = World::start_with_blobs(Some(store.clone())).await;
    world.job(json!({})).await;
    leave(&store, "orphan").await;
    for call in [Call::List, Call::Delete] {
        faulty.set(Fault::Refuses(call));
        let failed = swept(&world, i64::MAX).await.unwrap_err();
        assert!(matches!(failed, BlobError::Store(StoreError::Refused { .. })), "{failed}");
    }
    faulty.set(Fault::None);
    assert_eq!(objects(&store).await.len(), 2);
    assert_eq!(swept(&world, i64::MAX).await.unwrap(), Swept { objects: 2, orphans: 1 });
    assert_eq!(counts(&store).await, (0, 1));
}

#[tokio::test]
async fn the_coordinator_sweeps_at_its_start_and_every_hour_until_it_stops() {
    let store = in_memory();
    let world = World::start_with_blobs(Some(store.clone())).await;
    world.job(json!({})).await;
    let gone = async || {
        while objects(&store).await.len() > 1 {
            tokio::task::yield_now().await;
        }
    };

    leave(&store, "first").await;
    world.hand.advance_ms(newest_ms(&store).await + 2 * ORPHAN_AGE_MS - NOW_MS);
    let app = Arc::clone(world.app());
    let sweeping = tokio::spawn(async move { sweep::run(&app.blobs, &app.db, &app.clock, &app.stopping).await });
    within_reason(gone()).await;
    leave(&store, "second").await;
    world.hand.advance_ms(60 * 60 * 1_000);
    within_reason(gone()).await;
    world.app().stopping.cancel();
    within_reason(sweeping).await.unwrap();
}

#[tokio::test]
async fn a_body_that_waited_longer_than_an_orphan_may_is_stored_again() {
    let world = World::start_with_blobs(Some(in_memory())).await;
    let app = world.app();
    let mut staged = app.workbench().stage("model/x/0".into(), "body".into(), NOW_MS).await.unwrap();
    let mut tx = app.db.begin().await.unwrap();
    let refused = staged.settle(&mut tx, NOW_MS + 60 * 60 * 1_000 + 1).await.unwrap_err();
    assert!(matches!(refused, BlobError::Stale(_)), "{refused}");
    staged.settle(&mut tx, NOW_MS + 60 * 60 * 1_000).await.unwrap();
}
