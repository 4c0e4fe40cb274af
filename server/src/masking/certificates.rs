//! The certificates with which the members of a group sign.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use tributary_protocol::credential::DeviceName;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::plan::GroupTrust;
use tributary_protocol::secure::messages::Join;
use tributary_tls::devices::DeviceCas;
use tributary_tls::x509::leaf;

use crate::db::{ClientRow, DbError};
use crate::lifecycle::assignments::{self, Refusal};
use crate::services::Services;

/// Whether the coordinator takes these CAs in the place of those of a population.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn check_cas(pem: &str) -> Result<(), String> {
    DeviceCas::from_pem(pem.as_bytes()).map(drop).map_err(|error| error.to_string())
}

/// Why a client may not join with this certificate; none if it may. One that other members do not trust would end
/// their group.
pub(super) async fn refused(
    services: &Services,
    client: &ClientRow,
    id: AssignmentId,
    join: &Join,
) -> Result<Option<String>, Refusal> {
    let mut tx = services.db.read().await?;
    let (_, round) = assignments::find(&mut tx, client.id, id, None).await?;
    let spec = services.spec(&mut tx, round.job).await?.ok_or_else(DbError::lost)?;
    let Some(secure) = &spec.file.secure_aggregation else {
        return Err(Refusal::OtherForm("updates of this job are not masked"));
    };
    if secure.trust() == GroupTrust::Honest {
        let has_none = join.certificate.is_empty() && join.record.certificate == Sha256Hash([0; 32]);
        return Ok(
            (!has_none).then(|| "the groups of this job do not sign, so a client joins without a certificate".into())
        );
    }
    if Sha256Hash::of(&join.certificate) != join.record.certificate {
        return Ok(Some("the certificate is not the one that the record names".into()));
    }
    let certificate = CertificateDer::from_slice(&join.certificate);
    let cas = match &secure.peers_ca {
        Some(pem) => DeviceCas::from_pem(pem.as_bytes()),
        None => {
            let Some(ca) = tx.population_ca(&client.population).await? else {
                return Ok(Some("the population has no CA, so nobody has a certificate of it".into()));
            };
            DeviceCas::new([CertificateDer::from(ca.certificate)])
        }
    };
    let cas = cas.map_err(|error| DbError::corrupt("a CA", error))?;
    let now = Duration::from_millis(u64::try_from(services.clock.now_ms()).unwrap_or(0));
    if !cas.have_issued(&certificate, UnixTime::since_unix_epoch(now)) {
        return Ok(Some("the certificate is not one that the CA of the members issued, or not valid now".into()));
    }
    let name = DeviceName { population: client.population.clone(), client: client.id }.to_string();
    let is_named = || leaf(&certificate).is_some_and(|leaf| leaf.uris == [name.as_str()]);
    if secure.peers_ca.is_none() && !is_named() {
        return Ok(Some("the certificate is another client's".into()));
    }
    let is_used = tx.is_certificate_used(round.key(), client.id, &join.certificate).await?;
    Ok(is_used.then(|| "another client of the round has the same certificate".into()))
}
