//! Memory of the process while hostile uploads drip, as the kernel counts it.
//!
//! Finding H2: 600 connections of one client, a few hundred bytes each, took up to 1.7 GB.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tributary_protocol::body::shrink;
use tributary_protocol::device::{Assignment, CheckInResponse};
use tributary_protocol::update::{UpdateHeader, encode};

use super::process::{ANSWER_MAX, Serving};

const CODECS: &[&str] = &[
    "f32",
    "f16",
    "bf16",
    "int8",
    "int4",
    "ternary",
    "qsgd",
    "eden",
    "random_k",
    "sign",
    "top_k",
    "dgc",
    "hierarchical",
];
const CONNECTIONS: usize = 600;
const PARAMETERS: usize = 300_000;
/// The requests for updates, by their status.
const ANSWERED: &str = "tributary_http_requests_total{route=\"/device/v1/assignments/{id}/update\"";
/// Looks at the metrics after which a test gives up.
const LOOKS_MAX: usize = 10_000;
/// The default of `--upload-memory`.
const UPLOAD_MEMORY_BYTES: u64 = 12 << 20;

/// One request on a separate connection; the JSON of its answer.
fn call(serving: &Serving, method: &str, path: &str, token: &str, body: &Value) -> Value {
    let body = body.to_string();
    let mut stream = TcpStream::connect(serving.address()).unwrap();
    stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 2"), "{path}: {answer}");
    serde_json::from_str(body).unwrap()
}

/// A figure of /proc/PID/status in bytes.
fn memory(serving: &Serving, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A client with an assignment of a job with this codec.
fn assignment(serving: &Serving, codec: &str) -> (String, Assignment) {
    let operator = serving.event["operator_token"].as_str().unwrap();
    call(serving, "POST", "/operator/v1/populations", operator, &json!({ "name": "p" }));
    let wanted = json!({ "kind": "enrolment", "population": "p" });
    let token = call(serving, "POST", "/operator/v1/tokens", operator, &wanted);
    let job = json!({
        "name": "memory", "population": "p",
        "model": { "parameters": [{ "name": "w", "shape": [PARAMETERS] }] },
        "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
        "update": { "codec": codec },
        "round": { "updates_goal": 1, "updates_min": 1, "over_selection": 1.0 },
    });
    call(serving, "POST", "/operator/v1/jobs", operator, &json!({ "job": job }));
    let enrolled = call(serving, "POST", "/device/v1/clients", token["secret"].as_str().unwrap(), &json!({}));
    let secret = enrolled["secret"].as_str().unwrap().to_owned();
    let checkin = json!({
        "attributes": {}, "state": { "examples": 10 }, "sdk_version": "test", "codecs": CODECS, "wait_ms": 60_000,
    });
    let answer = call(serving, "POST", "/device/v1/checkins", &secret, &checkin);
    match serde_json::from_value(answer).unwrap() {
        CheckInResponse::Assigned(work) => (secret, *work),
        retry => panic!("{codec}: no work: {retry:?}"),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn six_hundred_dripping_uploads_of_each_codec_take_no_more_memory_than_is_counted() {
    for codec in CODECS {
        let directory = tempfile::tempdir().unwrap();
        let serving = Serving::start(directory.path(), &[], None);
        let (secret, work) = assignment(&serving, codec);
        let header = UpdateHeader { codec: work.plan.codec, job: work.job.to_string(), base_version: 0 };
        let parameters = work.plan.model.parameters().unwrap();
        let file = encode(&vec![0.0; PARAMETERS], &parameters, &header, work.round, work.seed).unwrap();
        let body = shrink(file);
        assert!(body.len() < 16 << 10, "{codec}: {} bytes", body.len());
        let idle = memory(&serving, "VmRSS");
        let drips: Vec<TcpStream> = (0..CONNECTIONS)
            .map(|_| {
                let mut stream = TcpStream::connect(serving.address()).unwrap();
                let head = format!(
                    "PUT /device/v1/assignments/{}/update?weight=10&loss=0.5&steps=3&train_ms=12 HTTP/1.1\r\n\
                     host: x\r\nauthorization: Bearer {secret}\r\ncontent-length: {}\r\n\r\n",
                    work.id,
                    body.len()
                );
                // All of the body but its last byte.
                stream.write_all(&[head.as_bytes(), &body[..body.len() - 1]].concat()).unwrap();
                stream
            })
            .collect();
        // Of all these requests, one is served: the others are answered.
        let answered = || {
            let metrics = serving.get("/metrics");
            let of_updates = |line: &&str| line.starts_with(ANSWERED) && line.contains("status=\"409\"");
            metrics.lines().find(of_updates).map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
        };
        let all_are = (0..LOOKS_MAX).any(|_| answered() == CONNECTIONS - 1);
        assert!(all_are, "{codec}: {} of {CONNECTIONS} are answered", answered());
        assert!(serving.get("/healthz").starts_with("HTTP/1.1 200"));
        let (peak, allowed) = (memory(&serving, "VmHWM"), (idle + UPLOAD_MEMORY_BYTES) * 3 / 2);
        assert!(peak <= allowed, "{codec}: a peak of {} MB, {} MB idle", peak >> 20, idle >> 20);
        drop(drips);
    }
}

/// A figure of the metrics; 0 if it is not there.
#[cfg(target_os = "linux")]
fn figure(serving: &Serving, name: &str) -> u64 {
    let metrics = serving.get("/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}

/// Goal: bodies that stay unfinished take no memory without a bound: without a token they are small, and with one
/// client's secret there is one large one.
#[cfg(target_os = "linux")]
#[test]
fn silent_json_bodies_take_no_more_memory_than_is_counted() {
    const SILENT: usize = 1_000;
    /// What a connection takes with its buffers, and the first bytes of a body.
    const EACH: u64 = 40 << 10;
    tributary_server::net::raise_open_files();
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::start(directory.path(), &[], None);
    let (secret, _) = assignment(&serving, "f32");
    let idle = memory(&serving, "VmRSS");
    let send = |head: &str, announced: usize, sent: usize| {
        let mut stream = TcpStream::connect(serving.address()).unwrap();
        stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        let head =
            format!("POST {head}\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {announced}\r\n\r\n");
        // The coordinator may refuse the body and close before all of it is sent.
        let _ = stream.write_all(&[head.as_bytes(), &vec![b' '; sent]].concat());
        stream
    };
    let status = |mut stream: &TcpStream| {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[9..]).into_owned()
    };
    let page = "x-tributary-request: dashboard\r\nsec-fetch-site: same-origin";
    let login = format!("/operator/v1/login HTTP/1.1\r\n{page}");
    let foreign = send("/operator/v1/login HTTP/1.1", 4_000, 0);
    assert_eq!(status(&foreign), "403", "the head decides, before the body");
    assert_eq!(status(&send(&login, 266_000, 0)), "413");
    let checkin = format!("/device/v1/checkins HTTP/1.1\r\nauthorization: Bearer {secret}");
    let held: Vec<TcpStream> =
        (0..SILENT).flat_map(|_| [send(&login, 4_000, 3_999), send(&checkin, 60_000, 59_999)]).collect();
    // One of the check-ins is being received, and the others are refused.
    let refused = "tributary_limits_reached_total{limit=\"json_bodies\"}";
    let all_are = (0..LOOKS_MAX).any(|_| figure(&serving, refused) == SILENT as u64 - 1);
    assert!(all_are, "{} of {SILENT} are refused", figure(&serving, refused));
    let (peak, allowed) = (memory(&serving, "VmHWM"), idle + 2 * SILENT as u64 * EACH);
    assert!(peak <= allowed, "a peak of {} MB, {} MB idle", peak >> 20, idle >> 20);
    drop(held);
}

/// Finding S3: with attributes of 8 kB a remembered client takes 12 kB, and 20,000 of them took 240 MB.
///
/// Goal: clients that have gone take no more than is counted, whatever they declare. Method: twice as many as fit into
/// the memory of recent clients enrol and check in once, over few connections; the growth is what the kernel counts.
#[cfg(target_os = "linux")]
#[test]
fn five_thousand_clients_with_large_attributes_take_no_more_memory_than_is_counted() {
    const CLIENTS: usize = 5_000;
    const CONNECTIONS: usize = 4;
    /// 32 MiB of recent clients, and half as much for pages of the database and the allocator.
    const GROWTH_BYTES_MAX: u64 = 48 << 20;
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::start(directory.path(), &[], None);
    let operator = serving.event["operator_token"].as_str().unwrap();
    call(&serving, "POST", "/operator/v1/populations", operator, &json!({ "name": "p" }));
    let wanted = json!({ "kind": "enrolment", "population": "p", "per_minute_max": null });
    let token = call(&serving, "POST", "/operator/v1/tokens", operator, &wanted);
    let token = token["secret"].as_str().unwrap();
    let attributes: serde_json::Map<String, Value> =
        (0..32).map(|number| (format!("{number:0128}"), Value::from("v".repeat(128)))).collect();
    let enrolment = json!({ "attributes": attributes });
    let checkin = json!({
        "attributes": attributes, "state": { "examples": 10 }, "sdk_version": "test", "codecs": CODECS, "wait_ms": 0,
    });
    let idle = memory(&serving, "VmRSS");
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut line = Line::open(&serving);
                for _ in 0..CLIENTS / CONNECTIONS {
                    let enrolled = line.call("/device/v1/clients", token, &enrolment);
                    line.call("/device/v1/checkins", enrolled["secret"].as_str().unwrap(), &checkin);
                }
            });
        }
    });
    let growth = memory(&serving, "VmRSS").saturating_sub(idle);
    assert!(growth <= GROWTH_BYTES_MAX, "{} MB more than {} MB idle", growth >> 20, idle >> 20);
}

/// A connection for many calls, one after the other.
#[cfg(target_os = "linux")]
struct Line(BufReader<TcpStream>);

#[cfg(target_os = "linux")]
impl Line {
    fn open(serving: &Serving) -> Self {
        let stream = TcpStream::connect(serving.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        Self(BufReader::new(stream))
    }

    /// A `POST`; the JSON of its answer.
    fn call(&mut self, path: &str, token: &str, body: &Value) -> Value {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.0.get_mut().write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let before = head.len();
            assert!(self.0.read_line(&mut head).unwrap() > 0, "{path}: {head}");
            if let Some(value) = head[before..].to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        assert!(head.starts_with("HTTP/1.1 2"), "{path}: {head}");
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer).unwrap();
        serde_json::from_slice(&answer).unwrap()
    }
}
