//! The coordinator's certificate for the device's key, as TLS presents it.

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

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
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The store of the key.
    #[must_use]
    pub fn keys(&self) -> &Arc<dyn KeyStore> {
        &self.keys
    }

    /// What rustls presents to servers that ask for a certificate.
    #[must_use]
    pub fn resolver(&self) -> Arc<dyn ResolvesClientCert> {
        let key = Arc::new(OutsideKey(Arc::clone(&self.keys)));
        Arc::new(SingleCertAndKey::from(CertifiedKey::new(self.chain.clone(), key)))
    }
}

/// A key that signs elsewhere.
#[derive(Clone, Debug)]
struct OutsideKey(Arc<dyn KeyStore>);

impl SigningKey for OutsideKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&self.scheme()).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for OutsideKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        self.0.sign(message).map_err(|error| rustls::Error::General(error.to_string()))
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP256_SHA256
    }
}
