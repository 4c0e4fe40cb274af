//! A certificate, or the key alone, as rustls presents it.

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
#[cfg(feature = "group")]
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

use super::certificate::ClientCertificate;
#[cfg(feature = "group")]
use super::contract::KeyError;
use super::contract::KeyStore;
#[cfg(feature = "group")]
use super::request::public_key_info;

impl ClientCertificate {
    /// What rustls presents to servers that ask for a certificate.
    pub fn resolver(&self) -> Arc<dyn ResolvesClientCert> {
        let key = Arc::new(OutsideKey(Arc::clone(self.keys())));
        Arc::new(SingleCertAndKey::from(CertifiedKey::new(self.chain().to_vec(), key)))
    }
}

/// The key without a certificate (RFC 7250): its SubjectPublicKeyInfo stands where the certificate would.
///
/// # Errors
/// [`KeyError`] if the key cannot be read.
#[cfg(feature = "group")]
pub(crate) fn raw_key(keys: &Arc<dyn KeyStore>) -> Result<Arc<CertifiedKey>, KeyError> {
    let info = CertificateDer::from(public_key_info(&**keys)?);
    Ok(Arc::new(CertifiedKey::new(vec![info], Arc::new(OutsideKey(Arc::clone(keys))))))
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
