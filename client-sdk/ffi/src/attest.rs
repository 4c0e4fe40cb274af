//! What the platform says about the device.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tributary_client::{Attest, AttestError};
use tributary_protocol::hash::Sha256Hash;

use crate::errors::CallbackError;

/// A statement of the device's platform, for the operator's webhook.
#[derive(Clone, PartialEq, Eq, uniffi::Record)]
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

/// Obtains the platform's statement at an enrolment: App Attest, Play Integrity. It is called on the thread that runs a
/// session, and may block it.
#[uniffi::export(with_foreign)]
pub trait Attester: Send + Sync {
    /// The statement. `key` is the SHA-256 (32 bytes) of the device's public key, which a platform that signs a nonce
    /// of the app should sign: then a copy of the statement is worth nothing on another device. None where the client
    /// has no key.
    ///
    /// # Errors
    /// [`CallbackError`] if the platform makes no statement; then the client does not enrol.
    fn attest(&self, key: Option<Vec<u8>>) -> Result<Attestation, CallbackError>;
}

/// The app's attester as the SDK's.
pub(crate) struct AppAttester(pub(crate) Arc<dyn Attester>);

impl fmt::Debug for AppAttester {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AppAttester")
    }
}

type Stated<'a> = Pin<Box<dyn Future<Output = Result<tributary_client::Attestation, AttestError>> + Send + 'a>>;

impl Attest for AppAttester {
    fn attest(&self, key: Option<Sha256Hash>) -> Stated<'_> {
        let stated = self.0.attest(key.map(|key| key.0.to_vec()));
        let stated = stated.map_err(|error| AttestError(error.to_string()));
        let stated =
            stated.map(|Attestation { platform, statement }| tributary_client::Attestation { platform, statement });
        Box::pin(std::future::ready(stated))
    }
}
