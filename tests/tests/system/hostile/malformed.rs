//! Requests of generated shape: none is answered with a fault, and the coordinator continues.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tributary_protocol::device::CheckInResponse;
use tributary_protocol::seed::{Seed, Stream};
use tributary_protocol::state::Phase;

use crate::support::{WEIGHTS, World, within_reason};

const REQUESTS: u64 = 1_000;
const METHODS: &[&str] = &["GET", "PUT", "POST", "PATCH", "HEAD", "DELETE", "OPTIONS", "TRACE", "PRI", "get", ""];
const VERSIONS: &[&str] = &["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9", ""];
const QUERIES: &[&str] = &[
    "",
    "?weight=10&loss=0.5&steps=3&train_ms=12",
    "?weight=1e99&loss=NaN&steps=-1&train_ms=99999999999999999999",
    "?weight=10&weight=10",
    "?after=-1&limit=0",
    "?limit=4294967296",
    "?form=int8",
    "?form=%00",
    "?%ff=%fe",
    "?&&==&",
];
const HEADERS: &[&str] = &[
    "Content-Type: application/json",
    "Content-Type: application/partial-upload",
    "Content-Length: 5",
    "Content-Length: -5",
    "Content-Length: 99999999999999999999999",
    "Content-Length: 5\r\nContent-Length: 6",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "Transfer-Encoding: gzip, chunked",
    "Content-Encoding: zstd",
    "Repr-Digest: sha-256=:AAAA:",
    "Repr-Digest: md5=:AAAA:",
    "Upload-Offset: 18446744073709551616",
    "Upload-Complete: ?2",
    "Range: bytes=18446744073709551615-",
    "If-None-Match: \"",
    "Last-Event-ID: 1-zz.5",
    "Accept: text/event-stream;q=x",
    "Cookie: tributary_session=%%%",
    "X-Request-Id: \u{1b}[2J",
    "Expect: 200-maybe",
    "Upgrade: websocket\r\nConnection: upgrade",
    "no colon",
    ": no name",
    "Folded: a\r\n b",
];
const BODIES: &[&str] = &[
    "",
    "{",
    "[]",
    "null",
    "{}",
    "{\"attributes\":{\"a\":1}}",
    "{\"attributes\":{},\"state\":{\"examples\":-1},\"sdk_version\":\"\",\"codecs\":[],\"wait_ms\":1}",
    "{\"reason\":\"\",\"detail\":\"\"}",
    "{\"examples\":1e400,\"loss\":null}",
    "5\r\nabcde\r\n0\r\n\r\n",
    "ffffffffffffffff\r\n",
    "\u{0}\u{1}\u{2}",
    "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":",
];

/// One of these, or now and then bytes of no meaning.
fn choice(stream: &mut Stream, from: &[&str]) -> Vec<u8> {
    if stream.below(20) == 0 {
        return (0..stream.below(40)).map(|_| stream.below(256) as u8).collect();
    }
    from[stream.below(from.len() as u64) as usize].as_bytes().to_vec()
}

fn request(stream: &mut Stream, paths: &[&str], credentials: &[&str]) -> Vec<u8> {
    let mut request = choice(stream, METHODS);
    request.push(b' ');
    request.extend(choice(stream, paths));
    request.extend(choice(stream, QUERIES));
    request.push(b' ');
    request.extend(choice(stream, VERSIONS));
    request.extend(b"\r\nHost: x\r\n");
    request.extend(choice(stream, credentials));
    request.extend(b"\r\n");
    for _ in 0..stream.below(4) {
        request.extend(choice(stream, HEADERS));
        request.extend(b"\r\n");
    }
    request.extend(b"\r\n");
    request.extend(choice(stream, BODIES));
    if stream.below(4) == 0 {
        request.truncate(stream.below(request.len() as u64 + 1) as usize);
    }
    request
}

/// What came back before the connection ended.
async fn answer(world: &World, request: &[u8]) -> String {
    let mut connection = TcpStream::connect(world.address).await.unwrap();
    // The coordinator may close the connection before it has all of the request.
    let _ = connection.write_all(request).await;
    let _ = connection.shutdown().await;
    let mut answer = Vec::new();
    let _ = within_reason(connection.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Goal: no request leads to a fault of the coordinator. Method: requests that are put together from parts of real and
/// wrong ones, with and without credentials, over the real listener; then an honest round.
#[tokio::test]
async fn a_thousand_malformed_requests_are_refused_and_a_round_commits() {
    let world = World::start_driven().await;
    let job = world.job(json!({ "stop": { "rounds": 1 } })).await;
    let [hostile, honest] = world.devices().await;
    let (update, model) = (
        format!("/device/v1/assignments/assignment_{}/update", "0".repeat(32)),
        format!("/device/v1/jobs/{}/models/0", job.head.id),
    );
    let assignments = format!("/operator/v1/jobs/{}/rounds/1/assignments", job.head.id);
    let paths = [
        "/healthz",
        "/readyz",
        "/metrics",
        "/",
        "/%2e%2e/%2e%2e/etc/passwd",
        "*",
        "//",
        "/device/v1/clients",
        "/device/v1/checkins",
        update.as_str(),
        model.as_str(),
        "/device/v1/assignments/%00/evaluation",
        "/operator/v1/jobs",
        assignments.as_str(),
        "/operator/v1/feed",
        "/operator/v1/clients",
        "/operator/v1/login",
        "/docs/../openapi.json",
    ];
    let (secret, operator) =
        (format!("Authorization: Bearer {}", hostile.secret), format!("Authorization: bearer {}", world.operator));
    let credentials = [
        secret.as_str(),
        secret.as_str(),
        "Authorization: Basic eDp5",
        "Authorization: Bearer",
        "Authorization: Bearer \u{fffd}",
        "X-Forwarded-For: ::::",
        operator.as_str(),
    ];
    let mut refused = 0;
    for number in 0..REQUESTS {
        let mut stream = Seed(7).derive("malformed", number).stream();
        let request = request(&mut stream, &paths, &credentials);
        let shown = String::from_utf8_lossy(&request).into_owned();
        let answer = answer(&world, &request).await;
        let status = answer.strip_prefix("HTTP/1.").and_then(|answer| answer.get(2..5));
        if let Some(status) = status {
            let status: u16 = status.parse().unwrap();
            assert!((100..500).contains(&status), "request {number}: {shown:?}: {answer}");
            refused += u64::from(status >= 400);
        } else {
            // An answer to a preface of HTTP/2 is a frame.
            assert!(answer.is_empty() || request.starts_with(b"PR"), "request {number}: {shown:?}: {answer}");
        }
    }
    assert!(refused > REQUESTS / 2, "{refused} requests were refused");
    let answered = answer(&world, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    // A request of the generated ones may have checked the hostile client in, and then the round is its own.
    let CheckInResponse::Assigned(work) = within_reason(honest.check_in(60_000)).await else { panic!("no work") };
    honest.contribute(&work, &[0.5; WEIGHTS], 10).await;
    let committed = async { while world.round(job.head.id, work.round).await.phase != Phase::Committed {} };
    within_reason(committed).await;
    world.check_books(job.head.id).await;
}
