//! An authority that issues certificates to devices.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
};

use crate::keys::{KeyStore, StoredKey};

pub(in crate::secure) type Ca = CertifiedIssuer<'static, KeyPair>;

pub(in crate::secure) fn ca() -> Ca {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

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

/// A certificate in PEM from the first day of one year to the first day of another one.
pub(in crate::secure) fn issued(ca: &Ca, keys: &StoredKey, [from, until]: [i32; 2]) -> String {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    params.signed_by(&Point(keys.public_key().unwrap()), ca).unwrap().pem()
}
