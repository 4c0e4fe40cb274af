//! A client of an earlier release: it sends what was recorded, with the ids of this world.

use reqwest::Method;
use reqwest::header::AUTHORIZATION;
use serde_json::Value;
use tributary_protocol::body::{is_packed, shrink};
use tributary_protocol::digest::{REPR_DIGEST, parse_repr_digest, repr_digest};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::sum::tag;

use super::exchange::{Bearer, Content, Exchange, Recorded, Step, answer_headers, unpacked};
use super::stories::{Story, played, release};
use crate::support::World;

/// A secret that no coordinator knows.
pub(super) const UNKNOWN: &str = "tributary_client_0000000000000000000000000000000000000000000000000000000000000000";

/// Members of answers whose text is for people, or differs from answer to answer.
const FREE_TEXTS: [&str; 5] = ["detail", "title", "request_id", "reason", "secret"];

/// Plays a story, and asserts that every answer still has what the recorded one had.
pub(super) async fn play(name: &str, story: Story, recorded: &Recorded) {
    let world = story.world().await;
    let mut names = Names { recorded, pairs: Vec::new() };
    let mut secret = None;
    for (number, step) in recorded.steps.iter().enumerate() {
        let exchange = match step {
            Step::PassMs(by_ms) => {
                world.pass_ms(*by_ms).await;
                continue;
            }
            Step::Release(version) => {
                release(&world, *version).await;
                continue;
            }
            Step::Exchange(exchange) => exchange,
        };
        let bearer = match exchange.bearer {
            Bearer::Enrolment => world.enrolment.clone(),
            Bearer::Unknown => UNKNOWN.to_owned(),
            Bearer::Client => secret.clone().unwrap(),
        };
        let place = format!("{name}, step {number}, {}", exchange.call);
        let (status, headers, body) = played(&world, send(&world, &names, exchange, &bearer)).await;
        let content = Content::of(&body);
        assert_eq!(status, exchange.status, "{place}: {}", String::from_utf8_lossy(&body));
        for (header, value) in &exchange.answer_headers {
            let now = headers.get(header).unwrap_or_else(|| panic!("{place}: no {header}"));
            let is_word = ["upload-offset", "upload-complete", "content-type"].contains(&header.as_str());
            assert!(!is_word || now == value, "{place}: {header} is {now} and was {value}");
        }
        match (&exchange.answer, &content) {
            (Content::Json(before), Content::Json(now)) => {
                names.learn(before, now);
                still_there(before, now, "").unwrap_or_else(|what| panic!("{place}: {what}"));
                if exchange.bearer == Bearer::Enrolment
                    && let Some(new) = now.get("secret").and_then(Value::as_str)
                {
                    secret = Some(new.to_owned());
                }
            }
            (before, now) => assert_eq!(std::mem::discriminant(before), std::mem::discriminant(now), "{place}"),
        }
    }
}

async fn send(
    world: &World,
    names: &Names<'_>,
    exchange: &Exchange,
    bearer: &str,
) -> (u16, std::collections::BTreeMap<String, String>, Vec<u8>) {
    let (method, path) = exchange.call.split_once(' ').unwrap();
    let mut request = world.request(method.parse::<Method>().unwrap(), &names.in_text(path));
    request = request.header(AUTHORIZATION, format!("Bearer {bearer}"));
    for (name, value) in &exchange.headers {
        request = request.header(name, if name == REPR_DIGEST { names.digest(value) } else { names.in_text(value) });
    }
    let answer = request.body(names.in_bytes(&exchange.request.bytes())).send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer_headers(answer.headers()));
    (status, headers, answer.bytes().await.unwrap().to_vec())
}

/// The ids and hashes of the recording, each with the one in this world.
struct Names<'a> {
    recorded: &'a Recorded,
    pairs: Vec<(String, String)>,
}

impl Names<'_> {
    fn learn(&mut self, before: &Value, now: &Value) {
        match (before, now) {
            (Value::Object(before), Value::Object(now)) => {
                before
                    .iter()
                    .filter_map(|(name, value)| Some((value, now.get(name)?)))
                    .for_each(|(a, b)| self.learn(a, b));
            }
            (Value::Array(before), Value::Array(now)) => before.iter().zip(now).for_each(|(a, b)| self.learn(a, b)),
            (Value::String(before), Value::String(now)) if (is_id(before) && is_id(now)) || are_hashes(before, now) => {
                self.pairs.push((before.clone(), now.clone()));
            }
            _ => {}
        }
    }

    fn in_text(&self, text: &str) -> String {
        self.pairs.iter().fold(text.to_owned(), |text, (before, now)| text.replace(before, now))
    }

    /// The same in a body of any form, packed or not. Ids have the same length in every world.
    fn in_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let is_packed = is_packed(bytes);
        let mut bytes = if is_packed { unpacked(bytes) } else { bytes.to_vec() };
        for (before, now) in &self.pairs {
            let mut at = 0;
            while let Some(found) = bytes[at..].windows(before.len()).position(|window| window == before.as_bytes()) {
                at += found;
                bytes[at..at + now.len()].copy_from_slice(now.as_bytes());
            }
        }
        self.retag(&mut bytes);
        if is_packed { shrink(bytes) } else { bytes }
    }

    /// A sum begins with a hash of its job's id.
    fn retag(&self, bytes: &mut [u8]) {
        for (before, now) in &self.pairs {
            let (Ok(before), Ok(now)) = (before.parse::<JobId>(), now.parse::<JobId>()) else { continue };
            for binary_point in 0..i64::BITS {
                let first = tag(&before, 0, binary_point);
                if bytes.starts_with(&first) {
                    bytes[..first.len()].copy_from_slice(&tag(&now, 0, binary_point));
                    return;
                }
            }
        }
    }

    /// The digest of a whole update, put together from the requests that announced it.
    fn digest(&self, announced: &str) -> String {
        let mut whole = Vec::new();
        for step in &self.recorded.steps {
            let Step::Exchange(exchange) = step else { continue };
            if exchange.headers.get(REPR_DIGEST).is_some_and(|digest| digest == announced) {
                let offset = exchange.headers.get("upload-offset").map_or(0, |offset| offset.parse().unwrap());
                whole.truncate(offset);
                whole.extend(exchange.request.bytes());
            }
        }
        assert_eq!(parse_repr_digest(announced).unwrap(), Some(Sha256Hash::of(&whole)), "the recording is whole");
        repr_digest(Sha256Hash::of(&self.in_bytes(&whole)))
    }
}

fn is_id(text: &str) -> bool {
    let digits = ["client_", "job_", "assignment_", "release_"].iter().find_map(|kind| text.strip_prefix(kind));
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn are_hashes(before: &str, now: &str) -> bool {
    [before, now].iter().all(|text| text.parse::<Sha256Hash>().is_ok())
}

/// Whether a value has what an earlier one had: its members, their kinds, and words that programs decide by.
fn still_there(before: &Value, now: &Value, at: &str) -> Result<(), String> {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => before.iter().try_for_each(|(name, value)| {
            let place = format!("{at}/{name}");
            let now = now.get(name).ok_or_else(|| format!("{place} is gone"))?;
            if FREE_TEXTS.contains(&name.as_str()) && now.is_string() {
                Ok(())
            } else {
                still_there(value, now, &place)
            }
        }),
        (Value::Array(before), Value::Array(now)) if now.len() >= before.len() => {
            before.iter().zip(now).try_for_each(|(before, now)| still_there(before, now, at))
        }
        (Value::Number(_), Value::Number(_)) => Ok(()),
        (Value::String(before), Value::String(now)) if is_id(before) && is_id(now) => Ok(()),
        // Hashes follow from models, which follow from ids.
        (Value::String(before), Value::String(now)) if are_hashes(before, now) => Ok(()),
        (before, now) if before == now => Ok(()),
        (before, now) => Err(format!("{at} is {now}, and was {before}")),
    }
}

#[test]
fn what_is_gone_or_another_word_is_found() {
    let before = serde_json::json!({ "answer": "retry", "after": 3, "list": [{ "a": true }] });
    let added = serde_json::json!({ "answer": "retry", "after": 9, "list": [{ "a": true, "b": 1 }, {}], "new": {} });
    assert_eq!(still_there(&before, &added, ""), Ok(()));
    for (changed, name) in [
        (serde_json::json!({ "answer": "wait", "after": 3, "list": [{ "a": true }] }), "/answer"),
        (serde_json::json!({ "answer": "retry", "after": "3", "list": [{ "a": true }] }), "/after"),
        (serde_json::json!({ "answer": "retry", "after": 3, "list": [] }), "/list"),
        (serde_json::json!({ "answer": "retry", "after": 3, "list": [{}] }), "/list/a"),
    ] {
        assert!(still_there(&before, &changed, "").unwrap_err().starts_with(name), "{changed}");
    }
}
