//! Callers of the device API: clients, and apps that enrol them.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tributary_protocol::id::{Name, SecretKind, TokenId};

use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Standing;

use super::bearer::{bearer, stored_hash, unauthorized};
use super::caller::Caller;
use crate::api::problem::ApiError;
use crate::app::App;
use crate::db::ClientRow;

pub(in crate::api) struct Device(pub(in crate::api) ClientRow);

/// An app that may enrol clients in one population.
pub(in crate::api) struct Enroller {
    pub(in crate::api) token: TokenId,
    pub(in crate::api) population: Name,
}

impl FromRequestParts<Arc<App>> for Device {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let secret = bearer(parts, SecretKind::Client, "a client's secret (enrol to get one)")?;
        // Boxed, so that the future of a held request does not include the largest future that runs before it is held.
        let found = Box::pin(async { app.db.read().await?.client_by_secret(&stored_hash(&secret)).await });
        let client = found.await?.ok_or_else(|| unauthorized("this client is not known; enrol again"))?;
        Caller::Client { id: client.id, population: client.population.clone() }.noted(parts);
        if client.standing == Standing::Revoked {
            return Err(ApiError::new(ProblemType::ClientRevoked, "an operator revoked this client"));
        }
        app.guard.request(client.id, app.clock.now_ms()).map_err(|retry_after_ms| {
            let most = app.guard.limits().requests_per_minute;
            ApiError::new(ProblemType::TooManyRequests, format!("a client may send {most} requests a minute"))
                .retry_after_ms(retry_after_ms)
        })?;
        Ok(Self(client))
    }
}

impl FromRequestParts<Arc<App>> for Enroller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let secret = bearer(parts, SecretKind::Enrolment, "an enrolment token")?;
        let token = app.db.read().await?.working_token(&stored_hash(&secret), app.clock.now_ms()).await?;
        let token = token.and_then(|token| Some((token.id, token.population?, token.label)));
        let (token, population, label) =
            token.ok_or_else(|| unauthorized("this enrolment token is unknown, expired or revoked"))?;
        Caller::Named { actor: token.to_string(), label, population: Some(population.clone()) }.noted(parts);
        Ok(Self { token, population })
    }
}
