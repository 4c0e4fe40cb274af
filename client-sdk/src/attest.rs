//! What the device's platform says about it, at enrolment.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
pub use tributary_protocol::credential::Attestation;
use tributary_protocol::hash::Sha256Hash;

/// Obtains the platform's statement about the device: App Attest, Play Integrity, a TPM quote.
///
/// The operator's webhook reads it at each enrolment and allows or refuses the client. An [`Attestation`] is its own
/// attester: it is sent as it is.
pub trait Attest: Debug + Send + Sync {
    /// The statement for an enrolment.
    ///
    /// `key` is the SHA-256 of the device's public key (SubjectPublicKeyInfo in DER), which the webhook receives, too.
    /// A platform that signs a nonce of the app should sign this hash: then a copy of the statement is worth nothing on
    /// another device. It is `None` where the client has no key, because its transport presents no certificates.
    ///
    /// # Errors
    /// [`AttestError`] if the platform makes no statement; then the client does not enrol.
    fn attest(&self, key: Option<Sha256Hash>) -> BoxFuture<'_, Result<Attestation, AttestError>>;
}

impl Attest for Attestation {
    fn attest(&self, _: Option<Sha256Hash>) -> BoxFuture<'_, Result<Attestation, AttestError>> {
        Box::pin(std::future::ready(Ok(self.clone())))
    }
}

/// The platform makes no statement about the device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device cannot be attested: {0}")]
pub struct AttestError(
    /// What happened, for the app's log.
    pub String,
);
