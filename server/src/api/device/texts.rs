//! What devices say of themselves in words.

use tributary_protocol::device::{Attributes, CONSENT_BYTES_MAX, Consent};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::text;

use crate::api::problem::{Answer, ApiError};

/// An operator's terminal shows attributes. Stored ones of an older release may be otherwise, so the type allows it.
pub(super) fn require_text(attributes: &Attributes) -> Answer<()> {
    let is_text = attributes.as_map().iter().all(|(name, value)| text::is_text(name) && text::is_text(value));
    let detail = "an attribute has a control character";
    if is_text { Ok(()) } else { Err(ApiError::new(ProblemType::Malformed, detail)) }
}

/// A consent names its text, for the same readers.
pub(super) fn require_named(consent: Option<&Consent>) -> Answer<()> {
    let is_named = |text: &str| (1..=CONSENT_BYTES_MAX).contains(&text.len()) && text::is_text(text);
    match consent.is_none_or(|consent| is_named(&consent.text)) {
        true => Ok(()),
        false => {
            let detail =
                format!("a consent names its text with 1 to {CONSENT_BYTES_MAX} bytes without control characters");
            Err(ApiError::new(ProblemType::Malformed, detail))
        }
    }
}
