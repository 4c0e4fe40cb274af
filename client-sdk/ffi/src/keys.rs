//! A key pair in the device's hardware.

use std::fmt;
use std::sync::Arc;

use tributary_client::KeyError;

use crate::errors::CallbackError;

/// Holds the device's key pair: ECDSA on P-256, in Android's key store or the Secure Enclave. The private key never
/// leaves it. Calls come from the thread that runs a session.
#[uniffi::export(with_foreign)]
pub trait KeyStore: Send + Sync {
    /// The 65 bytes of the public point, uncompressed: 4, x, y. Creates the key pair if there is none.
    ///
    /// # Errors
    /// [`CallbackError`] if the key cannot be read or created.
    fn public_key(&self) -> Result<Vec<u8>, CallbackError>;

    /// The signature of the SHA-256 of this message, in DER: `SHA256withECDSA`, or
    /// `ecdsaSignatureMessageX962SHA256`.
    ///
    /// # Errors
    /// [`CallbackError`] if the key does not sign, for example because the device is locked.
    fn sign(&self, message: Vec<u8>) -> Result<Vec<u8>, CallbackError>;
}

/// The app's key store as the SDK's.
pub(crate) struct AppKeys(pub(crate) Arc<dyn KeyStore>);

impl fmt::Debug for AppKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AppKeys")
    }
}

impl tributary_client::KeyStore for AppKeys {
    fn public_key(&self) -> Result<[u8; 65], KeyError> {
        let point = self.0.public_key().map_err(|error| KeyError(error.to_string()))?;
        let refused = |point: Vec<u8>| KeyError(format!("its point has {} bytes instead of 65", point.len()));
        point.try_into().map_err(refused)
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        self.0.sign(message.to_vec()).map_err(|error| KeyError(error.to_string()))
    }
}
