//! Steps: stored with their versions, deleted with them, and exactly what lies between two versions.

use serde_json::json;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::Job;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Phase;
use tributary_protocol::update::{add_model_delta, model_delta_header};
use tributary_server::blob::{Blobs, model_file_key, model_key};
use tributary_server::db::{Db, MadeFor};
use tributary_server::{backup, scheduled};

use super::{bits_of, delta, device, get, get_range, large, model_path, parameters, step_path};
use crate::streams::{left, places};
use crate::support::{Device, WEIGHTS, World};

async fn play_round(world: &World, job: &Job, device: &Device, step: &[f32]) {
    let [assignment] = world.assign([device]).await;
    device.contribute(&assignment, step, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, assignment.round).await.phase, Phase::Committed);
}

/// Goal: in each place for bodies a version is the one before and its step, bit for bit, over restarts.
#[tokio::test]
async fn a_version_is_the_one_before_and_its_step_bit_for_bit() {
    for mut world in places().await {
        let job = world.job(large(&[("download", json!({ "delta": true }))])).await;
        let device = device(&world).await;
        let first = world.weights(job.head.id, 0).await;
        let mut chain = first.clone();
        for version in 1..=3 {
            play_round(&world, &job, &device, &delta(version)).await;
            world.restart().await;
            let step = get(&device, &step_path(job.head.id, version)).await;
            assert_eq!(step.status, 200);
            assert!(step.body.len() < 4 * chain.len() * 27 / 100, "{} bytes", step.body.len());
            let header = model_delta_header(&job.head.id.to_string(), version - 1);
            add_model_delta(&mut chain, &step.body, &parameters(&job), header).unwrap();
            let whole = world.weights(job.head.id, version).await;
            assert!(bits_of(&chain) == bits_of(&whole), "version {version}");

            let range = (1 << 20) - 3..step.body.len();
            let part = get_range(&device, &step_path(job.head.id, version), &format!("bytes={}-", range.start)).await;
            assert_eq!((part.status, &part.body[..]), (206, &step.body[range]));
        }
        // What clients sent is in the model, but for the rounding: half a 127th of 2 at most, each time.
        let sent = [1, 2, 3].map(delta);
        let moved = chain.iter().zip(&first).map(|(last, first)| last - first);
        for (index, moved) in moved.enumerate() {
            let sent: f32 = sent.iter().map(|delta| delta[index]).sum();
            assert!((moved - sent).abs() < 3.0 * 0.008 + 1e-5, "{index}: {moved} instead of {sent}");
        }
        let [assignment] = world.assign([&device]).await;
        assert_eq!(assignment.model_deltas.iter().map(|step| step.version).collect::<Vec<_>>(), [1, 2, 3]);
        for step in &assignment.model_deltas {
            let base = world.model_file(job.head.id, step.version - 1).await;
            assert_eq!(Sha256Hash::of(&base), step.base_sha256);
            let body = get(&device, &step_path(job.head.id, step.version)).await.body;
            assert_eq!((Sha256Hash::of(&body), body.len() as u64), (step.sha256, step.bytes));
        }
        assert!(assignment.form.is_none());
        assert_eq!(left(&world).await, (0, 0), "nothing is left over");
    }
}

#[tokio::test]
async fn a_version_without_a_step_has_none_and_a_deleted_one_had_it() {
    let world = World::start().await;
    let retained = json!({ "download": { "delta": true }, "retention": { "models": { "last": 2 } } });
    let job = world.job(retained).await;
    let device = device(&world).await;
    get(&device, &step_path(job.head.id, 0)).await.refused(ProblemType::NotFound);
    get(&device, &step_path(job.head.id, 1)).await.refused(ProblemType::NotFound);
    for round in 1..=3 {
        play_round(&world, &job, &device, &[0.25 * round as f32; WEIGHTS]).await;
    }
    scheduled::run_due(world.app()).await.unwrap();
    world.hand.advance_ms(3_600_000);
    scheduled::run_due(world.app()).await.unwrap();
    get(&device, &step_path(job.head.id, 1)).await.refused(ProblemType::Deleted);
    get(&device, &model_path(job.head.id, 1, "int8")).await.refused(ProblemType::Deleted);
    assert_eq!(get(&device, &step_path(job.head.id, 2)).await.status, 200);
    let mut tx = world.app().db.read().await.unwrap();
    assert!(tx.model_file(job.head.id, 1, MadeFor::Delta).await.unwrap().is_none());
    assert!(tx.blob_chunk(&model_file_key(job.head.id, 1, MadeFor::Delta), 0).await.unwrap().is_none());
    drop(tx);
    let [assignment] = world.assign([&device]).await;
    assert_eq!(assignment.model_deltas.iter().map(|step| step.version).collect::<Vec<_>>(), [2, 3]);
}

/// Goal: retention deletes the bodies of several parts that are made of a version, in each place for bodies.
#[tokio::test]
async fn the_files_of_a_deleted_version_are_deleted_with_it() {
    for download in [json!({ "delta": true }), json!({ "codec": "f16" })] {
        for world in places().await {
            let retained = [("download", download.clone()), ("retention", json!({ "models": { "last": 1 } }))];
            let job = world.job(large(&retained)).await;
            let device = device(&world).await;
            for round in 1..=2 {
                play_round(&world, &job, &device, &delta(round)).await;
            }
            scheduled::run_due(world.app()).await.unwrap();
            world.hand.advance_ms(3_600_000);
            scheduled::run_due(world.app()).await.unwrap();
            world.app().blobs.clear(&world.app().db).await.unwrap();
            assert_eq!(left(&world).await, (0, 0));
            let mut tx = world.app().db.read().await.unwrap();
            let form = match download.get("delta") {
                Some(_) => MadeFor::Delta,
                None => MadeFor::Form(tributary_protocol::download::ModelForm::F16),
            };
            assert!(tx.model_file(job.head.id, 1, form).await.unwrap().is_none());
            assert!(tx.model_file(job.head.id, 2, form).await.unwrap().is_some());
            for version in [0, 1] {
                let name = model_file_key(job.head.id, version, form);
                assert!(tx.staged_body(&name).await.unwrap().is_none() && tx.object(&name).await.unwrap().is_none());
            }
        }
    }
}

/// Goal: a backup is one file with everything, wherever the bodies are.
#[tokio::test]
async fn a_backup_has_models_and_the_files_that_are_made_of_them() {
    for world in [World::start_on_sqlite().await, World::start_with_files().await] {
        let stepping = world.job(large(&[("download", json!({ "delta": true }))])).await;
        let device = device(&world).await;
        play_round(&world, &stepping, &device, &delta(1)).await;
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.db");
        backup::copy(world.database().as_ref(), &copy).await.unwrap();
        backup::check(&copy).await.unwrap();
        let db = Db::open(copy.to_str().unwrap()).await.unwrap();
        let mut tx = db.read().await.unwrap();
        assert!(!tx.has_objects("").await.unwrap());
        let delta = tx.model_file(stepping.head.id, 1, MadeFor::Delta).await.unwrap().unwrap();
        let model = tx.model(stepping.head.id, 1).await.unwrap().unwrap();
        drop(tx);
        let names = [model_file_key(stepping.head.id, 1, MadeFor::Delta), model_key(stepping.head.id, 1)];
        for (name, sha256) in names.into_iter().zip([delta.sha256, model.sha256]) {
            let mut reader = Blobs::Database.reader(&db, name, sha256).await.unwrap();
            let mut body = Vec::new();
            while let Some(data) = reader.next().await.unwrap() {
                body.extend_from_slice(&data);
            }
            drop(reader);
            assert_eq!(Sha256Hash::of(&body), sha256);
        }
        db.close().await;
    }
}
