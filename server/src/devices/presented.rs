//! The certificate that a client presents: whose it is, and whether it is valid.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use tributary_protocol::credential::DeviceName;
use tributary_protocol::hash::Sha256Hash;
use tributary_tls::devices::DeviceCas;
use tributary_tls::x509::leaf;

use crate::db::{Db, DbError, KnownClient};
use crate::net::PeerCertificate;

/// What a certificate says about its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Presented {
    pub(crate) name: DeviceName,
    /// The fingerprint of its key.
    pub(crate) key: Sha256Hash,
    valid_from_ms: i64,
    valid_until_ms: i64,
}

/// Why a certificate identifies no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PresentedError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error("this certificate names no client of a coordinator")]
    Nameless,
    #[error("this certificate names a client that is not known; enrol again")]
    Unknown,
    #[error("this certificate is not from the CA of the population that it names")]
    Foreign,
    #[error("this certificate is not valid yet")]
    NotYet,
    #[error("this certificate has expired; enrol again with it to keep the client's id")]
    Expired,
}

/// The client that a certificate names, if the CA of the client's population signed it. It may have expired.
pub(crate) async fn signed_client(db: &Db, peer: &PeerCertificate) -> Result<(KnownClient, Presented), PresentedError> {
    let presented = Presented::read(peer.certificate()).ok_or(PresentedError::Nameless)?;
    let mut tx = db.read().await?;
    let known = tx.known_client(presented.name.client).await?.ok_or(PresentedError::Unknown)?;
    let population = &presented.name.population;
    let ca = tx.population_ca(population).await?.filter(|_| known.client.population == *population);
    drop(tx);
    let ca = CertificateDer::from(ca.ok_or(PresentedError::Foreign)?.certificate);
    let fingerprint = Sha256Hash::of(&ca);
    if !peer.is_known_to_be_signed_by(fingerprint) {
        presented.require_signature(peer.certificate(), ca).ok_or(PresentedError::Foreign)?;
        peer.note_signed_by(fingerprint);
    }
    Ok((known, presented))
}

impl Presented {
    fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let leaf = leaf(certificate)?;
        let [uri] = leaf.uris[..] else { return None };
        Some(Self {
            name: uri.parse().ok()?,
            key: Sha256Hash::of(&leaf.public_key),
            valid_from_ms: leaf.valid_from_ms,
            valid_until_ms: leaf.valid_until_ms,
        })
    }

    /// Whether the CA signed the certificate for clients. The time of the check is one at which it was valid, so that
    /// only [`Self::require_valid`] depends on the clock.
    fn require_signature(&self, certificate: &CertificateDer<'_>, ca: CertificateDer<'static>) -> Option<()> {
        let while_valid = Duration::from_millis(u64::try_from(self.valid_from_ms).unwrap_or(0));
        let cas = DeviceCas::new([ca]).ok()?;
        cas.have_issued(certificate, UnixTime::since_unix_epoch(while_valid)).then_some(())
    }

    pub(crate) fn require_valid(&self, now_ms: i64) -> Result<(), PresentedError> {
        if now_ms < self.valid_from_ms {
            Err(PresentedError::NotYet)
        } else if now_ms > self.valid_until_ms {
            Err(PresentedError::Expired)
        } else {
            Ok(())
        }
    }

    /// Whether two thirds of its time are over.
    pub(crate) fn is_due(&self, now_ms: i64) -> bool {
        let life_ms = self.valid_until_ms.saturating_sub(self.valid_from_ms);
        now_ms.saturating_sub(self.valid_from_ms) >= life_ms / 3 * 2
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::id::ClientId;

    use super::*;

    #[test]
    fn a_certificate_is_due_after_two_thirds_of_its_time_and_expires_at_its_end() {
        let name = DeviceName { population: "devices".parse().unwrap(), client: ClientId::from_random([7; 16]) };
        let presented =
            Presented { name, key: Sha256Hash::of(b""), valid_from_ms: 1_000_000, valid_until_ms: 1_300_000 };
        assert!(matches!(presented.require_valid(999_999), Err(PresentedError::NotYet)));
        for (now_ms, is_due) in [(1_000_000, false), (1_199_999, false), (1_200_000, true), (1_300_000, true)] {
            assert!(presented.require_valid(now_ms).is_ok());
            assert_eq!(presented.is_due(now_ms), is_due, "{now_ms}");
        }
        assert!(matches!(presented.require_valid(1_300_001), Err(PresentedError::Expired)));
    }
}
