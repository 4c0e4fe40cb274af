//! The settings of `serve` about how clients prove who they are.

use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;
use tributary_client::is_exposed;
use tributary_server::devices::{AttestationSettings, ClientAuth, DeviceSettings};

use crate::error::CliError;
use crate::units::{HttpUrl, HumanDuration};

const ATTESTATION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Shorter certificates would be renewed more often than clients check in.
const CERTIFICATE_LIFE_MIN: Duration = Duration::from_secs(3600);
const CERTIFICATE_LIFE_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClientAuthBy {
    /// By their secret.
    #[default]
    Bearer,
    /// By a certificate in the TLS handshake. Secrets are refused.
    Certificate,
    /// By a certificate if they present a valid one, else by their secret.
    Either,
}

/// The settings as they were given.
pub(super) struct Given {
    pub(super) client_auth: Option<ClientAuthBy>,
    pub(super) certificate_life: Option<HumanDuration>,
    pub(super) attestation_url: Option<HttpUrl>,
    pub(super) attestation_timeout: Option<HumanDuration>,
    pub(super) has_tls: bool,
}

impl Given {
    pub(super) fn settings(self) -> Result<DeviceSettings, CliError> {
        let wrong = |message: &str| Err(CliError::BadSetting(message.into()));
        let client_auth = match self.client_auth.unwrap_or_default() {
            ClientAuthBy::Bearer => ClientAuth::Bearer,
            ClientAuthBy::Certificate => ClientAuth::Certificate,
            ClientAuthBy::Either => ClientAuth::Either,
        };
        let asks = client_auth.asks_for_certificates();
        let life = self.certificate_life.map(HumanDuration::duration);
        let url = self.attestation_url.as_ref().map(HttpUrl::url);
        if asks && !self.has_tls {
            return wrong("client_auth needs TLS in this listener: a proxy in front of it would take the certificates");
        } else if life.is_some() && !asks {
            return wrong("client_certificate_life is for client_auth = certificate or either");
        } else if life.is_some_and(|life| !(CERTIFICATE_LIFE_MIN..=CERTIFICATE_LIFE_MAX).contains(&life)) {
            return wrong("client_certificate_life must be from 1h to 3650d");
        } else if self.attestation_timeout.is_some() && url.is_none() {
            return wrong("attestation_timeout is for attestation_url");
        } else if url.is_some_and(|url| is_exposed(url.as_str())) {
            return wrong("attestation_url must be https: everyone on the way could answer instead");
        }
        let timeout = self.attestation_timeout.map_or(ATTESTATION_TIMEOUT_DEFAULT, HumanDuration::duration);
        Ok(DeviceSettings {
            client_auth,
            certificate_life: life.unwrap_or(DeviceSettings::default().certificate_life),
            attestation: url.map(|url| AttestationSettings { url: url.clone(), timeout }),
        })
    }
}
