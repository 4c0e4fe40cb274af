//! How a roster names the key of a member.

use tributary_protocol::hash::Sha256Hash;

use crate::keys::request::fingerprint;
use crate::keys::{KeyError, KeyStore};

/// SHA-256 of a public key as SubjectPublicKeyInfo in DER.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerKey(pub Sha256Hash);

impl PeerKey {
    /// The name of the device's own key, for the roster.
    ///
    /// # Errors
    /// [`KeyError`] if the key cannot be read.
    pub fn own(keys: &dyn KeyStore) -> Result<Self, KeyError> {
        fingerprint(keys).map(Self)
    }

    /// The name of a key that another member presents, given as SubjectPublicKeyInfo in DER.
    pub fn of(public_key_info: &[u8]) -> Self {
        Self(Sha256Hash::of(public_key_info))
    }
}
