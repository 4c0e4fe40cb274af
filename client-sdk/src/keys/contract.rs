//! What every store of a key promises.

use std::fmt::Debug;

/// The entry of the client's store in which the device's key is kept, where the app keeps none: PKCS #8 in DER.
pub(crate) const KEY: &str = "device.key";

/// Holds the device's key pair: ECDSA on the curve P-256, which secure hardware offers.
///
/// The private key never leaves the store: the SDK asks for signatures. An app implements this over the Secure Enclave
/// (`SecKeyCreateSignature` with `ecdsaSignatureMessageX962SHA256`), Android's key store (`SHA256withECDSA`) or a TPM.
/// Calls come from the thread that runs a session and block it, in TLS handshakes too.
pub trait KeyStore: Debug + Send + Sync {
    /// The public key: the 65 bytes of the point, uncompressed (SEC 1, section 2.3.3). Creates the key pair if there is
    /// none. Every call returns the same key, after a restart too.
    ///
    /// # Errors
    /// [`KeyError`] if the key cannot be read or created.
    fn public_key(&self) -> Result<[u8; 65], KeyError>;

    /// Signs the SHA-256 of a message. Returns the signature in ASN.1 DER (RFC 3279, section 2.2.3).
    ///
    /// # Errors
    /// [`KeyError`] if the key does not sign, for example because the device is locked.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError>;
}

/// The device's key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device's key cannot be used: {0}")]
pub struct KeyError(
    /// What happened, for the app's log.
    pub String,
);
