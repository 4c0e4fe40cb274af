//! Bearer secrets, as requests carry them and as the database knows them.

use axum::http::header;
use axum::http::request::Parts;
use tributary_protocol::id::{Secret, SecretKind};
use tributary_protocol::problem::ProblemType;

use crate::api::problem::ApiError;

/// The bearer secret of a request, if it is of the wanted kind.
pub(super) fn bearer(parts: &Parts, wanted: SecretKind, described: &str) -> Result<Secret, ApiError> {
    let text = bearer_text(parts);
    let text = text.ok_or_else(|| unauthorized(&format!("send {described} as Authorization: Bearer ..")))?;
    let secret: Secret = text.trim().parse().map_err(|_| unauthorized("this is not a Tributary token"))?;
    if secret.kind() == wanted {
        Ok(secret)
    } else {
        Err(ApiError::new(ProblemType::Forbidden, format!("this call needs {described}")))
    }
}

/// What follows the scheme `Bearer`. Other schemes may be meant for a proxy.
pub(super) fn bearer_text(parts: &Parts) -> Option<&str> {
    let (scheme, text) = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    // The name of a scheme has no case (RFC 9110, section 11.1).
    scheme.eq_ignore_ascii_case("bearer").then_some(text)
}

pub(super) fn unauthorized(detail: &str) -> ApiError {
    ApiError::new(ProblemType::Unauthorized, detail)
}
