//! A certificate and its key from PEM files, read again when they change.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tributary_protocol::hash::Sha256Hash;
use tributary_tls::x509::validity_ms;

use super::error::TlsError;
use super::identity::{Identity, PinnedCa};
use crate::runtime::lock::Locked;

#[derive(Debug)]
pub(super) struct Files {
    certificate: PathBuf,
    key: PathBuf,
    pub(super) ca: Option<PinnedCa>,
    ca_certificate: Option<CertificateDer<'static>>,
    /// Of the files that were read last, whether they could be used or not.
    stamps: Mutex<[Stamp; 2]>,
}

/// What changes when a file changes. `None`: it could not be read.
type Stamp = Option<(SystemTime, u64)>;

impl Files {
    pub(super) fn open(certificate: &Path, key: &Path, ca: Option<&Path>) -> Result<(Self, Identity), TlsError> {
        let ca_certificate = ca.map(authority).transpose()?;
        let pinned = ca.zip(ca_certificate.as_ref());
        let files = Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            ca: pinned.map(|(file, ca)| PinnedCa { file: file.to_owned(), fingerprint: Sha256Hash::of(ca) }),
            ca_certificate,
            stamps: Mutex::new([stamp(certificate), stamp(key)]),
        };
        let identity = files.read()?;
        Ok((files, identity))
    }

    /// The new certificate, if the files changed since the last call.
    pub(super) fn changed(&self) -> Result<Option<Identity>, TlsError> {
        let now = [stamp(&self.certificate), stamp(&self.key)];
        let mut stamps = self.stamps.locked();
        if *stamps == now {
            return Ok(None);
        }
        *stamps = now;
        self.read().map(Some)
    }

    fn read(&self) -> Result<Identity, TlsError> {
        let mut chain = certificates(&self.certificate)?;
        let wrong = |message: &str| TlsError::Content { path: self.certificate.clone(), message: message.into() };
        let expires_at_ms = expires_at_ms(&chain).map_err(wrong)?;
        // Clients that know only the CA's fingerprint need the CA itself.
        chain.extend(self.ca_certificate.iter().filter(|ca| !chain.contains(ca)).cloned().collect::<Vec<_>>());
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(unreadable(&self.key))?;
        let certified = CertifiedKey::from_der(chain, key, &tributary_tls::provider()).map_err(|source| {
            TlsError::Pair { certificate: self.certificate.clone(), key: self.key.clone(), source }
        })?;
        Ok(Identity { certified: Arc::new(certified), expires_at_ms })
    }
}

fn authority(path: &Path) -> Result<CertificateDer<'static>, TlsError> {
    let certificates = certificates(path)?;
    match <[_; 1]>::try_from(certificates) {
        Ok([ca]) => Ok(ca),
        Err(several) => {
            let message = format!("it has {} certificates, and one CA can be pinned", several.len());
            Err(TlsError::Content { path: path.to_owned(), message })
        }
    }
}

pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(unreadable(path))
}

/// The end of the first certificate of a chain, or what is wrong with it.
pub(super) fn expires_at_ms(chain: &[CertificateDer<'_>]) -> Result<i64, &'static str> {
    let leaf = chain.first().ok_or("it has no certificate")?;
    validity_ms(leaf).map(|(_, until_ms)| until_ms).ok_or("its first certificate is not X.509 of version 3 in DER")
}

pub(super) fn unreadable(path: &Path) -> impl FnOnce(rustls::pki_types::pem::Error) -> TlsError {
    use rustls::pki_types::pem::Error::{Io, NoItemsFound};
    let path = path.to_owned();
    move |error| match error {
        Io(source) => TlsError::File { action: "read", path, source },
        NoItemsFound => TlsError::Content { path, message: "it has no key in PEM".into() },
        other => TlsError::Content { path, message: other.to_string() },
    }
}

/// Writes a file that only its owner may read. A reader finds the old content or the new one.
pub(super) fn write_secret(path: &Path, text: &str) -> Result<(), TlsError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let failed = |source| TlsError::File { action: "write", path: path.to_owned(), source };
    written.and_then(|()| std::fs::rename(&new, path)).map_err(failed)
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{CertificateParams, KeyPair};
    use time::OffsetDateTime;

    use super::*;

    /// A directory with a certificate and a key.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            let pair = pair(1);
            place.write("cert.pem", &pair.0, 0);
            place.write("key.pem", &pair.1, 0);
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Writes a file whose time of change is its own, however coarse the file system's clock is.
        fn write(&self, name: &str, text: &str, second: u64) {
            std::fs::write(self.path(name), text).unwrap();
            let file = std::fs::File::options().write(true).open(self.path(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + second)).unwrap();
        }

        fn open(&self, ca: Option<&str>) -> Result<(Files, Identity), TlsError> {
            Files::open(&self.path("cert.pem"), &self.path("key.pem"), ca.map(|name| self.path(name)).as_deref())
        }
    }

    /// Certificate and key in PEM; the certificate is valid until this second of 1970.
    fn pair(until: i64) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_after = OffsetDateTime::from_unix_timestamp(until).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn new_files_are_used_when_both_are_there_and_half_of_a_change_is_an_error_once() {
        let place = Place::new();
        let (files, first) = place.open(None).unwrap();
        assert_eq!(first.expires_at_ms, 1000);
        assert!(files.changed().unwrap().is_none());
        let (certificate, key) = pair(2);
        place.write("cert.pem", &certificate, 1);
        assert!(matches!(files.changed(), Err(TlsError::Pair { .. })));
        assert!(files.changed().unwrap().is_none(), "it is reported once");
        place.write("key.pem", &key, 1);
        assert_eq!(files.changed().unwrap().unwrap().expires_at_ms, 2000);
        std::fs::remove_file(place.path("key.pem")).unwrap();
        assert!(matches!(files.changed(), Err(TlsError::File { action: "read", .. })));
    }

    #[test]
    fn a_private_ca_is_pinned_and_sent() {
        let place = Place::new();
        let (ca, _) = pair(3);
        place.write("ca.pem", &ca, 0);
        let (files, identity) = place.open(Some("ca.pem")).unwrap();
        let sent = &identity.certified.cert;
        assert_eq!((sent.len(), files.ca.unwrap().fingerprint), (2, Sha256Hash::of(&sent[1])));
        // It may be among the certificates already.
        let whole = std::fs::read_to_string(place.path("cert.pem")).unwrap() + &ca;
        place.write("cert.pem", &whole, 1);
        assert_eq!(place.open(Some("ca.pem")).unwrap().1.certified.cert.len(), 2);
    }

    #[test]
    fn an_error_names_the_file() {
        let place = Place::new();
        place.write("empty.pem", "", 0);
        for (ca, named) in [("missing.pem", "missing.pem"), ("empty.pem", "it has 0 certificates")] {
            let error = place.open(Some(ca)).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        place.write("key.pem", "", 1);
        let error = place.open(None).unwrap_err().to_string();
        assert!(error.contains("key.pem: it has no key in PEM"), "{error}");
        place.write("cert.pem", "", 1);
        let error = place.open(None).unwrap_err().to_string();
        assert!(error.contains("cert.pem: it has no certificate"), "{error}");
        place.write("cert.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 2);
        let error = place.open(None).unwrap_err().to_string();
        assert!(error.contains("cert.pem: its first certificate is not X.509"), "{error}");
    }
}
