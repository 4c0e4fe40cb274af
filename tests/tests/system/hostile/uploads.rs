//! Uploads whose cost is the coordinator's: they drip, repeat, break off and are damaged.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tributary_protocol::device::Assignment;
use tributary_protocol::digest::repr_digest;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase};

use crate::support::{Answer, Device, World, delta_file, figures, within_reason};

/// Parameters of a model whose f32 updates are just held in memory: 800 kB.
const HELD: usize = 200_000;
/// Parameters of a model whose f32 updates are streamed: 1.6 MB.
const STREAMED: usize = 400_000;
/// What the metrics say while one upload waits.
const QUEUED: &str = "\ntributary_updates_waiting 1\n";
/// How often the coordinator looks at the pace of uploads while others wait, in milliseconds.
const PACE_MS: i64 = 5_000;

fn job(parameters: usize, goal: u32) -> Value {
    json!({
        "model": { "parameters": [{ "name": "w", "shape": [parameters] }] },
        "round": { "updates_goal": goal, "updates_min": 1, "deadline_ms": 600_000 },
    })
}

fn update(assignment: &Assignment, parameters: usize) -> Vec<u8> {
    delta_file(assignment, &vec![0.25; parameters])
}

/// A body that was announced in full, and of which one byte came.
async fn drip(world: &World, device: &Device, assignment: &Assignment, length: usize) -> TcpStream {
    let mut connection = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "PUT /device/v1/assignments/{}/update?weight=10&loss=0.5&steps=3&train_ms=12 HTTP/1.1\r\nHost: {}\r\n\
         Authorization: Bearer {}\r\nContent-Length: {length}\r\n\r\n{{",
        assignment.id, world.address, device.secret
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    connection
}

/// The first line of the answer.
async fn answer(mut connection: TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = within_reason(connection.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

async fn until_taken(world: &World, uploads: u64) {
    let taken = async {
        while world.app().updates.budget.taken() != uploads {
            tokio::task::yield_now().await;
        }
    };
    within_reason(taken).await;
}

#[tokio::test]
async fn many_dripping_bodies_of_one_assignment_hold_the_memory_of_one() {
    for parameters in [HELD, STREAMED] {
        let world = World::start().await;
        let job = world.job(job(parameters, 2)).await;
        let [hostile, honest] = world.devices().await;
        let [bad, good] = world.assign([&hostile, &honest]).await;
        let length = update(&bad, parameters).len();
        let mut older = drip(&world, &hostile, &bad, length).await;
        for _ in 0..20 {
            until_taken(&world, 1).await;
            let newer = drip(&world, &hostile, &bad, length).await;
            let line = answer(std::mem::replace(&mut older, newer)).await;
            assert!(line.starts_with("HTTP/1.1 409"), "{line}");
        }
        until_taken(&world, 1).await;
        honest.contribute(&good, &vec![0.25; parameters], 10).await;
        world.pass_ms(600_000).await;
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
        drop(older);
        world.check_books(job.head.id).await;
    }
}

#[tokio::test]
async fn an_update_that_is_repeated_slowly_holds_no_memory() {
    let world = World::start().await;
    let job = world.job(job(HELD, 1)).await;
    let [device] = world.devices().await;
    let [assignment] = world.assign([&device]).await;
    device.contribute(&assignment, &vec![0.25; HELD], 10).await;
    let first = drip(&world, &device, &assignment, 1 << 20).await;
    let second = drip(&world, &device, &assignment, 1 << 20).await;
    // Which of the two is the newer one, the coordinator decides.
    let line = tokio::select! {
        line = answer(first) => line,
        line = answer(second) => line,
    };
    assert!(line.starts_with("HTTP/1.1 409"), "one at a time: {line}");
    assert_eq!(world.app().updates.budget.taken(), 0);
    // It is still the same update, and taken for that.
    device.contribute(&assignment, &vec![0.25; HELD], 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_dripping_body_gives_its_memory_to_an_honest_one_that_waits() {
    let mut world = World::start().await;
    world.set_upload_memory(1 << 20);
    world.restart().await;
    let job = world.job(job(STREAMED, 2)).await;
    let [hostile, honest] = world.devices().await;
    let [bad, good] = world.assign([&hostile, &honest]).await;
    let dripping = drip(&world, &hostile, &bad, update(&bad, STREAMED).len()).await;
    until_taken(&world, 1).await;
    let body = update(&good, STREAMED);
    let waiting = tokio::spawn({
        let honest = honest.clone();
        async move { honest.put_update(good.id, &figures(10), body).await }
    });
    let queued = async {
        while !world.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap().contains(QUEUED) {}
    };
    within_reason(queued).await;
    // Two looks: somebody must have waited for the whole time between them.
    let stopped = async {
        let line = answer(dripping).await;
        assert!(line.starts_with("HTTP/1.1 429"), "{line}");
    };
    // Less than the round's deadline in all, and time in between for whoever is woken.
    let time_passes = async {
        for _ in 0..100 {
            world.hand.advance_ms(PACE_MS);
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::join!(within_reason(stopped), time_passes);
    assert_eq!(within_reason(waiting).await.unwrap().status, 200);
    assert_eq!(
        world.assignments(job.head.id, 1).await.iter().filter(|a| a.state == AssignmentState::Reported).count(),
        1
    );
    world.check_books(job.head.id).await;
}

/// Goal: damage costs its sender the assignment, so it cannot make the coordinator decode for ever.
#[tokio::test]
async fn a_client_that_sends_damaged_bodies_again_and_again_is_rejected_and_the_round_commits() {
    for parameters in [HELD, STREAMED] {
        let world = World::start().await;
        let job = world.job(job(parameters, 2)).await;
        let [hostile, honest] = world.devices().await;
        let [bad, good] = world.assign([&hostile, &honest]).await;
        let body = update(&bad, parameters);
        let put = || {
            let request = hostile.request(Method::PUT, &format!("/assignments/{}/update", bad.id)).query(&figures(10));
            Answer::to(request.header("Repr-Digest", repr_digest(Sha256Hash::of(b"another"))).body(body.clone()))
        };
        for _ in 0..31 {
            put().await.refused(ProblemType::DigestMismatch);
        }
        put().await.refused(ProblemType::UpdateRejected);
        put().await.refused(ProblemType::UpdateRejected);
        let offender = world.assignments(job.head.id, 1).await.into_iter().find(|a| a.client == hostile.id).unwrap();
        assert_eq!(offender.state, AssignmentState::Rejected);
        let reason = offender.reason.unwrap();
        assert!(reason.contains("32 bodies of this update were damaged"), "{reason}");
        honest.contribute(&good, &vec![0.25; parameters], 10).await;
        world.pass_ms(600_000).await;
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
        world.check_books(job.head.id).await;
    }
}

#[tokio::test]
async fn an_update_that_comes_byte_by_byte_in_requests_of_its_own_is_rejected() {
    let world = World::start().await;
    let job = world.job(job(STREAMED, 1)).await;
    let [hostile] = world.devices().await;
    let [bad] = world.assign([&hostile]).await;
    let body = update(&bad, STREAMED);
    let patch = |offset: usize| {
        let request = hostile.request(Method::PATCH, &format!("/assignments/{}/update", bad.id)).query(&figures(10));
        let request = request
            .header("Content-Type", "application/partial-upload")
            .header("Upload-Offset", offset.to_string())
            .header("Upload-Complete", "?0")
            .header("Repr-Digest", repr_digest(Sha256Hash::of(&body)));
        Answer::to(request.body(body[offset..=offset].to_vec()))
    };
    for offset in 0..31 {
        assert_eq!(patch(offset).await.status, 204);
    }
    patch(31).await.refused(ProblemType::UpdateRejected);
    assert_eq!(world.assignments(job.head.id, 1).await[0].state, AssignmentState::Rejected);
    world.check_books(job.head.id).await;
}
