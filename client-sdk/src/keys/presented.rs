//! A certificate as rustls presents it.

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

use super::certificate::ClientCertificate;
use super::contract::KeyStore;

impl ClientCertificate {
    /// What rustls presents to servers that ask for a certificate.
    pub fn resolver(&self) -> Arc<dyn ResolvesClientCert> {
        let key = Arc::new(OutsideKey(Arc::clone(self.keys())));
        Arc::new(SingleCertAndKey::from(CertifiedKey::new(self.chain().to_vec(), key)))
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
