//! How clients prove who they are.
//!
//! | part | content |
//! |---|---|
//! | `request` | certificate requests: the key that is to be certified |
//! | `authority` | the CA of each population, and the certificates that it signs |
//! | `presented` | the certificate that a client presents: whose it is, and whether it is valid |
//! | `enrolment` | a device becomes a client, or comes back as the client that it was |
//! | `attestation` | the operator's webhook that allows enrolments |
//!
//! The handshake accepts any certificate whose key the client has. Who it belongs to, who signed it and whether it is
//! valid is decided for each request by the coordinator's clock, so a long connection outlives no certificate and no
//! revocation. The URI in a certificate says which population's CA must have signed it. A client that enrols again
//! keeps its id only if the handshake presented its certificate: a certificate request alone may be a copy.

mod attestation;
mod authority;
mod enrolment;
mod presented;
mod request;

use std::time::Duration;

pub use attestation::AttestationSettings;
pub(crate) use attestation::{AttestationError, AttestationHook, Question};
pub(crate) use authority::{Authority, AuthorityError};
pub(crate) use enrolment::{Applicant, EnrolError, Enrolled, enrol};
pub(crate) use presented::{PresentedError, signed_client};
pub(crate) use request::{CertifiedKey, RequestError};

/// How long a certificate of a client is valid, unless a setting says otherwise: a week.
const CERTIFICATE_LIFE_DEFAULT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Age of a secret at which its client is asked to replace it, in milliseconds: 30 days.
pub(crate) const SECRET_RENEWED_AFTER_MS: i64 = 30 * 24 * 3_600_000;

/// What clients of the device API authenticate with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// Their secret.
    #[default]
    Bearer,
    /// A certificate in the handshake.
    Certificate,
    /// A certificate if they present a valid one, else their secret.
    Either,
}

impl ClientAuth {
    /// Whether the handshake asks for certificates.
    pub fn asks_for_certificates(self) -> bool {
        self != Self::Bearer
    }
}

/// Settings of how clients prove who they are.
#[derive(Clone, Debug)]
pub struct DeviceSettings {
    /// All but [`ClientAuth::Bearer`] needs TLS in the listener.
    pub client_auth: ClientAuth,
    /// How long a certificate is valid. Clients replace it when two thirds of the time are over.
    pub certificate_life: Duration,
    /// Who is asked at each enrolment; without it, enrolment tokens alone decide.
    pub attestation: Option<AttestationSettings>,
}

impl Default for DeviceSettings {
    fn default() -> Self {
        Self { client_auth: ClientAuth::default(), certificate_life: CERTIFICATE_LIFE_DEFAULT, attestation: None }
    }
}

/// How this coordinator's clients prove who they are.
#[derive(Debug)]
pub struct Devices {
    pub(crate) client_auth: ClientAuth,
    pub(crate) certificate_life_ms: i64,
    pub(crate) attestation: Option<AttestationHook>,
}

impl Devices {
    /// Fails when no HTTP client can be made for the attestation webhook.
    pub fn new(settings: &DeviceSettings) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client_auth: settings.client_auth,
            certificate_life_ms: i64::try_from(settings.certificate_life.as_millis()).unwrap_or(i64::MAX),
            attestation: settings.attestation.clone().map(AttestationHook::new).transpose()?,
        })
    }
}
