//! Authentication. A handler gets an identity only through these extractors.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Name, Secret, SecretKind, TokenId};
use tributary_protocol::operator::Token;
use tributary_protocol::problem::ProblemType;

use super::problem::ApiError;
use crate::app::App;
use crate::db::ClientRow;

pub(super) struct Device(pub(super) ClientRow);

/// An operator, authenticated by an operator token.
pub(super) struct Operator(pub(super) Token);

/// An app that may enrol clients in one population.
pub(super) struct Enroller {
    pub(super) token: TokenId,
    pub(super) population: Name,
}

/// The hash under which a secret is stored. A secret has 32 random bytes, so it needs neither salt nor a slow hash.
pub(crate) fn stored_hash(secret: &Secret) -> Sha256Hash {
    Sha256Hash::of(secret.expose().as_bytes())
}

impl FromRequestParts<Arc<App>> for Device {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let secret = bearer(parts, SecretKind::Client, "a client's secret (enrol to get one)")?;
        // Boxed, so that the future of a held request does not include the largest future that runs before it is held.
        let found = Box::pin(async { app.db.read().await?.client_by_secret(&stored_hash(&secret)).await });
        found.await?.map(Self).ok_or_else(|| unauthorized("this client is not known; enrol again"))
    }
}

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let secret = bearer(parts, SecretKind::Operator, "an operator token")?;
        let token = app.db.read().await?.working_token(&stored_hash(&secret), app.clock.now_ms()).await?;
        let token = token.filter(|token| token.population.is_none());
        token.map(Self).ok_or_else(|| unauthorized("this operator token is unknown, expired or revoked"))
    }
}

impl FromRequestParts<Arc<App>> for Enroller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let secret = bearer(parts, SecretKind::Enrolment, "an enrolment token")?;
        let token = app.db.read().await?.working_token(&stored_hash(&secret), app.clock.now_ms()).await?;
        token
            .and_then(|token| Some(Self { token: token.id, population: token.population? }))
            .ok_or_else(|| unauthorized("this enrolment token is unknown, expired or revoked"))
    }
}

/// The bearer secret of a request, if it is of the wanted kind.
fn bearer(parts: &Parts, wanted: SecretKind, described: &str) -> Result<Secret, ApiError> {
    let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let text = header.and_then(|value| value.strip_prefix("Bearer "));
    let text = text.ok_or_else(|| unauthorized(&format!("send {described} as Authorization: Bearer ..")))?;
    let secret: Secret = text.trim().parse().map_err(|_| unauthorized("this is not a Tributary token"))?;
    if secret.kind() == wanted {
        Ok(secret)
    } else {
        Err(ApiError::new(ProblemType::Forbidden, format!("this call needs {described}")))
    }
}

fn unauthorized(detail: &str) -> ApiError {
    ApiError::new(ProblemType::Unauthorized, detail)
}
