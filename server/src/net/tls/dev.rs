//! A private CA, made at the first start, and certificates from it. The certificates and their keys are only in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;
use tributary_protocol::hash::Sha256Hash;

use super::error::TlsError;
use super::files::{certificates, write_secret};
use super::identity::{Identity, PinnedCa};
use super::names::{and_local, of_this_machine};
use crate::runtime::lock::Locked;

const CA_FILE: &str = "ca.pem";
const CA_KEY_FILE: &str = "ca.key";
const DAY_MS: i64 = 24 * 3600 * 1000;
/// Clients pin the CA, so it must outlive them.
const CA_VALID_MS: i64 = 20 * 365 * DAY_MS;
const VALID_MS: i64 = 90 * DAY_MS;
const RENEWED_BEFORE_MS: i64 = 30 * DAY_MS;
/// Certificates are valid from a day before, for clients whose clocks are slow.
const BACKDATED_MS: i64 = DAY_MS;

/// The CA of one coordinator.
pub(super) struct Dev {
    pub(super) ca: PinnedCa,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    /// As the operator chose them.
    chosen: Vec<String>,
    /// Those in the current certificate.
    names: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Dev {
    /// Without the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dev").field("ca", &self.ca).field("names", &self.names).finish_non_exhaustive()
    }
}

impl Dev {
    pub(super) fn open(directory: &Path, names: &[String], now_ms: i64) -> Result<(Self, Identity), TlsError> {
        let failed = |source| TlsError::File { action: "make", path: directory.to_owned(), source };
        std::fs::create_dir_all(directory).map_err(failed)?;
        let (file, key_file) = (directory.join(CA_FILE), directory.join(CA_KEY_FILE));
        let key = key(&key_file)?;
        let params = ca_params(&key, now_ms)?;
        if !file.exists() {
            // Under another name first: a file with half a certificate would be read at the next start.
            let new = directory.join("ca.pem.new");
            let failed = |source| TlsError::File { action: "write", path: file.clone(), source };
            std::fs::write(&new, params.self_signed(&key)?.pem()).map_err(failed)?;
            std::fs::rename(&new, &file).map_err(failed)?;
        }
        let certificate = certificates(&file)?.into_iter().next();
        let certificate = certificate
            .ok_or_else(|| TlsError::Content { path: file.clone(), message: "it has no certificate".into() })?;
        let dev = Self {
            ca: PinnedCa { file, fingerprint: Sha256Hash::of(&certificate) },
            certificate,
            issuer: Issuer::new(params, key),
            chosen: names.to_owned(),
            names: Mutex::default(),
        };
        let identity = dev.issue(dev.wanted_names(), now_ms)?;
        Ok((dev, identity))
    }

    /// A new certificate, if the current one ends soon or the machine has other addresses now.
    pub(super) fn renewed(&self, expires_at_ms: i64, now_ms: i64) -> Result<Option<Identity>, TlsError> {
        let wanted = self.wanted_names();
        let is_valid = expires_at_ms - now_ms > RENEWED_BEFORE_MS;
        if is_valid && wanted == self.names() { Ok(None) } else { self.issue(wanted, now_ms).map(Some) }
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.names.locked().clone()
    }

    fn wanted_names(&self) -> Vec<String> {
        if self.chosen.is_empty() { of_this_machine() } else { and_local(self.chosen.clone()) }
    }

    fn issue(&self, names: Vec<String>, now_ms: i64) -> Result<Identity, TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.clone())?;
        params.distinguished_name = Default::default();
        params.distinguished_name.push(DnType::CommonName, "Tributary coordinator");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = time_of(now_ms - BACKDATED_MS);
        params.not_after = time_of(now_ms + VALID_MS);
        let leaf = params.signed_by(&key, &self.issuer)?;
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let certified = CertifiedKey::from_der(chain, key, &tributary_tls::provider())?;
        *self.names.locked() = names;
        Ok(Identity { certified: Arc::new(certified), expires_at_ms: now_ms + VALID_MS })
    }
}

/// The CA's key, made when there is none.
fn key(path: &Path) -> Result<KeyPair, TlsError> {
    match std::fs::read_to_string(path) {
        Ok(text) => KeyPair::from_pem(&text)
            .map_err(|error| TlsError::Content { path: path.to_owned(), message: error.to_string() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = KeyPair::generate()?;
            write_secret(path, &key.serialize_pem())?;
            Ok(key)
        }
        Err(source) => Err(TlsError::File { action: "read", path: path.to_owned(), source }),
    }
}

/// The same for the same key, but for the dates: the CA's name is made of its key.
fn ca_params(key: &KeyPair, now_ms: i64) -> Result<CertificateParams, TlsError> {
    let key_hash = Sha256Hash::of(key.public_key_raw()).to_string();
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = Default::default();
    params.distinguished_name.push(DnType::CommonName, format!("Tributary CA {}", &key_hash[..8]));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = time_of(now_ms - BACKDATED_MS);
    params.not_after = time_of(now_ms + CA_VALID_MS);
    Ok(params)
}

/// Times outside of what a certificate can hold become 1970.
fn time_of(at_ms: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(at_ms.div_euclid(1000)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// The directory of the CA unless an operator chooses one: beside a SQLite database, else in the working directory.
pub fn directory_beside(database: &str) -> PathBuf {
    const NAME: &str = "tributary-tls";
    let path = database.strip_prefix("sqlite://").or_else(|| database.strip_prefix("sqlite:")).unwrap_or(database);
    match Path::new(path).parent() {
        Some(parent) if !path.contains("://") => parent.join(NAME),
        _ => NAME.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn open(directory: &Path, names: &[&str], now_ms: i64) -> (Dev, Identity) {
        Dev::open(directory, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), now_ms).unwrap()
    }

    #[test]
    fn the_ca_outlives_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("new/tls");
        let (first, identity) = open(&place, &["localhost"], NOW_MS);
        let (second, _) = open(&place, &["localhost"], NOW_MS + DAY_MS);
        assert_eq!(first.ca, second.ca);
        assert_eq!(identity.certified.cert[1], second.certificate);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_the_key() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        open(directory.path(), &[], NOW_MS);
        let mode = std::fs::metadata(directory.path().join(CA_KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_certificate_is_renewed_a_month_before_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let (dev, identity) = open(directory.path(), &["a.example.org", "10.0.0.1"], NOW_MS);
        assert_eq!(dev.names(), ["a.example.org", "10.0.0.1", "localhost", "127.0.0.1", "::1"]);
        let (_, until_ms) = tributary_tls::x509::validity_ms(&identity.certified.cert[0]).unwrap();
        assert_eq!(until_ms, identity.expires_at_ms);
        assert!(dev.renewed(identity.expires_at_ms, NOW_MS + 59 * DAY_MS).unwrap().is_none());
        let renewed = dev.renewed(identity.expires_at_ms, NOW_MS + 60 * DAY_MS).unwrap().unwrap();
        assert_eq!(renewed.expires_at_ms, NOW_MS + 150 * DAY_MS);
    }

    #[test]
    fn a_broken_key_is_named_with_its_file() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(CA_KEY_FILE), "-----BEGIN").unwrap();
        let error = Dev::open(directory.path(), &[], NOW_MS).unwrap_err().to_string();
        assert!(error.contains(CA_KEY_FILE), "{error}");
    }

    #[test]
    fn the_ca_is_beside_the_database() {
        for (database, expected) in [
            ("tributary.db", "tributary-tls"),
            ("/var/lib/t/x.db", "/var/lib/t/tributary-tls"),
            ("sqlite:///var/x.db", "/var/tributary-tls"),
            ("postgres://tributary@db/x", "tributary-tls"),
        ] {
            assert_eq!(directory_beside(database), Path::new(expected), "{database}");
        }
    }
}
