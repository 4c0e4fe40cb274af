//! How answers are read that a newer coordinator may have written: an assignment in two steps, a refusal by its status.
//!
//! The first step reads what every release has: that there is work, and its id. Only then is the plan read. A plan that
//! this SDK cannot follow is given back at once, by this id, so that its round does not wait for the client.

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tributary_protocol::credential::Renewal;
use tributary_protocol::device::{Assignment, WaitsFor};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::problem::{Problem, ProblemType};
use tributary_protocol::release::ChannelAnswer;

use crate::error::ClientError;

/// An assignment as it came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Received {
    pub(crate) assignment: Assignment,
    /// Hash of the plan's text, with the members that this SDK does not know: all members of a group got the same text.
    pub(crate) plan_sha256: Sha256Hash,
}

impl Deref for Received {
    type Target = Assignment;

    fn deref(&self) -> &Assignment {
        &self.assignment
    }
}

/// The answer to a check-in.
#[derive(Debug, PartialEq)]
pub(crate) struct CheckedIn {
    pub(crate) answer: CheckInAnswer,
    /// Credentials to replace now, of the kinds that this SDK knows.
    pub(crate) renew: Vec<Renewal>,
    /// What it tells of channels.
    pub(crate) channels: Vec<ChannelAnswer>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum CheckInAnswer {
    Assigned(Box<Received>),
    /// The client was drawn for work that this SDK cannot read.
    Unreadable {
        assignment: AssignmentId,
        /// The first member or name that it does not know.
        why: String,
    },
    Retry {
        retry_after_ms: u64,
        waits_for: Option<WaitsFor>,
    },
}

/// What every release has in its answers to check-ins.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    answer: Cow<'a, str>,
    #[serde(default, deserialize_with = "known_ones")]
    renew: Vec<Renewal>,
    #[serde(default, deserialize_with = "known_ones")]
    channels: Vec<ChannelAnswer>,
    id: Option<AssignmentId>,
    #[serde(borrow)]
    plan: Option<&'a RawValue>,
    retry_after_ms: Option<u64>,
    #[serde(default, deserialize_with = "known_one")]
    waits_for: Option<WaitsFor>,
}

/// Reads the answer to a check-in.
///
/// # Errors
/// [`ClientError::BadAnswer`] if it is none.
pub(crate) fn checked_in(body: &[u8]) -> Result<CheckedIn, ClientError> {
    let head: Head<'_> = serde_json::from_slice(body).map_err(|error| ClientError::BadAnswer(error.to_string()))?;
    let lacks = |member: &str| ClientError::BadAnswer(format!("an answer to a check-in without {member}"));
    let answer = match &*head.answer {
        "retry" => CheckInAnswer::Retry {
            retry_after_ms: head.retry_after_ms.ok_or_else(|| lacks("retry_after_ms"))?,
            waits_for: head.waits_for,
        },
        "assigned" => {
            let id = head.id.ok_or_else(|| lacks("id"))?;
            let plan = head.plan.ok_or_else(|| lacks("plan"))?;
            match serde_json::from_slice(body) {
                Ok(assignment) => {
                    let plan_sha256 = Sha256Hash::of(plan.get().as_bytes());
                    CheckInAnswer::Assigned(Box::new(Received { assignment, plan_sha256 }))
                }
                Err(error) => CheckInAnswer::Unreadable { assignment: id, why: error.to_string() },
            }
        }
        other => return Err(ClientError::BadAnswer(format!("{other:?}, in answer to a check-in"))),
    };
    Ok(CheckedIn { answer, renew: head.renew, channels: head.channels })
}

/// Reads a problem document. One of a type that this SDK does not know stands for what its status says.
pub(crate) fn problem(body: &[u8], status: u16) -> Option<Problem> {
    let mut document: Value = serde_json::from_slice(body).ok()?;
    if let Ok(problem) = Problem::deserialize(&document) {
        return Some(problem);
    }
    document.get("type").and_then(Value::as_str).filter(|kind| kind.starts_with("urn:tributary:problem:"))?;
    let stands_for = match status {
        410 => ProblemType::AssignmentClosed,
        429 => ProblemType::TooManyRequests,
        500.. => ProblemType::Unavailable,
        _ => ProblemType::Malformed,
    };
    document["type"] = json!(stands_for.uri());
    Problem::deserialize(document).ok()
}

/// Reads a list without what this SDK does not know.
fn known_ones<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let values = Vec::<Value>::deserialize(deserializer)?;
    Ok(values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
}

/// Reads a member; `None` if this SDK does not know what it has.
fn known_one<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

#[cfg(test)]
mod tests {
    use tributary_protocol::device::{CheckInReply, CheckInResponse};

    use super::*;
    use crate::fixtures;

    /// An answer with work, whose members a newer coordinator may have changed.
    fn assigned(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut answer = serde_json::to_value(fixtures::assignment(&json!({}))).unwrap();
        answer["answer"] = json!("assigned");
        change(&mut answer);
        answer.to_string().into_bytes()
    }

    fn answer(body: &[u8]) -> CheckInAnswer {
        checked_in(body).unwrap().answer
    }

    #[test]
    fn unknown_members_of_an_assignment_are_ignored_and_count_in_the_hash_of_its_plan() {
        let response = CheckInResponse::Assigned(Box::new(fixtures::assignment(&json!({}))));
        let sent = serde_json::to_vec(&CheckInReply { response, renew: Vec::new(), channels: Vec::new() }).unwrap();
        let CheckInAnswer::Assigned(plain) = answer(&sent) else { panic!("no work") };
        assert_eq!(plain.plan_sha256, plain.plan.hash(), "the coordinator hashes what it sends");
        let body = assigned(|answer| {
            answer["mood"] = json!("good");
            answer["plan"]["colour"] = json!(1.0);
        });
        let CheckInAnswer::Assigned(newer) = answer(&body) else { panic!("no work") };
        assert_eq!(newer.assignment, plain.assignment);
        let text = String::from_utf8(body).unwrap();
        let plan = serde_json::from_str::<Value>(&text).unwrap()["plan"].to_string();
        assert_eq!(newer.plan_sha256, Sha256Hash::of(plan.as_bytes()), "the text that came: {plan}");
        assert_ne!(newer.plan_sha256, plain.plan_sha256);
    }

    #[test]
    fn work_that_cannot_be_read_has_an_id_and_the_name_of_what_is_unknown() {
        let layers = json!({ "input": [4], "layers": [{ "kind": "wavelet" }] });
        for (body, name) in [
            (assigned(|answer| answer["plan"]["model"] = layers), "wavelet"),
            (assigned(|answer| answer["plan"]["training"]["warmup"] = json!(3)), "warmup"),
            (assigned(|answer| answer["plan"]["training"]["loss"] = json!("hinge")), "hinge"),
            (assigned(|answer| answer["task"] = json!("distil")), "distil"),
        ] {
            let CheckInAnswer::Unreadable { assignment, why } = answer(&body) else { panic!("{name} is read") };
            assert_eq!(assignment, fixtures::assignment(&json!({})).id);
            assert!(why.contains(name), "{name}: {why}");
        }
    }

    #[test]
    fn what_a_newer_coordinator_adds_to_an_answer_without_work_is_left_out() {
        let body = br#"{"answer":"retry","retry_after_ms":7,"waits_for":{"kind":"moon"},"renew":["ticket","secret"]}"#;
        let expected = CheckInAnswer::Retry { retry_after_ms: 7, waits_for: None };
        assert_eq!(
            checked_in(body).unwrap(),
            CheckedIn { answer: expected, renew: vec![Renewal::Secret], channels: Vec::new() }
        );
        for body in ["\"a login page\"", r#"{"answer":"dance"}"#, r#"{"answer":"retry"}"#, r#"{"answer":"assigned"}"#] {
            let read = checked_in(body.as_bytes());
            assert!(matches!(read, Err(ClientError::BadAnswer(_))), "{body}: {read:?}");
        }
    }

    #[test]
    fn a_refusal_of_an_unknown_type_is_judged_by_its_status() {
        let refusal = |status: u16| {
            let kind = "urn:tributary:problem:too-hot";
            let body = json!({ "type": kind, "title": "t", "status": status, "detail": "61 C", "retry_after_ms": 9 });
            problem(body.to_string().as_bytes(), status).map(|problem| ClientError::Refused(Box::new(problem))).unwrap()
        };
        let (gone, wrong) = (refusal(410), refusal(422));
        assert!(gone.ends_assignment() && wrong.is_final() && !wrong.ends_assignment(), "{gone} {wrong}");
        assert!(refusal(429).is_temporary() && refusal(503).is_temporary());
        assert!(wrong.to_string().contains("61 C") && wrong.retry_after().is_some());
        assert!(problem(br#"{"type":"about:blank","status":422}"#, 422).is_none(), "another program's");
    }
}
