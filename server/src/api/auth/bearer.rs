//! Bearer secrets, as requests carry them and as the database knows them.

use axum::http::header;
use axum::http::request::Parts;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Secret, SecretKind};
use tributary_protocol::problem::ProblemType;

use crate::api::problem::ApiError;

/// The hash under which a secret is stored. A secret has 32 random bytes, so it needs neither salt nor a slow hash.
pub(crate) fn stored_hash(secret: &Secret) -> Sha256Hash {
    Sha256Hash::of(secret.expose().as_bytes())
}

/// The bearer secret of a request, if it is of the wanted kind.
pub(super) fn bearer(parts: &Parts, wanted: SecretKind, described: &str) -> Result<Secret, ApiError> {
    let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    // The name of a scheme has no case (RFC 9110, section 11.1).
    let text = header.and_then(|value| value.split_once(' ')).filter(|(name, _)| name.eq_ignore_ascii_case("bearer"));
    let (_, text) = text.ok_or_else(|| unauthorized(&format!("send {described} as Authorization: Bearer ..")))?;
    let secret: Secret = text.trim().parse().map_err(|_| unauthorized("this is not a Tributary token"))?;
    if secret.kind() == wanted {
        Ok(secret)
    } else {
        Err(ApiError::new(ProblemType::Forbidden, format!("this call needs {described}")))
    }
}

pub(super) fn unauthorized(detail: &str) -> ApiError {
    ApiError::new(ProblemType::Unauthorized, detail)
}
