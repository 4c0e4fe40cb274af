//! A key in the client's state.

use std::sync::{Arc, Mutex};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use super::contract::{KEY, KeyError, KeyStore};
use crate::locked::Locked;
use crate::store::{Durability, Store};

/// Keeps the key in an entry of a [`Store`], beside the client's identity. Entries of a
/// [`FileStore`](crate::FileStore) are files that only their owner may read. Secure hardware protects a key better:
/// see [`KeyStore`].
#[derive(Debug)]
pub struct StoredKey {
    store: Arc<dyn Store>,
    /// `None` until the key is used for the first time.
    key: Mutex<Option<Arc<EcdsaKeyPair>>>,
}

impl StoredKey {
    /// The key in this store. Nothing is read or written yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, key: Mutex::new(None) }
    }

    fn key(&self) -> Result<Arc<EcdsaKeyPair>, KeyError> {
        let mut key = self.key.locked();
        if let Some(key) = &*key {
            return Ok(Arc::clone(key));
        }
        let stored = self.store.get(KEY).map_err(|error| KeyError(error.to_string()))?;
        let read = match stored {
            Some(stored) => stored,
            None => self.make()?,
        };
        let read = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &read, &SystemRandom::new());
        let read = read.map_err(|error| KeyError(format!("{}: {error}", self.store.place(KEY))))?;
        Ok(Arc::clone(key.insert(Arc::new(read))))
    }

    fn make(&self) -> Result<Vec<u8>, KeyError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let made = made.map_err(|_| KeyError("the system gives no random bytes".into()))?;
        self.store.put(KEY, made.as_ref(), Durability::Power).map_err(|error| KeyError(error.to_string()))?;
        Ok(made.as_ref().to_vec())
    }
}

impl KeyStore for StoredKey {
    fn public_key(&self) -> Result<[u8; 65], KeyError> {
        let point: Result<[u8; 65], _> = self.key()?.public_key().as_ref().try_into();
        point.map_err(|_| KeyError("its point has not 65 bytes".into()))
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self.key()?.sign(&SystemRandom::new(), message);
        Ok(signature.map_err(|_| KeyError("it does not sign".into()))?.as_ref().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};

    use super::*;
    use crate::store::{FileStore, MemoryStore};

    #[test]
    fn a_key_is_made_once_and_signs() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let key = StoredKey::new(Arc::clone(&store));
        let point = key.public_key().unwrap();
        assert_eq!(StoredKey::new(store).public_key().unwrap(), point, "after a restart");
        let signature = key.sign(b"message").unwrap();
        let verifier = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
        assert!(verifier.verify(b"message", &signature).is_ok());
        assert!(verifier.verify(b"another", &signature).is_err());
    }

    #[test]
    fn a_damaged_key_is_named_with_its_place_and_is_not_replaced() {
        let store = Arc::new(MemoryStore::new());
        store.put(KEY, b"no key", Durability::Process).unwrap();
        let key = StoredKey::new(Arc::clone(&store) as Arc<_>);
        assert!(key.public_key().unwrap_err().to_string().contains("device.key"));
        assert_eq!(store.get(KEY).unwrap().unwrap(), b"no key");
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_the_key() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        StoredKey::new(Arc::new(FileStore::new(directory.path()))).public_key().unwrap();
        let mode = std::fs::metadata(directory.path().join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
