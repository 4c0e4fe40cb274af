//! The coordinator's certificate for the device's key.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::contract::{KeyError, KeyStore};

/// A certificate with the store of its key.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    keys: Arc<dyn KeyStore>,
}

impl ClientCertificate {
    /// The first certificate of the PEM text is the device's own.
    ///
    /// # Errors
    /// [`KeyError`] if there is no certificate in it.
    pub fn from_pem(pem: &str, keys: Arc<dyn KeyStore>) -> Result<Self, KeyError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| KeyError("there is no certificate in PEM for it".into()))?;
        Ok(Self { chain, keys })
    }

    /// Whether it is for the key that is in the store now. The key may have been lost, or the app may use another
    /// store.
    ///
    /// # Errors
    /// [`KeyError`] if the key cannot be read.
    pub fn is_for_its_key(&self) -> Result<bool, KeyError> {
        let point = self.keys.public_key()?;
        Ok(self.chain.first().is_some_and(|own| own.windows(point.len()).any(|bytes| bytes == point)))
    }

    /// The certificates in DER, the device's own first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The store of the key.
    pub fn keys(&self) -> &Arc<dyn KeyStore> {
        &self.keys
    }
}
