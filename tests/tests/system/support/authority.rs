//! An authority that issues certificates to devices, and is not the coordinator.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
};
use tributary_client::KeyStore;

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A public key as rcgen takes it.
struct Point([u8; 65]);

impl PublicKeyData for Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.not_before = rcgen::date_time_ymd(1970, 1, 1);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate in PEM for the key of a device.
    pub(crate) fn certificate(&self, keys: &dyn KeyStore) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        // The clocks of the tests begin there.
        params.not_before = rcgen::date_time_ymd(1970, 1, 1);
        params.signed_by(&Point(keys.public_key().unwrap()), &self.0).unwrap().pem()
    }
}
