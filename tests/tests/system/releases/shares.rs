//! Shares, attributes, steps back, and what is refused.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::json;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, JobId};
use tributary_protocol::operator::{AuditEntry, Page, Release};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{ReleaseState, Role};

use super::{asked, release, releases, trained, updated};
use crate::support::{Answer, Device, World};

/// What each device has of the channel.
type Has = BTreeMap<ClientId, Option<Sha256Hash>>;

/// All devices ask once.
async fn round(devices: &[Device], has: &mut Has) {
    for device in devices {
        let before = has.get(&device.id).copied().flatten();
        let answer = asked(device, before).await;
        if answer.status != 304 {
            has.insert(device.id, updated(device, before).await.map(|released| released.sha256));
        }
    }
}

fn with(has: &Has, sha256: Sha256Hash) -> Vec<ClientId> {
    has.iter().filter(|(_, file)| **file == Some(sha256)).map(|(id, _)| *id).collect()
}

/// Goal: a release reaches a share of the clients that only grows, and a step back takes it from all of them. Method:
/// 120 devices that never train; a version for all, the next one for 10, 50 and 100 %, and back.
#[tokio::test]
async fn a_release_reaches_its_share_keeps_whom_it_has_and_goes_back() {
    let world = World::start().await;
    let job = trained(&world, json!({}), 2).await.head.id;
    let mut devices = Vec::new();
    for _ in 0..120 {
        devices.push(world.device().await);
    }
    let mut has = Has::new();
    round(&devices, &mut has).await;
    assert!(has.values().all(Option::is_none), "nothing is released");
    let first: Release = release(&world, job, 1, json!({})).await.ok();
    assert_eq!((first.number, first.state, first.base), (1, ReleaseState::Out, None));
    assert_eq!(first.sha256, Sha256Hash::of(&world.model_file(job, 1).await), "the version's own bits");
    round(&devices, &mut has).await;
    assert_eq!(with(&has, first.sha256).len(), 120);
    let second: Release = release(&world, job, 2, json!({ "share": 100_000 })).await.ok();
    let mut before = Vec::new();
    for (share, range) in [(100_000, 4..=22), (500_000, 44..=76), (1_000_000, 120..=120)] {
        let path = format!("/releases/{}", second.id);
        let widened: Release = world.operate(Method::PATCH, &path, &json!({ "share": share })).await.ok();
        assert_eq!(widened.share.millionths(), share);
        round(&devices, &mut has).await;
        let now = with(&has, second.sha256);
        assert!(range.contains(&now.len()), "{} of 120 at {share}", now.len());
        assert!(before.iter().all(|client| now.contains(client)), "who had it keeps it");
        let seen = releases(&world).await;
        let clients: Vec<_> = seen.iter().map(|release| (release.number, release.clients)).collect();
        assert_eq!(clients, [(2, now.len() as u64), (1, 120 - now.len() as u64)]);
        before = now;
    }
    // One that has the right one transfers no body, and learns when to ask again.
    let same = asked(&devices[0], Some(second.sha256)).await;
    assert_eq!((same.status, same.body.len()), (304, 0));
    let ask_after_ms: u64 = same.header("tributary-ask-after-ms").parse().unwrap();
    assert!((1_800_000..5_400_000).contains(&ask_after_ms), "{ask_after_ms}");
    let path = format!("/releases/{}/withdraw", second.id);
    let withdrawn: Release = world.operate(Method::POST, &path, &json!({})).await.ok();
    assert_eq!(withdrawn.state, ReleaseState::Withdrawn);
    round(&devices, &mut has).await;
    assert_eq!(with(&has, first.sha256).len(), 120);
    let audit: Page<AuditEntry> = world.look("/audit?limit=4").await.ok();
    let actions: Vec<_> = audit.items.iter().map(|entry| entry.action.to_string()).collect();
    assert_eq!(actions[..3], ["release.withdraw", "release.widen", "release.widen"], "{actions:?}");
}

/// Goal: what a release is for follows the attributes of a client, and its files are there for its population alone.
#[tokio::test]
async fn a_release_is_for_clients_with_its_attributes() {
    let world = World::start().await;
    let job = trained(&world, json!({}), 1).await.head.id;
    let whole: Release = release(&world, job, 0, json!({ "exact": true })).await.ok();
    let for_phones: Release =
        release(&world, job, 1, json!({ "exact": true, "attributes": { "os": "android" } })).await.ok();
    let [phone, other] = world.devices().await;
    let phone = phone.with("os", "android");
    phone.check_in(0).await;
    assert_eq!(updated(&phone, None).await.unwrap().id, for_phones.id);
    assert_eq!(updated(&other, None).await.unwrap().id, whole.id);
    let path = format!("/releases/{}/model", for_phones.id);
    let file = Answer::to(phone.request(Method::GET, &path)).await;
    assert_eq!((Sha256Hash::of(&file.body), file.status), (for_phones.sha256, 200));
    let part = Answer::to(phone.request(Method::GET, &path).header("range", "bytes=10-19")).await;
    assert_eq!((part.status, &part.body[..]), (206, &file.body[10..20]));
    // A device of another population neither sees the channel nor its files.
    world.operate(Method::POST, "/populations", &json!({ "name": "others" })).await.value();
    let token = world.token("others").await.secret.expose();
    let enrolled = world.request(Method::POST, "/device/v1/clients").bearer_auth(token).json(&json!({}));
    let stranger = Device::new(world.http.clone(), world.server(), &Answer::to(enrolled).await.ok());
    assert!(updated(&stranger, None).await.is_none());
    Answer::to(stranger.request(Method::GET, &path)).await.refused(ProblemType::NotFound);
}

/// Goal: a step that cannot be meant is refused by name and changes nothing.
#[tokio::test]
async fn steps_that_cannot_be_meant_are_refused() {
    let world = World::start().await;
    let job = trained(&world, json!({}), 1).await.head.id;
    release(&world, job, 7, json!({})).await.refused(ProblemType::NotFound);
    release(&world, JobId::from_random([9; 16]), 1, json!({})).await.refused(ProblemType::NotFound);
    release(&world, job, 1, json!({ "share": 0 })).await.refused(ProblemType::Malformed);
    release(&world, job, 1, json!({ "gate": "accuracy > 0.9" })).await.refused(ProblemType::Malformed);
    release(&world, job, 1, json!({ "attributes": { "": "x" } })).await.refused(ProblemType::Malformed);
    let made: Release = release(&world, job, 1, json!({ "share": 500_000 })).await.ok();
    let path = format!("/releases/{}", made.id);
    let shrink = world.operate(Method::PATCH, &path, &json!({ "share": 100_000 })).await;
    assert!(shrink.refused(ProblemType::WrongState).detail.contains("only grows"));
    let viewer = world.operator_token(Role::Viewer, None).await.secret.expose();
    let request = world.request(Method::POST, &format!("/operator/v1{path}/withdraw")).bearer_auth(viewer);
    Answer::to(request).await.refused(ProblemType::Forbidden);
    world.operate(Method::POST, &format!("{path}/withdraw"), &json!({})).await.value();
    world.operate(Method::PATCH, &path, &json!({ "share": 600_000 })).await.refused(ProblemType::WrongState);
    let device = world.device().await;
    let many: BTreeMap<_, _> = (0..9).map(|channel| (format!("c{channel}"), json!(null))).collect();
    let mut request = device.check_in_request(0);
    request["channels"] = json!(many);
    Answer::to(device.request(Method::POST, "/checkins").json(&request)).await.refused(ProblemType::Malformed);
    assert_eq!(releases(&world).await.len(), 1);
}

/// Goal: a released model outlives its job, and old files go once nobody can need them. Method: five releases for all;
/// the job is deleted.
#[tokio::test]
async fn a_release_outlives_its_job_and_old_files_are_deleted() {
    let mut world = World::start().await;
    let job = trained(&world, json!({}), 1).await.head.id;
    for turn in 0..5 {
        release(&world, job, turn % 2, json!({ "exact": true })).await.value();
    }
    let deleted: Vec<_> = releases(&world).await.iter().map(|release| release.deleted_at_ms.is_some()).collect();
    assert_eq!(deleted, [false, false, false, true, true], "the newest, and two to go back to");
    world.operate(Method::POST, &format!("/jobs/{job}/stop"), &json!({})).await.value();
    world.drive().await;
    let path = format!("/jobs/{job}");
    assert_eq!(Answer::to(world.operator_request(Method::DELETE, &path)).await.status, 204);
    world.restart().await;
    let device = world.device().await;
    let released = updated(&device, None).await.unwrap();
    let file = Answer::to(device.request(Method::GET, &format!("/releases/{}/model", released.id))).await;
    assert_eq!(Sha256Hash::of(&file.body), released.sha256);
}

/// Goal: whoever has the release before downloads 8-bit differences, and has the bits of whoever downloads the whole.
/// The rounding is not carried on: a release after two others still has its version's values within half a step.
#[tokio::test]
async fn differences_lead_to_the_same_bits_as_the_whole_file() {
    let world = World::start().await;
    let job = trained(&world, json!({}), 3).await.head.id;
    let first: Release = release(&world, job, 1, json!({})).await.ok();
    let mut files = BTreeMap::from([(first.sha256, world.model_file(job, 1).await)]);
    for version in [2, 3] {
        let made: Release = release(&world, job, version, json!({})).await.ok();
        let device = world.device().await;
        let released = updated(&device, None).await.unwrap();
        let whole = Answer::to(device.request(Method::GET, &format!("/releases/{}/model", released.id))).await.body;
        assert_eq!((Sha256Hash::of(&whole), made.base), (made.sha256, Some(version - 1)));
        let difference = *released.differences.last().unwrap();
        let path = format!("/releases/{}/difference", difference.release);
        let body = Answer::to(device.request(Method::GET, &path)).await.body;
        assert_eq!((body.len() as u64, Sha256Hash::of(&body)), (difference.bytes, difference.sha256));
        let added = super::added(&files[&difference.base_sha256], &body, &difference);
        assert_eq!(added, whole.to_vec());
        let exact = super::values(&world.model_file(job, version).await);
        for (value, exact) in super::values(&whole).iter().zip(exact) {
            assert!((value - exact).abs() <= 4.0 / 127.0 / 2.0 + 1e-6, "{value} {exact}");
        }
        files.insert(made.sha256, whole.to_vec());
    }
    let device = world.device().await;
    let released = updated(&device, None).await.unwrap();
    let numbers: Vec<_> = released.differences.iter().map(|difference| difference.number).collect();
    assert_eq!(numbers, [2, 3], "a chain");
}
