//! The form of a recording: requests with their answers, and what else happens between them.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tributary_protocol::body::{UnpackError, Unpacker, shrink};

/// Headers of requests that are part of the protocol.
const REQUEST_HEADERS: [&str; 7] =
    ["content-type", "range", "if-none-match", "repr-digest", "upload-offset", "upload-complete", "accept-encoding"];
/// Headers of answers that are part of the protocol.
const ANSWER_HEADERS: [&str; 9] = [
    "content-type",
    "content-encoding",
    "etag",
    "repr-digest",
    "upload-offset",
    "upload-complete",
    "tributary-release",
    "tributary-protocol",
    "tributary-ask-after-ms",
];

/// Longer bodies are packed, or not kept.
const BYTES_MAX: usize = 64 << 10;
/// More than any model of a story has.
const UNPACKED_BYTES_MAX: u64 = 4 << 20;

/// The exchanges of a story, in order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Recorded {
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    Exchange(Box<Exchange>),
    /// The coordinator's clock goes on by so many milliseconds.
    PassMs(i64),
    /// An operator releases this version of the only job.
    Release(u32),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Exchange {
    /// Method, path and query.
    pub(super) call: String,
    /// Which secret the request has.
    pub(super) bearer: Bearer,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) request: Content,
    pub(super) status: u16,
    pub(super) answer_headers: BTreeMap<String, String>,
    pub(super) answer: Content,
    /// Whether the connection broke before the client had the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) broke: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bearer {
    Enrolment,
    Client,
    /// One that no coordinator knows.
    Unknown,
}

/// A body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    Nothing,
    Json(Value),
    Base64(String),
    /// Many bytes, as one zstd frame in base64.
    Packed(String),
    /// So many bytes that are not kept: too many for a recording, packed or not.
    Cut(usize),
}

impl Content {
    pub(super) fn of(bytes: &[u8]) -> Self {
        match serde_json::from_slice(bytes) {
            _ if bytes.is_empty() => Self::Nothing,
            _ if bytes.len() > BYTES_MAX => match shrink(bytes.to_vec()) {
                packed if packed.len() > BYTES_MAX => Self::Cut(bytes.len()),
                packed => Self::Packed(STANDARD.encode(packed)),
            },
            Ok(value @ Value::Object(_)) => Self::Json(value),
            _ => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Json(value) => value.to_string().into_bytes(),
            Self::Base64(text) => STANDARD.decode(text).unwrap(),
            Self::Packed(text) => unpacked(&STANDARD.decode(text).unwrap()),
            Self::Cut(_) => panic!("it was too long to be kept"),
        }
    }
}

/// What is in a zstd frame.
pub(super) fn unpacked(frame: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    let mut unpacker = Unpacker::new(UNPACKED_BYTES_MAX);
    let mut keep = |piece: &[u8]| {
        whole.extend_from_slice(piece);
        Ok::<_, UnpackError>(())
    };
    unpacker.push(frame, &mut keep).unwrap();
    unpacker.finish().unwrap();
    whole
}

pub(super) fn request_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    kept(headers, &REQUEST_HEADERS)
}

pub(super) fn answer_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    kept(headers, &ANSWER_HEADERS)
}

fn kept(headers: &HeaderMap, names: &[&str]) -> BTreeMap<String, String> {
    let pair = |name: &&str| Some(((*name).to_owned(), headers.get(*name)?.to_str().ok()?.to_owned()));
    names.iter().filter_map(pair).collect()
}
