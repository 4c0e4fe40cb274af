//! What clients authenticate with: certificates of their population's CA, secrets, and statements about the device.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{ClientId, Name, Secret};

/// Longest certificate request in bytes, as PEM.
pub const CERTIFICATE_REQUEST_BYTES_MAX: usize = 8 << 10;
/// Longest name of a platform in bytes.
pub const PLATFORM_BYTES_MAX: usize = 128;
/// Longest attestation statement in bytes.
pub const STATEMENT_BYTES_MAX: usize = 64 << 10;

/// The client that a certificate is for: a URI among its alternative names,
/// `tributary:population/POPULATION/client/CLIENT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// The population, whose CA signs the certificate.
    pub population: Name,
    /// The client's id.
    pub client: ClientId,
}

/// A URI that names no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of a device is tributary:population/POPULATION/client/CLIENT")]
pub struct DeviceNameError;

impl fmt::Display for DeviceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "tributary:population/{}/client/{}", self.population, self.client)
    }
}

impl FromStr for DeviceName {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Self, DeviceNameError> {
        let rest = text.strip_prefix("tributary:population/").ok_or(DeviceNameError)?;
        let (population, client) = rest.split_once("/client/").ok_or(DeviceNameError)?;
        let population = population.parse().map_err(|_| DeviceNameError)?;
        Ok(Self { population, client: client.parse().map_err(|_| DeviceNameError)? })
    }
}

/// What a device's platform says about it, for the operator's attestation webhook. The coordinator does not read it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attestation {
    /// Which kind of statement it is, for example `ios-app-attest`: 1 to 128 bytes.
    pub platform: String,
    /// The statement, in the platform's form; binary ones in base64. At most 65,536 bytes.
    pub statement: String,
}

impl fmt::Debug for Attestation {
    /// Without the statement, which can identify the device.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Attestation").field("platform", &self.platform).finish_non_exhaustive()
    }
}

/// A client asks for a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CertificateRequest {
    /// A PKCS #10 request in PEM (RFC 2986), at most 8,192 bytes: with an ECDSA key on P-256, signed with SHA-256. Its
    /// names and extensions are ignored.
    pub certificate_request: String,
}

/// A client's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssuedCertificate {
    /// The certificate in PEM. Its CA signs directly, so there is no chain.
    pub certificate: String,
    /// The certificate of the population's CA in PEM. Groups whose members sign trust it, unless their app has another.
    pub authority: String,
    /// Time until it expires, in milliseconds. A duration, since device clocks are often wrong.
    pub expires_in_ms: u64,
}

/// A client's next secret. The old one works until this one is used for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewSecret {
    /// The coordinator stores only its hash and cannot show it again.
    pub secret: Secret,
}

/// A credential that the client should replace now. It works a while longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// `POST /device/v1/certificate`.
    Certificate,
    /// `POST /device/v1/secret`.
    Secret,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_device_reads_back_and_no_other_text_does() {
        let name = DeviceName { population: "site-7".parse().unwrap(), client: ClientId::from_random([0xab; 16]) };
        let text = name.to_string();
        assert_eq!(text, "tributary:population/site-7/client/client_abababababababababababababababab");
        assert_eq!(text.parse(), Ok(name));
        for wrong in ["", &text[1..], &text[..text.len() - 1], &text.replace("site-7", "a/b"), &format!("{text}/x")] {
            assert!(wrong.parse::<DeviceName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_attestation_hides_its_statement_from_logs() {
        let attestation = Attestation { platform: "android".into(), statement: "5erial".into() };
        assert!(!format!("{attestation:?}").contains("5erial"));
    }
}
