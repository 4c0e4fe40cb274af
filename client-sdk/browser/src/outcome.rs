//! Results and errors as JavaScript sees them.

use serde_json::{Value, json};
use tributary_client::{ClientError, Outcome};
use wasm_bindgen::{JsCast, JsValue};

use crate::training::Work;

/// The outcome of a session, as `package/index.d.ts` describes it.
pub(crate) fn described(outcome: &Outcome, work: Option<Work>, (sent, received): (u64, u64)) -> String {
    let (kind, round, waits_for) = match outcome {
        Outcome::Contributed { round, .. } => ("contributed", Some(round), None),
        Outcome::Evaluated { round, .. } => ("evaluated", Some(round), None),
        Outcome::Described { round, .. } => ("described", Some(round), None),
        Outcome::NothingToDo { waits_for, .. } => ("nothing-to-do", None, waits_for.as_ref()),
        Outcome::TooLate { round, .. } => ("too-late", Some(round), None),
        _ => ("interrupted", None, None),
    };
    let mut told = json!({
        "kind": kind,
        "retryAfterMs": u64::try_from(outcome.retry_after().as_millis()).unwrap_or(u64::MAX),
        "sentBytes": sent,
        "receivedBytes": received,
    });
    let optional = [("round", json!(round)), ("waitsFor", json!(waits_for)), ("work", json!(work))];
    for (name, value) in optional.into_iter().filter(|(_, value)| *value != Value::Null) {
        told[name] = value;
    }
    told.to_string()
}

/// A `Error` with the members `kind` and, where the coordinator said so, `retryAfterMs`.
pub(crate) fn thrown(error: &ClientError) -> JsValue {
    let kind = match error {
        ClientError::BadServer(_) => "server",
        ClientError::Exposed(_) => "exposed",
        ClientError::BadToken => "token",
        ClientError::Store(_) | ClientError::ForeignState { .. } => "store",
        ClientError::Unreachable(_) => "unreachable",
        ClientError::Refused(_) => "refused",
        ClientError::BadAnswer(_) => "answer",
        ClientError::Training(_) => "training",
        ClientError::Unusable(_) => "model",
        ClientError::Privacy(_) => "privacy",
        // Settings, and what a browser does not have: key stores, attestation and blocking clients.
        _ => "setup",
    };
    let retry_after_ms = error.retry_after().map(|pause| pause.as_millis() as f64);
    with_kind(&error.to_string(), kind, retry_after_ms)
}

/// The same for what the app gave wrong.
pub(crate) fn misused(message: &str) -> JsValue {
    with_kind(message, "setup", None)
}

/// The same for a model that cannot be used, or a row that does not fit it.
pub(crate) fn unfit(message: &str) -> JsValue {
    with_kind(message, "model", None)
}

fn with_kind(message: &str, kind: &str, retry_after_ms: Option<f64>) -> JsValue {
    let error: JsValue = js_sys::Error::new(message).unchecked_into();
    // An error is an ordinary object: its members can be set.
    let _ = js_sys::Reflect::set(&error, &"kind".into(), &kind.into());
    if let Some(ms) = retry_after_ms {
        let _ = js_sys::Reflect::set(&error, &"retryAfterMs".into(), &ms.into());
    }
    error
}
