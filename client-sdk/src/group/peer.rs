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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_tls::devices::point_of;

    use super::*;
    use crate::keys::StoredKey;
    use crate::keys::request::public_key_info;
    use crate::store::MemoryStore;

    #[test]
    fn a_key_is_named_by_what_it_presents() {
        let keys = StoredKey::new(Arc::new(MemoryStore::new()));
        let presented = public_key_info(&keys).unwrap();
        assert_eq!(point_of(&presented), Some(&keys.public_key().unwrap()[..]));
        assert_eq!(PeerKey::of(&presented), PeerKey::own(&keys).unwrap());
    }
}
