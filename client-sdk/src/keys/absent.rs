//! Where there is no key.

use super::contract::{KeyError, KeyStore};

/// A device that has no key of its own, as a browser: its client is known by its secret alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoKey;

fn none<T>() -> Result<T, KeyError> {
    Err(KeyError("this build holds none; a coordinator that asks for certificates needs another client".into()))
}

impl KeyStore for NoKey {
    fn public_key(&self) -> Result<[u8; 65], KeyError> {
        none()
    }

    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, KeyError> {
        none()
    }
}
