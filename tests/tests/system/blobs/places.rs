//! Wherever bodies are, rounds come out the same.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::problem::ProblemType;
use tributary_server::blob::{BlobError, OpenedStore, model_key, open_store};
use tributary_server::runtime::clock::Clock;
use tributary_server::{Config, Coordinator, ServeError};

use super::{counts, faulty, in_memory, objects};
use crate::streams::left;
use crate::support::{Answer, WEIGHTS, World, bytes_of_tensors};

/// Plays two rounds of two clients, with a restart in the middle of each, and answers the file of version 2.
pub(super) async fn play(store: Option<OpenedStore>) -> Vec<u8> {
    let mut world = World::start_with_blobs(store.clone()).await;
    let job = world.job(json!({ "round": { "updates_goal": 2 } })).await;
    for number in 1..=2 {
        let [a, b] = &world.devices().await;
        world.drive().await;
        let [for_a, for_b] = world.assign([a, b]).await;
        assert_eq!(for_a.model_version, number - 1);
        let delta: Vec<f32> = (0..WEIGHTS).map(|index| 0.1 * index as f32 - 0.3).collect();
        a.contribute(&for_a, &delta, 7).await;
        if let Some(store) = &store {
            assert_eq!(counts(store).await, (1, number as usize));
        }
        // The first update is only where it was stored.
        world.restart().await;
        world.drive().await;
        b.contribute(&for_b, &[0.25; WEIGHTS], 5).await;
        world.drive().await;
        if let Some(store) = &store {
            assert_eq!(counts(store).await, (0, number as usize + 1), "updates are deleted with their round");
        }
    }
    world.check_books(job.head.id).await;
    world.model_file(job.head.id, 2).await
}

#[tokio::test]
async fn rounds_in_memory_and_in_files_end_with_the_same_bits_as_in_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let url = reqwest::Url::from_directory_path(folder.path().join("blobs")).unwrap();
    let in_database = play(None).await;
    assert_eq!(play(Some(in_memory())).await, in_database);
    assert_eq!(play(Some(open_store(url.as_str(), []).unwrap())).await, in_database);
}

/// Uploads a model of several parts, with its tensors in another order than the job's, and reads it in ranges that
/// cross the borders of parts.
pub(super) async fn read_large_model(store: Option<OpenedStore>) {
    const VALUES: usize = (3 << 20) / 4;
    let world = World::start_with_blobs(store).await;
    let names = ["a", "b", "c", "d"];
    let parameters = names.map(|name| json!({ "name": name, "shape": [VALUES] }));
    let job = world.job(json!({ "model": { "parameters": parameters }, "initial_model": "upload" })).await;
    let path = format!("/jobs/{}/models/0", job.head.id);
    let values: Vec<Vec<f32>> =
        (0..4).map(|tensor| (0..VALUES).map(|index| (tensor * VALUES + index) as f32).collect()).collect();
    let tensor = |index: usize| (names[index], &[VALUES][..], values[index].as_slice());
    let uploaded = bytes_of_tensors(&[3, 1, 2, 0].map(tensor), &[("made", "elsewhere")]);
    let cut = uploaded[..uploaded.len() - 1].to_vec();
    let refused = Answer::to(world.operator_request(Method::PUT, &path).body(cut)).await;
    refused.refused(ProblemType::ModelInvalid);
    assert_eq!(left(&world).await, (0, 0), "nothing is kept of a model that was refused");
    Answer::to(world.operator_request(Method::PUT, &path).body(uploaded)).await.value();
    assert_eq!(left(&world).await, (0, 0), "nor of the upload, once the model is made of it");

    let file = bytes_of_tensors(&[0, 1, 2, 3].map(tensor), &[("format", "pt")]);
    assert!(world.model_file(job.head.id, 0).await == file);
    for range in [0..10, (1 << 20) - 3..(1 << 20) + 3, 5..file.len() - 5, file.len() - 1..file.len()] {
        let header = format!("bytes={}-{}", range.start, range.end - 1);
        let answer = Answer::to(world.operator_request(Method::GET, &path).header("range", header)).await;
        assert_eq!(answer.status, 206);
        assert!(answer.body[..] == file[range.clone()], "{range:?}");
    }
}

#[tokio::test]
async fn a_body_of_many_parts_comes_back_whole_and_in_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let url = reqwest::Url::from_directory_path(folder.path()).unwrap();
    read_large_model(None).await;
    read_large_model(Some(in_memory())).await;
    read_large_model(Some(open_store(url.as_str(), []).unwrap())).await;
}

#[tokio::test]
async fn a_part_that_somebody_holds_is_not_read_again() {
    let (store, opened) = faulty();
    let world = World::start_with_blobs(Some(opened)).await;
    let job = world.job(json!({})).await;
    let file = world.model_file(job.head.id, 0).await;
    let (app, bytes) = (world.app(), file.len() as u64);
    let body = app.blobs.find(&app.db, model_key(job.head.id, 0), bytes).await.unwrap();
    let read = async |from: u64, to: u64| {
        let data = app.models.shared_chunks.chunk(&app.blobs, &app.db, &body, from..to).await.unwrap().unwrap();
        assert!(data[..] == file[from as usize..to as usize], "{from}..{to}");
        data
    };
    let before = store.calls();
    let (held, other) = tokio::join!(read(0, bytes), read(3, 9));
    drop(held);
    read(5, bytes).await;
    assert_eq!(store.calls() - before, 1);
    drop(other);
    read(0, bytes).await;
    assert_eq!(store.calls() - before, 2, "nothing is kept that nobody holds");
    let past = app.models.shared_chunks.chunk(&app.blobs, &app.db, &body, bytes..bytes + 1).await.unwrap();
    assert!(past.is_none());
}

#[tokio::test]
async fn a_store_can_be_added_later_but_not_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_memory();
    let mut world = World::start_with_blobs(None).await;
    let before = world.job(json!({ "name": "before" })).await;
    world.stop().await;
    world.set_blobs(Some(store.clone()));
    world.resume().await;
    world.job(json!({ "name": "after" })).await;
    assert_eq!(counts(&store).await, (0, 1));
    assert_eq!(world.weights(before.head.id, 0).await.len(), WEIGHTS);
    world.stop().await;

    let config = Config { database: world.database().into(), ..Config::default() };
    let refused = Coordinator::open_with(&config, Clock::System).await.unwrap_err();
    assert!(matches!(refused, ServeError::Blob(BlobError::NoStore)), "{refused}");
    assert!(refused.to_string().contains("--blobs"));
    // A URL in the configuration opens the store itself.
    let url = reqwest::Url::from_directory_path(folder.path()).unwrap();
    let config = Config { blobs: Some(url.to_string()), ..config };
    assert!(Coordinator::open_with(&config, Clock::System).await.is_ok());
}

#[tokio::test]
async fn databases_that_share_a_store_do_not_see_each_others_objects() {
    let store = in_memory();
    let (one, other) =
        (World::start_with_blobs(Some(store.clone())).await, World::start_with_blobs(Some(store.clone())).await);
    one.job(json!({})).await;
    other.job(json!({})).await;
    let objects = objects(&store).await;
    let deployments: Vec<_> = objects.iter().map(|object| object.location.parts().next().unwrap()).collect();
    assert_eq!(deployments.len(), 2);
    assert_ne!(deployments[0], deployments[1]);
}
