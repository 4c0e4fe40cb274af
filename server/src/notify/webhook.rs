//! The receiver of notifications, and how it recognises them.

use std::collections::BTreeMap;

use ring::hmac;
use serde_json::{Value, json};
use tributary_protocol::id::Name;
use tributary_protocol::sealed::Sealed;
use url::Url;

use crate::services::NoticesTo;

/// Rounds abandoned in a row that are a notification, unless the configuration says otherwise.
pub const ABANDONED_DEFAULT: u32 = 3;

/// The target of the webhook that receives every notification; others are targets by the name of their population.
pub(super) const EVERYTHING: &str = "";

/// The form in which a receiver takes notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The whole notification.
    #[default]
    Json,
    /// `{"text": ..}`, for the incoming webhooks of Slack and of programs that take the same, such as Mattermost.
    Slack,
    /// A message with an adaptive card, for the workflows of Teams.
    Teams,
}

/// A receiver of notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    pub url: Url,
    pub format: Format,
}

/// Where notifications go.
#[derive(Clone, Debug)]
pub struct NotifySettings {
    /// Receives all of them.
    pub everything: Option<Webhook>,
    /// Each receives those that concern its population.
    pub populations: BTreeMap<Name, Webhook>,
    /// Signs each notification.
    pub secret: Sealed<String>,
    /// Rounds of a job that are abandoned in a row before one is sent.
    pub abandoned: u32,
}

impl NotifySettings {
    /// For whom notifications are stored.
    pub fn targets(&self) -> NoticesTo {
        NoticesTo {
            abandoned: self.abandoned.max(1),
            everything: self.everything.is_some(),
            populations: self.populations.keys().cloned().collect(),
        }
    }
}

impl Format {
    /// The body of a request with this notification.
    pub fn body(self, notice: &str) -> String {
        let text = || {
            let notice: Value = serde_json::from_str(notice).unwrap_or_default();
            notice["text"].as_str().unwrap_or_default().to_owned()
        };
        match self {
            Self::Json => notice.to_owned(),
            Self::Slack => json!({ "text": slack_text(&text()) }).to_string(),
            Self::Teams => teams_message(&text()).to_string(),
        }
    }
}

/// Slack reads `&`, `<` and `>` as its own marks.
fn slack_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn teams_message(text: &str) -> Value {
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": [
                    { "type": "TextBlock", "text": "Tributary", "weight": "bolder" },
                    { "type": "TextBlock", "text": text, "wrap": true },
                ],
            },
        }],
    })
}

/// The value of the header `Tributary-Signature`: `t=SECONDS,v1=HEX`, with HMAC-SHA-256 (RFC 2104) over the seconds, a
/// dot and the body. A receiver that checks the seconds refuses what somebody recorded and repeats.
pub fn signature(secret: &str, seconds: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{seconds}.{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={seconds},v1={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_and_teams_get_the_text_as_they_show_it() {
        let notice = r#"{"id":"notice_1","text":"a < b & c"}"#;
        assert_eq!(Format::Json.body(notice), notice);
        assert_eq!(Format::Slack.body(notice), r#"{"text":"a &lt; b &amp; c"}"#);
        let card: Value = serde_json::from_str(&Format::Teams.body(notice)).unwrap();
        assert_eq!(card["attachments"][0]["content"]["body"][1]["text"], "a < b & c");
    }

    #[test]
    fn a_signature_covers_time_and_body() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac key
        let expected = "t=1700000000,v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae";
        assert_eq!(signature("key", 1_700_000_000, "{}"), expected);
        assert_ne!(
            signature("key", 1_700_000_001, "{}").split_once(",v1=").unwrap().1,
            expected.split_once(",v1=").unwrap().1
        );
    }
}
