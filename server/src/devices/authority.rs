//! The CA of each population, and the certificates that it signs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, SerialNumber,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use time::OffsetDateTime;
use tributary_protocol::credential::{DeviceName, IssuedCertificate};
use tributary_protocol::id::Name;

use super::request::CertifiedKey;
use crate::db::{CaRow, Db, DbError};
use crate::net::DEVICE_CA;
use crate::runtime::entropy;

const DAY_MS: i64 = 24 * 3_600_000;
/// How long a CA is valid. It is replaced before a certificate could outlive it.
const CA_VALID_MS: i64 = 20 * 365 * DAY_MS;
/// Certificates are valid from 5 minutes before, for coordinators of the same database whose clocks are slow.
const BACKDATED_MS: i64 = 300_000;

/// The CA of a population.
#[derive(Debug)]
pub(crate) struct Authority(CaRow);

#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorityError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
}

impl Authority {
    /// The CA of a population; it is made if there is none that is valid for `life_ms`. Writes in a transaction of its
    /// own.
    pub(crate) async fn of(db: &Db, population: &Name, now_ms: i64, life_ms: i64) -> Result<Self, AuthorityError> {
        let needed_until_ms = now_ms.saturating_add(life_ms);
        let lasts = |ca: &CaRow| ca.expires_at_ms > needed_until_ms;
        if let Some(ca) = db.read().await?.population_ca(population).await?.filter(lasts) {
            return Ok(Self(ca));
        }
        let made = made(now_ms, CA_VALID_MS.max(life_ms.saturating_mul(2)))?;
        let mut tx = db.begin().await?;
        tx.offer_population_ca(population, &made, needed_until_ms).await?;
        // Another request may have been first.
        let ca = tx.population_ca(population).await?;
        tx.commit().await?;
        Ok(Self(ca.unwrap_or(made)))
    }

    /// A certificate for a client with this key.
    pub(crate) fn issue(
        &self,
        name: &DeviceName,
        key: &CertifiedKey,
        now_ms: i64,
        life_ms: i64,
    ) -> Result<IssuedCertificate, AuthorityError> {
        let ca_key = KeyPair::try_from(&PrivatePkcs8KeyDer::from(self.0.private_key.as_slice()))?;
        let issuer = Issuer::new(ca_params(self.0.created_at_ms, self.0.expires_at_ms), ca_key);
        let mut params = CertificateParams::default();
        params.distinguished_name = Default::default();
        params.distinguished_name.push(DnType::CommonName, name.client.to_string());
        params.subject_alt_names = vec![SanType::URI(name.to_string().try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(serial_number());
        params.not_before = time_of(now_ms.saturating_sub(BACKDATED_MS));
        params.not_after = time_of(now_ms.saturating_add(life_ms));
        let certificate = params.signed_by(key, &issuer)?.pem();
        let authority = pem_of(&self.0.certificate);
        Ok(IssuedCertificate { certificate, authority, expires_in_ms: u64::try_from(life_ms).unwrap_or(0) })
    }
}

/// A certificate in PEM (RFC 7468).
fn pem_of(certificate: &[u8]) -> String {
    let digits = STANDARD.encode(certificate);
    let lines: Vec<_> = digits.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// A new CA with its key.
fn made(now_ms: i64, life_ms: i64) -> Result<CaRow, rcgen::Error> {
    let key = KeyPair::generate()?;
    let expires_at_ms = now_ms.saturating_add(life_ms);
    let certificate = ca_params(now_ms, expires_at_ms).self_signed(&key)?;
    Ok(CaRow {
        certificate: certificate.der().to_vec(),
        private_key: key.serialize_der(),
        created_at_ms: now_ms,
        expires_at_ms,
    })
}

/// The same for every population: which CA a certificate is from, its signature shows.
fn ca_params(created_at_ms: i64, expires_at_ms: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = Default::default();
    params.distinguished_name.push(DnType::CommonName, DEVICE_CA);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_before = time_of(created_at_ms.saturating_sub(BACKDATED_MS));
    params.not_after = time_of(expires_at_ms);
    params
}

/// 16 random bytes, of which the first is neither 0 nor negative (RFC 5280, section 4.1.2.2).
fn serial_number() -> SerialNumber {
    let mut bytes = entropy::random::<16>();
    bytes[0] = bytes[0] & 0x3f | 0x40;
    SerialNumber::from_slice(&bytes)
}

/// Times outside of what a certificate can hold become the last second of 9999.
fn time_of(at_ms: i64) -> OffsetDateTime {
    const LAST_SECOND: i64 = 253_402_300_799;
    let seconds = at_ms.div_euclid(1000).min(LAST_SECOND);
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use rcgen::PublicKeyData;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use tributary_protocol::id::ClientId;
    use tributary_tls::x509::leaf;

    use super::*;

    #[test]
    fn a_certificate_names_its_client_and_its_key_and_has_a_serial_number_of_its_own() {
        let now_ms = 1_800_000_000_000;
        let authority = Authority(made(now_ms, CA_VALID_MS).unwrap());
        let name = DeviceName { population: "devices".parse().unwrap(), client: ClientId::from_random([7; 16]) };
        let key = KeyPair::generate().unwrap();
        let request = CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
        let key = CertifiedKey::requested(&request).unwrap();
        let issue = || authority.issue(&name, &key, now_ms, DAY_MS).unwrap();
        let [one, two] = [issue(), issue()].map(|issued| {
            assert_eq!(issued.expires_in_ms, DAY_MS as u64);
            let ca = CertificateDer::from_pem_slice(issued.authority.as_bytes()).unwrap();
            assert_eq!(ca[..], authority.0.certificate);
            CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap()
        });
        let found = leaf(&one).unwrap();
        assert_eq!(found.uris, [name.to_string()]);
        assert_eq!(found.public_key.as_ref(), key.subject_public_key_info());
        assert_eq!((found.valid_from_ms, found.valid_until_ms), (now_ms - BACKDATED_MS, now_ms + DAY_MS));
        assert_ne!(one, two);
    }
}
