//! Enrolment, and the replacement of credentials.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use tributary_protocol::credential::{
    Attestation, CertificateRequest, DeviceName, IssuedCertificate, NewSecret, PLATFORM_BYTES_MAX, STATEMENT_BYTES_MAX,
};
use tributary_protocol::device::{EnrolRequest, EnrolResponse};
use tributary_protocol::id::{ClientId, Name, SecretKind};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::text;

use super::texts::{require_named, require_text};
use crate::api::auth::{Device, Enroller};
use crate::api::extract::Json;
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{Enrolment, stored_hash};
use crate::devices::{
    Applicant, AttestationError, Authority, AuthorityError, CertifiedKey, ClientAuth, EnrolError, Enrolled, Question,
    RequestError, enrol as enrol_device,
};
use crate::net::PeerCertificate;
use crate::runtime::entropy;

/// Retry delay of enrolments that the attestation webhook could not decide, in milliseconds.
const ATTESTATION_RETRY_MS: u64 = 10_000;

pub(super) async fn enrol(
    State(app): State<Arc<App>>,
    enroller: Enroller,
    peer: Option<Extension<PeerCertificate>>,
    Json(request): Json<EnrolRequest>,
) -> Answer<Json<EnrolResponse>> {
    require_text(&request.attributes)?;
    require_named(request.consent.as_ref())?;
    let auth = app.devices.client_auth;
    let key = request.certificate_request.as_deref().map(CertifiedKey::requested).transpose()?;
    if auth == ClientAuth::Certificate && key.is_none() {
        let detail = "this coordinator identifies clients by certificates; send a certificate request";
        return Err(ApiError::new(ProblemType::CertificateRequired, detail));
    }
    require_attested(&app, &enroller, key.as_ref(), &request).await?;
    let applicant = Applicant {
        population: &enroller.population,
        token: enroller.token,
        attributes: request.attributes,
        consent: request.consent,
        peer: peer.as_ref().map(|Extension(peer)| peer),
        key: key.as_ref(),
    };
    let life_ms = auth.asks_for_certificates().then_some(app.devices.certificate_life_ms);
    let Enrolled { client, secret, certificate } = enrol_device(&app, applicant, life_ms).await?;
    Ok(Json(EnrolResponse { client, secret, population: enroller.population, certificate }))
}

/// A certificate for the client's key. The first key that a client requests one for is its key for good.
pub(super) async fn certificate(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Json(request): Json<CertificateRequest>,
) -> Answer<Json<IssuedCertificate>> {
    if !app.devices.client_auth.asks_for_certificates() {
        let detail = "this coordinator identifies clients by their secrets";
        return Err(ApiError::new(ProblemType::WrongState, detail));
    }
    let key = CertifiedKey::requested(&request.certificate_request)?;
    let (authority, now_ms) = (authority(&app, &client.population).await?, app.clock.now_ms());
    let issued = issue(&app, &authority, &client.population, client.id, &key, now_ms)?;
    let mut tx = app.db.begin().await?;
    let until_ms = now_ms.saturating_add(app.devices.certificate_life_ms);
    if !tx.bind_key(client.id, &key.fingerprint, Some(until_ms)).await? {
        let detail = "this client has another key; enrol again as a new client";
        return Err(ApiError::new(ProblemType::Forbidden, detail));
    }
    tx.commit().await?;
    Ok(Json(issued))
}

/// The client's next secret. The one in use works until this one is used.
pub(super) async fn secret(State(app): State<Arc<App>>, Device(client): Device) -> Answer<Json<NewSecret>> {
    let secret = entropy::secret(SecretKind::Client);
    let mut tx = app.db.begin().await?;
    tx.set_next_secret(client.id, &stored_hash(&secret)).await?;
    tx.commit().await?;
    Ok(Json(NewSecret { secret }))
}

/// Asks the operator's webhook, if there is one.
async fn require_attested(
    app: &App,
    enroller: &Enroller,
    key: Option<&CertifiedKey>,
    request: &EnrolRequest,
) -> Answer<()> {
    if let Some(Attestation { platform, statement }) = &request.attestation {
        let is_platform = (1..=PLATFORM_BYTES_MAX).contains(&platform.len()) && text::is_text(platform);
        if !is_platform || statement.len() > STATEMENT_BYTES_MAX {
            let detail = format!(
                "an attestation has a platform of 1 to {PLATFORM_BYTES_MAX} bytes and a statement of at most \
                 {STATEMENT_BYTES_MAX}"
            );
            return Err(ApiError::new(ProblemType::Malformed, detail));
        }
    }
    let Some(hook) = &app.devices.attestation else { return Ok(()) };
    let question = Question {
        population: &enroller.population,
        token: enroller.token,
        token_label: &enroller.label,
        attributes: &request.attributes.with_granted(&enroller.granted),
        key_sha256: key.map(|key| key.fingerprint),
        platform: request.attestation.as_ref().map(|attestation| attestation.platform.as_str()),
        statement: request.attestation.as_ref().map(|attestation| attestation.statement.as_str()),
    };
    hook.ask(&question).await?;
    Ok(())
}

async fn authority(app: &App, population: &Name) -> Answer<Authority> {
    Ok(Authority::of(&app.db, population, app.clock.now_ms(), app.devices.certificate_life_ms).await?)
}

fn issue(
    app: &App,
    authority: &Authority,
    population: &Name,
    client: ClientId,
    key: &CertifiedKey,
    now_ms: i64,
) -> Answer<IssuedCertificate> {
    let name = DeviceName { population: population.clone(), client };
    Ok(authority.issue(&name, key, now_ms, app.devices.certificate_life_ms)?)
}

fn refused_enrolment(refused: &Enrolment) -> ApiError {
    match refused {
        Enrolment::UsedUp { uses_max } => ApiError::new(
            ProblemType::Unauthorized,
            format!("this enrolment token has enrolled {uses_max} clients, as many as it may"),
        ),
        Enrolment::TooSoon { per_minute_max, retry_after_ms } => ApiError::new(
            ProblemType::TooManyRequests,
            format!("this enrolment token enrols at most {per_minute_max} clients in a minute"),
        )
        .retry_after_ms(*retry_after_ms),
        Enrolment::Unknown | Enrolment::Counted(_) => {
            ApiError::new(ProblemType::Unauthorized, "this enrolment token is unknown, expired or revoked")
        }
    }
}

impl From<EnrolError> for ApiError {
    fn from(error: EnrolError) -> Self {
        match error {
            EnrolError::Db(error) => error.into(),
            EnrolError::Authority(error) => error.into(),
            EnrolError::Token(refused) => refused_enrolment(&refused),
            EnrolError::Revoked => Self::new(
                ProblemType::ClientRevoked,
                "an operator revoked this device; it needs a new key to enrol again",
            ),
            EnrolError::Quarantined(client) => Self::new(
                ProblemType::Forbidden,
                format!("this device is quarantined as {client} until an operator releases it"),
            ),
        }
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        Self::new(ProblemType::Malformed, error.to_string())
    }
}

impl From<AuthorityError> for ApiError {
    fn from(error: AuthorityError) -> Self {
        match error {
            AuthorityError::Db(error) => error.into(),
            AuthorityError::Make(error) => Self::internal(error),
        }
    }
}

impl From<AttestationError> for ApiError {
    fn from(error: AttestationError) -> Self {
        let detail = error.to_string();
        match error {
            AttestationError::Refused(_) => Self::new(ProblemType::AttestationRefused, detail),
            AttestationError::Busy => {
                Self::new(ProblemType::TooManyRequests, detail).retry_after_ms(ATTESTATION_RETRY_MS)
            }
            AttestationError::Unusable(_) => {
                tracing::warn!(%error, "an enrolment is refused");
                Self::new(ProblemType::Unavailable, "the operator's attestation webhook gave no usable answer")
                    .retry_after_ms(ATTESTATION_RETRY_MS)
            }
        }
    }
}
