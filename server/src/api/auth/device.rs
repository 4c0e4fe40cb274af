//! Callers of the device API: clients, and apps that enrol them.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tributary_protocol::credential::Renewal;
use tributary_protocol::device::Attributes;
use tributary_protocol::id::{Name, SecretKind, TokenId};

use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Standing;

use super::bearer::{bearer, bearer_text, unauthorized};
use super::caller::Caller;
use crate::api::problem::ApiError;
use crate::app::App;
use crate::db::{Authenticated, ClientRow, KnownClient, stored_hash};
use crate::devices::{ClientAuth, PresentedError, SECRET_RENEWED_AFTER_MS, signed_client};
use crate::net::PeerCertificate;

pub(in crate::api) struct Device(pub(in crate::api) Identified);

/// The client that sent a request. It is shared with the memory of recent clients, because ten thousand requests are
/// held. A request keeps the client as it was when it came.
pub(in crate::api) struct Identified(Arc<KnownClient>);

/// A client, and which of its credentials it should replace.
pub(in crate::api) struct DueDevice {
    pub(in crate::api) client: Identified,
    pub(in crate::api) due: Due,
    /// Whether it had work when it was identified; none where that is not known.
    pub(in crate::api) has_work: Option<bool>,
}

/// Credentials that are to be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::api) struct Due {
    certificate: bool,
    secret: bool,
}

/// An app that may enrol clients in one population.
pub(in crate::api) struct Enroller {
    pub(in crate::api) token: TokenId,
    pub(in crate::api) population: Name,
    pub(in crate::api) label: String,
    /// Attributes of each client that it enrols.
    pub(in crate::api) granted: Attributes,
}

impl Deref for Identified {
    type Target = ClientRow;

    fn deref(&self) -> &ClientRow {
        &self.0.client
    }
}

impl Due {
    pub(in crate::api) fn renewals(self) -> Vec<Renewal> {
        let due = [(self.certificate, Renewal::Certificate), (self.secret, Renewal::Secret)];
        due.into_iter().filter(|(is_due, _)| *is_due).map(|(_, renewal)| renewal).collect()
    }
}

impl FromRequestParts<Arc<App>> for Device {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        Ok(Self(DueDevice::from_request_parts(parts, app).await?.client))
    }
}

impl FromRequestParts<Arc<App>> for DueDevice {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        // Boxed, so that the future of a held request does not include the largest future that runs before it is held.
        let device = Box::pin(Self::identified(parts, app)).await?;
        if device.client.standing == Standing::Revoked {
            return Err(ApiError::new(ProblemType::ClientRevoked, "an operator revoked this client"));
        }
        app.guard.request(device.client.id, app.clock.now_ms()).map_err(|retry_after_ms| {
            let most = app.guard.limits().requests_per_minute;
            ApiError::new(ProblemType::TooManyRequests, format!("a client may send {most} requests a minute"))
                .retry_after_ms(retry_after_ms)
        })?;
        Ok(device)
    }
}

impl DueDevice {
    /// The client of a request, as the listener identifies clients.
    async fn identified(parts: &Parts, app: &App) -> Result<Self, ApiError> {
        let auth = app.devices.client_auth;
        let peer = parts.extensions.get::<PeerCertificate>().filter(|_| auth.asks_for_certificates());
        let refused = match peer {
            Some(peer) => match Self::by_certificate(peer, parts, app).await {
                Err(PresentedError::Db(error)) => return Err(error.into()),
                Err(refused) => Some(refused),
                Ok(device) => return Ok(device),
            },
            None => None,
        };
        match refused {
            Some(refused) if auth == ClientAuth::Certificate || bearer_text(parts).is_none() => Err(refused.into()),
            None if auth == ClientAuth::Certificate => Err(ApiError::new(
                ProblemType::CertificateRequired,
                "this coordinator identifies clients by a certificate in the TLS handshake; enrol to get one",
            )),
            _ => Self::by_secret(parts, app).await,
        }
    }

    async fn by_certificate(peer: &PeerCertificate, parts: &Parts, app: &App) -> Result<Self, PresentedError> {
        let (known, presented) = signed_client(&app.db, peer).await?;
        let (client, now_ms) = (Identified(Arc::new(known)), app.clock.now_ms());
        Caller::Client { id: client.id, number: client.number, population: client.population.clone() }.noted(parts);
        presented.require_valid(now_ms)?;
        let due = Due { certificate: presented.is_due(now_ms), secret: false };
        Ok(Self { client, due, has_work: None })
    }

    async fn by_secret(parts: &Parts, app: &App) -> Result<Self, ApiError> {
        let secret = bearer(parts, SecretKind::Client, "a client's secret (enrol to get one)")?;
        let (hash, now_ms) = (stored_hash(&secret), app.clock.now_ms());
        let client = app.db.client_by_secret(&hash).await?;
        let Authenticated { known, has_work } =
            client.ok_or_else(|| unauthorized("this client is not known; enrol again"))?;
        let client = &known.client;
        Caller::Client { id: client.id, number: client.number, population: client.population.clone() }.noted(parts);
        let is_next = known.secret_sha256 != hash;
        if is_next {
            let mut tx = app.db.begin().await?;
            tx.use_next_secret(client.id, &hash, now_ms).await?;
            tx.commit().await?;
        }
        let age_ms = now_ms.saturating_sub(known.secret_at_ms);
        // Behind a proxy it may have one that it cannot present, so what it was given counts.
        let wanted_until_ms = now_ms.saturating_add(app.devices.certificate_life_ms / 3);
        let lacks_certificate = known.certificate_until_ms.is_none_or(|until_ms| until_ms <= wanted_until_ms);
        let due = Due {
            certificate: app.devices.client_auth.asks_for_certificates() && lacks_certificate,
            secret: !is_next && age_ms >= SECRET_RENEWED_AFTER_MS,
        };
        Ok(Self { client: Identified(known), due, has_work })
    }
}

impl From<PresentedError> for ApiError {
    fn from(error: PresentedError) -> Self {
        let kind = match error {
            PresentedError::Db(error) => return error.into(),
            PresentedError::Expired => ProblemType::CertificateExpired,
            _ => ProblemType::CertificateInvalid,
        };
        Self::new(kind, error.to_string())
    }
}

impl FromRequestParts<Arc<App>> for Enroller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let secret = bearer(parts, SecretKind::Enrolment, "an enrolment token")?;
        let token = app.db.look().await?.working_token(&stored_hash(&secret), app.clock.now_ms()).await?;
        let token = token.and_then(|token| Some((token.id, token.population?, token.label, token.attributes)));
        let (token, population, label, granted) =
            token.ok_or_else(|| unauthorized("this enrolment token is unknown, expired or revoked"))?;
        Caller::Enroller { token, label: label.clone(), population: population.clone() }.noted(parts);
        Ok(Self { token, population, label, granted })
    }
}
