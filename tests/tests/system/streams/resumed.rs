//! Uploads that broke off: they continue where they ended, over restarts too, and expire.

use std::path::{Path, PathBuf};

use tributary_engine::aggregate::Accumulator;
use tributary_protocol::fixed::Weight;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase};
use tributary_server::blob::folder_beside;
use tributary_server::scheduled;

use super::{Half, PARAMETERS, averaged, delta, fold, goal, left, places, sum, until};
use crate::support::{World, delta_file};

/// Goal: bytes that arrived are not sent again, whatever happened to the coordinator; the result is the same bits.
#[tokio::test]
async fn an_upload_that_broke_off_goes_on_where_it_ended() {
    for mut world in places().await {
        for (number, restarts) in [(1, false), (2, true)] {
            let job = world.job(merged(goal(1), number)).await;
            let [device] = world.devices().await;
            let [assignment] = world.assign([&device]).await;
            let body = delta_file(&assignment, &delta(1));
            let sent = body.len() / 2;
            let half = Half::send(&world, &device, &assignment, &body, sent).await;
            if restarts {
                // What has arrived is kept when the coordinator stops.
                let begun = sum(&world, job.head.id, 1);
                let empty = Accumulator::new(PARAMETERS, begun.accumulator().caps()).unwrap();
                until(|| *begun.accumulator() != empty).await;
                world.restart().await;
                half.answer().await;
            } else {
                half.break_off().await;
            }
            let answer = device.offset(assignment.id).await;
            assert_eq!((answer.status, answer.header("upload-complete")), (204, "?0"));
            let offset: usize = answer.header("upload-offset").parse().unwrap();
            assert!(offset <= sent && offset > 0, "{offset} of {sent}");
            if !restarts {
                assert_eq!(offset, sent, "also the part that is not full");
                let sum = sum(&world, job.head.id, 1);
                assert_eq!(*sum.accumulator(), Accumulator::new(PARAMETERS, sum.accumulator().caps()).unwrap());
            }
            // In two steps, the first of which does not end it.
            let middle = offset + 1_500_000;
            let answer = device.patch_part(assignment.id, offset, &body[offset..middle], &body, "?0").await;
            assert_eq!((answer.status, answer.header("upload-offset")), (204, &*middle.to_string()));
            let accepted = device.patch(assignment.id, middle, &body[middle..], &body).await.value();
            let again = device.patch(assignment.id, middle, &body[middle..], &body).await.value();
            assert_eq!(again, accepted, "the answer was lost, perhaps");
            assert_eq!(device.offset(assignment.id).await.header("upload-complete"), "?1");
            world.drive().await;
            let round = world.round(job.head.id, 1).await;
            assert_eq!(round.phase, Phase::Committed);
            let base = world.weights(job.head.id, 0).await;
            let caps = tributary_engine::aggregate::SumCaps {
                weight_max: Weight::examples(1_000),
                magnitude_max: 8.0,
                updates_max: 1,
            };
            let expected = Accumulator::new(PARAMETERS, caps).unwrap();
            fold(&expected, &delta(1), 10);
            assert_eq!(world.weights(job.head.id, 1).await, averaged(&base, &expected));
            assert_eq!(left(&world).await, (0, 0));
            world.check_books(job.head.id).await;
        }
    }
}

fn merged(mut file: serde_json::Value, number: u32) -> serde_json::Value {
    file["name"] = format!("job{number}").into();
    file["schedule"] = serde_json::Value::Null;
    file["stop"] = serde_json::json!({ "rounds": 1 });
    file
}

#[tokio::test]
async fn a_body_that_does_not_go_on_where_the_upload_is_is_refused_and_changes_nothing() {
    let world = World::start().await;
    let job = world.job(goal(1)).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    let body = delta_file(&assignment, &delta(1));
    let refused = device.patch(assignment.id, 5, &body[5..], &body).await;
    assert_eq!(refused.header("upload-offset"), "0");
    refused.refused(ProblemType::UploadOffset);
    Half::send(&world, &device, &assignment, &body, 2_000_000).await.break_off().await;
    for offset in [0, 1_999_999, 2_000_001, 9_000_000] {
        let rest = if offset < body.len() { &body[offset..] } else { b"more" };
        let refused = device.patch(assignment.id, offset, rest, &body).await;
        if offset == 9_000_000 {
            refused.refused(ProblemType::TooLarge);
            continue;
        }
        assert_eq!(refused.header("upload-offset"), "2000000");
        refused.refused(ProblemType::UploadOffset);
    }
    let other = delta_file(&assignment, &delta(2));
    device.patch(assignment.id, 2_000_000, &other[2_000_000..], &other).await.refused(ProblemType::DigestMismatch);
    let request = || device.request(reqwest::Method::PATCH, &format!("/assignments/{}/update", assignment.id));
    let figures = crate::support::figures(10);
    let bare = request().query(&figures).body("x");
    crate::support::Answer::to(bare).await.refused(ProblemType::Malformed);
    for (name, value) in [("Upload-Offset", "-1"), ("Upload-Complete", "1"), ("Repr-Digest", "sha-256=x")] {
        let typed = request().query(&figures).header("Content-Type", "application/partial-upload");
        crate::support::Answer::to(typed.header(name, value).body("x")).await.refused(ProblemType::Malformed);
    }
    // The right bytes under a digest that they do not have.
    let mut damaged = body[2_000_000..].to_vec();
    damaged[7] ^= 1;
    device.patch(assignment.id, 2_000_000, &damaged, &body).await.refused(ProblemType::DigestMismatch);
    assert_eq!(device.offset(assignment.id).await.header("upload-offset"), "0", "nothing is kept");
    assert_eq!(left(&world).await, (0, 0));
    device.put_digested(assignment.id, &body).await.value();
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}

/// Goal: what is stored is not read again and again for chunks that bring next to nothing of it.
#[tokio::test]
async fn chunks_that_are_small_beside_what_is_stored_are_attempts() {
    let world = World::start().await;
    let job = world.job(goal(1)).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    let body = delta_file(&assignment, &delta(1));
    Half::send(&world, &device, &assignment, &body, 1_600_000).await.break_off().await;
    let mut offset = 1_600_000;
    let mut chunk = async |bytes: usize| {
        let part = &body[offset..offset + bytes];
        let answer = device.patch_part(assignment.id, offset, part, &body, "?0").await;
        offset += bytes;
        answer
    };
    assert_eq!(chunk(200_000).await.status, 204, "an eighth is no attempt");
    for _ in 1..32 {
        assert_eq!(chunk(66_000).await.status, 204);
    }
    chunk(66_000).await.refused(ProblemType::UpdateRejected);
    assert_eq!(world.assignments(job.head.id, 1).await[0].state, AssignmentState::Rejected);
}

/// The same for bodies that break off: each that brings an eighth of what is stored is none, and the 32nd other one
/// ends the assignment.
#[tokio::test]
async fn bodies_that_break_off_after_little_beside_what_is_stored_are_attempts() {
    let world = World::start().await;
    let job = world.job(goal(1)).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    let body = delta_file(&assignment, &delta(1));
    Half::send(&world, &device, &assignment, &body, 1_600_000).await.break_off().await;
    let mut offset = 1_600_000;
    let mut breaks_off = async |bytes: usize| {
        Half::go_on(&world, &device, &assignment, &body, offset..offset + bytes).await.break_off().await;
        offset += bytes;
        world.assignments(job.head.id, 1).await[0].state
    };
    assert_eq!(breaks_off(200_000).await, AssignmentState::Assigned, "an eighth is no attempt");
    for _ in 1..32 {
        assert_eq!(breaks_off(66_000).await, AssignmentState::Assigned);
    }
    assert_eq!(breaks_off(66_000).await, AssignmentState::Rejected);
}

/// Goal: what broke off and never came back leaves nothing, whether its round ended or the clock deleted it.
#[tokio::test]
async fn what_never_came_back_is_deleted() {
    for world in places().await {
        let job = world.job(goal(2)).await;
        let [gone, other] = world.devices().await;
        let [first, second] = world.assign([&gone, &other]).await;
        let body = delta_file(&first, &delta(1));
        Half::send(&world, &gone, &first, &body, 3_000_000).await.break_off().await;
        assert_eq!(left(&world).await, (1, 6));
        other.put_digested(second.id, &delta_file(&second, &delta(2))).await.value();
        world.pass_ms(10_000).await;
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
        assert_eq!(left(&world).await, (0, 0));
        assert_eq!(world.assignments(job.head.id, 1).await[0].state, AssignmentState::Expired);
        gone.patch(first.id, 3_000_000, &body[3_000_000..], &body).await.refused(ProblemType::AssignmentClosed);
        assert_eq!(gone.offset(first.id).await.status, 410);
        // Left by a coordinator that died before it could delete it.
        let mut tx = world.app().db.begin().await.unwrap();
        let staged = tributary_server::db::NewStaged {
            id: "staged/orphan",
            assignment: None,
            in_store: false,
            chunk_bytes: 4,
            bytes: 4,
            sha256: None,
            expires_at_ms: world.app().clock.now_ms() + 1,
        };
        tx.insert_staged(&staged).await.unwrap();
        tx.put_chunk("staged/orphan", 0, b"left").await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(left(&world).await, (1, 1));
        scheduled::run_due(world.app()).await.unwrap();
        world.hand.advance_ms(2 * 3_600_000);
        scheduled::run_due(world.app()).await.unwrap();
        assert_eq!(left(&world).await, (0, 0));
        world.check_books(job.head.id).await;
    }
}

/// Goal: a power failure may take the files of an unfinished upload; its sender begins again and completes it.
#[tokio::test]
async fn an_upload_whose_files_are_lost_begins_again() {
    let mut world = World::start_with_files().await;
    let job = world.job(goal(1)).await;
    let [device] = world.devices().await;
    let [assignment] = world.assign([&device]).await;
    let body = delta_file(&assignment, &delta(1));
    let folder = folder_beside(world.database().as_ref());
    let before = files_of(&folder);
    let half = Half::send(&world, &device, &assignment, &body, body.len() / 2).await;
    half.break_off().await;
    let offset: usize = device.offset(assignment.id).await.header("upload-offset").parse().unwrap();
    assert_eq!(offset, body.len() / 2);
    world.stop().await;
    for file in files_of(&folder).iter().filter(|file| !before.contains(file)) {
        std::fs::write(file, []).unwrap();
    }
    world.resume().await;
    let refused = device.patch(assignment.id, offset, &body[offset..], &body).await;
    assert_eq!((refused.status, refused.header("upload-offset")), (409, "0"));
    device.put_digested(assignment.id, &body).await.value();
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    assert_eq!(left(&world).await, (0, 0));
    world.check_books(job.head.id).await;
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_of(&path) } else { vec![path] }).collect()
}
