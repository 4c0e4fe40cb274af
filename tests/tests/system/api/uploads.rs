//! Bodies that are too long or break off: refused or dropped, and the client may send again.

use std::net::SocketAddr;

use axum::body::Bytes;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tributary_protocol::device::Assignment;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase};

use crate::support::{Answer, Device, WEIGHTS, World, delta_file, figures, within_reason};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// The first lines of an upload of this many bytes.
fn head(device: &Device, assignment: &Assignment, address: SocketAddr, length: &str) -> String {
    format!(
        "PUT /device/v1/assignments/{}/update?weight=10&loss=1&steps=1&train_ms=1 HTTP/1.1\r\nHost: {address}\r\n\
         Authorization: Bearer {}\r\n{length}\r\n\r\n",
        assignment.id, device.secret
    )
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_the_assignment_open_to_be_sent_again() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    let body = delta_file(&assignment, &STEP);
    for sent_bytes in [0, 1, 9, body.len() / 2, body.len() - 1] {
        let mut connection = TcpStream::connect(world.address).await.unwrap();
        let head = head(&device, &assignment, world.address, &format!("Content-Length: {}", body.len()));
        connection.write_all(head.as_bytes()).await.unwrap();
        connection.write_all(&body[..sent_bytes]).await.unwrap();
        connection.shutdown().await.unwrap();
        // The coordinator is done with it when it has closed its side.
        let mut answer = Vec::new();
        let _ = within_reason(connection.read_to_end(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert_eq!(world.assignments(job.head.id, 1).await[0].state, AssignmentState::Assigned, "{sent_bytes} bytes");
    }
    device.contribute(&assignment, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn an_oversized_body_is_refused_unread_or_as_soon_as_it_is_too_long() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    let path = format!("/assignments/{}/update", assignment.id);
    let put = || device.request(reqwest::Method::PUT, &path).query(&figures(10));

    // Announced: the answer comes though not one byte of the body does.
    let mut connection = TcpStream::connect(world.address).await.unwrap();
    let head = head(&device, &assignment, world.address, "Content-Length: 999999999");
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    within_reason(connection.read_exact(&mut status)).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
    drop(connection);

    // In chunks, without a length.
    let chunks = futures_util::stream::iter((0..20).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1000]))));
    Answer::to(put().body(reqwest::Body::wrap_stream(chunks))).await.refused(ProblemType::TooLarge);

    assert_eq!(world.assignments(job.head.id, 1).await[0].state, AssignmentState::Assigned);
    let pieces =
        delta_file(&assignment, &STEP).into_iter().map(|byte| Ok::<_, std::io::Error>(Bytes::from(vec![byte])));
    let pieces: Vec<_> = pieces.collect();
    let whole = put().body(reqwest::Body::wrap_stream(futures_util::stream::iter(pieces)));
    Answer::to(whole).await.value();
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed, "one byte at a time is as good as at once");
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn an_upload_that_stalls_ends_at_the_deadline() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1 } })).await;
    let [slow, quick] = world.devices().await;
    let [first, second] = world.assign([&slow, &quick]).await;
    let mut connection = TcpStream::connect(world.address).await.unwrap();
    connection.write_all(head(&slow, &first, world.address, "Content-Length: 300").as_bytes()).await.unwrap();
    quick.contribute(&second, &STEP, 10).await;
    world.pass_ms(10_000).await;
    let mut status = [0; 12];
    within_reason(connection.read_exact(&mut status)).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 410");
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}

/// A stop must not wait for a client that stopped sending: the update can be sent again after the restart.
#[tokio::test]
async fn an_upload_that_stalls_does_not_hold_up_a_stop() {
    let mut world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [assignment] = world.assign([&device]).await;
    let mut connection = TcpStream::connect(world.address).await.unwrap();
    let head = head(&device, &assignment, world.address, "Content-Length: 300");
    connection.write_all(head.as_bytes()).await.unwrap();
    // Answered after the connection above was accepted: its request is in the coordinator's hands.
    device.status(assignment.id).await.value();
    world.restart().await;
    device.contribute(&assignment, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}
