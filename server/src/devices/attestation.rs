//! The operator's webhook that allows enrolments: it sees what a device says about itself and answers yes or no.
//! Everything but a clear yes refuses the enrolment.

use std::time::Duration;

use reqwest::{Client, Url};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tributary_protocol::device::Attributes;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Name, TokenId};
use tributary_protocol::text::is_visible;

use crate::runtime::outgoing;

/// Longest answer in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Longest reason that a device is told, in characters.
const REASON_CHARS_MAX: usize = 200;
/// Enrolments that wait for the webhook. Further ones are refused with a time to come back.
const QUESTIONS_MAX: usize = 32;

/// Where the webhook is.
#[derive(Clone, Debug)]
pub struct AttestationSettings {
    pub url: Url,
    /// From the request to the last byte of the answer.
    pub timeout: Duration,
}

#[derive(Debug)]
pub(crate) struct AttestationHook {
    url: Url,
    http: Client,
    turns: Semaphore,
}

/// What the webhook receives: one JSON object.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Question<'a> {
    pub(crate) population: &'a Name,
    pub(crate) token: TokenId,
    pub(crate) token_label: &'a str,
    /// All attributes of the new client, with those that its token grants.
    pub(crate) attributes: &'a Attributes,
    /// SHA-256 of the device's public key (SubjectPublicKeyInfo in DER). Platforms can sign it into their statement.
    pub(crate) key_sha256: Option<Sha256Hash>,
    /// As the device sent them; none if it sent no attestation.
    pub(crate) platform: Option<&'a str>,
    pub(crate) statement: Option<&'a str>,
}

/// What it answers.
#[derive(Deserialize)]
struct Verdict {
    allowed: bool,
    #[serde(default)]
    reason: String,
}

/// Why an enrolment is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AttestationError {
    #[error("the enrolment is not allowed: {0}")]
    Refused(String),
    #[error("too many enrolments wait for the attestation webhook")]
    Busy,
    /// For the operator's log; devices learn only that it failed.
    #[error("the attestation webhook gave no usable answer: {0}")]
    Unusable(String),
}

impl AttestationHook {
    /// Sends nothing yet.
    pub(crate) fn new(settings: AttestationSettings) -> Result<Self, reqwest::Error> {
        let AttestationSettings { url, timeout } = settings;
        let http = outgoing::client(url.as_str(), timeout).build()?;
        Ok(Self { url, http, turns: Semaphore::new(QUESTIONS_MAX) })
    }

    /// Whether the enrolment is allowed.
    pub(crate) async fn ask(&self, question: &Question<'_>) -> Result<(), AttestationError> {
        let _turn = self.turns.try_acquire().map_err(|_| AttestationError::Busy)?;
        let unusable = |error: reqwest::Error| AttestationError::Unusable(with_causes(&error.without_url()));
        let mut response = self.http.post(self.url.clone()).json(question).send().await.map_err(unusable)?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(AttestationError::Unusable(format!("status {}", response.status())));
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(unusable)? {
            body.extend_from_slice(&piece);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(AttestationError::Unusable(format!("more than {ANSWER_BYTES_MAX} bytes")));
            }
        }
        let verdict = verdict(&body)?;
        if verdict.allowed { Ok(()) } else { Err(AttestationError::Refused(reason(&verdict.reason))) }
    }
}

/// The verdict in an answer. A member that is there twice makes it unusable.
fn verdict(body: &[u8]) -> Result<Verdict, AttestationError> {
    // serde would take the members of an object from an array, too, by their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(AttestationError::Unusable("it is no JSON object".to_owned()));
    }
    serde_json::from_slice(body).map_err(|error| AttestationError::Unusable(error.to_string()))
}

/// A reason as logs and devices may show it.
fn reason(text: &str) -> String {
    let reason: String = text.chars().filter(|letter| is_visible(*letter)).take(REASON_CHARS_MAX).collect();
    if reason.is_empty() { "the attestation webhook gave no reason".to_owned() } else { reason }
}

fn with_causes(error: &reqwest::Error) -> String {
    let first = std::error::Error::source(error);
    let causes = std::iter::successors(first, |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_clear_answer_counts() {
        let allowed = |text: &str| verdict(text.as_bytes()).ok().map(|verdict| verdict.allowed);
        assert_eq!(allowed(r#" {"allowed": true, "score": 3}"#), Some(true));
        assert_eq!(allowed(r#"{"allowed": false, "reason": "x"}"#), Some(false));
        for unusable in [
            r#"{"allowed": false, "allowed": true}"#,
            r#"{"allowed": true, "reason": "a", "reason": "b"}"#,
            r#"[true, ""]"#,
            r#"{"allowed": "true"}"#,
            "{}",
            "",
        ] {
            assert_eq!(allowed(unusable), None, "{unusable}");
        }
    }

    #[test]
    fn a_reason_is_short_and_visible() {
        assert_eq!(reason("jail\u{1b}[31mbroken"), "jail[31mbroken");
        assert_eq!(reason(&"x".repeat(1000)).len(), REASON_CHARS_MAX);
        assert_eq!(reason("\n"), "the attestation webhook gave no reason");
    }
}
