//! What devices say of themselves in words.

use tributary_protocol::device::Attributes;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::text;

use crate::api::problem::{Answer, ApiError};

/// An operator's terminal shows attributes. Stored ones of an older release may be otherwise, so the type allows it.
pub(super) fn require_text(attributes: &Attributes) -> Answer<()> {
    let is_text = attributes.as_map().iter().all(|(name, value)| text::is_text(name) && text::is_text(value));
    let detail = "an attribute has a control character";
    if is_text { Ok(()) } else { Err(ApiError::new(ProblemType::Malformed, detail)) }
}
