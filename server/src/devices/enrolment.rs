//! A device becomes a client, or comes back as the client that it was.

use tributary_protocol::abilities::Abilities;
use tributary_protocol::credential::{DeviceName, IssuedCertificate};
use tributary_protocol::device::{Attributes, Consent};
use tributary_protocol::id::{ClientId, Name, Secret, SecretKind, TokenId};
use tributary_protocol::operator::Token;
use tributary_protocol::state::{AuditAction, Standing};

use super::authority::{Authority, AuthorityError};
use super::presented::{PresentedError, signed_client};
use super::request::CertifiedKey;
use crate::db::{ClientRow, DbError, Enrolment, Json, NewAudit, ReEnrolment, Tx, audited_client, stored_hash};
use crate::net::PeerCertificate;
use crate::runtime::entropy;
use crate::services::Services;

/// A device that may enrol: its token, its key and its attestation are right.
#[derive(Debug)]
pub(crate) struct Applicant<'a> {
    pub(crate) population: &'a Name,
    pub(crate) token: TokenId,
    /// As the device declares them.
    pub(crate) attributes: Attributes,
    pub(crate) consent: Option<Consent>,
    /// What it presented in the handshake.
    pub(crate) peer: Option<&'a PeerCertificate>,
    /// The key that it requests a certificate for.
    pub(crate) key: Option<&'a CertifiedKey>,
}

/// A client after its enrolment.
#[derive(Debug)]
pub(crate) struct Enrolled {
    pub(crate) client: ClientId,
    pub(crate) secret: Secret,
    /// None where clients are identified by their secrets alone.
    pub(crate) certificate: Option<IssuedCertificate>,
}

/// Why a device does not become a client.
#[derive(Debug)]
pub(crate) enum EnrolError {
    /// Its token does not enrol now.
    Token(Enrolment),
    /// It was revoked, under this key.
    Revoked,
    /// It waits under this id and key until an operator releases it.
    Quarantined(ClientId),
    Authority(AuthorityError),
    Db(DbError),
}

impl From<DbError> for EnrolError {
    fn from(error: DbError) -> Self {
        Self::Db(error)
    }
}

impl From<AuthorityError> for EnrolError {
    fn from(error: AuthorityError) -> Self {
        Self::Authority(error)
    }
}

/// Enrols a device, in one transaction with its audit entry. `certificate_life_ms` is how long its certificate is
/// valid; without it, clients are identified by their secrets alone.
///
/// # Errors
/// [`EnrolError`]: nothing is stored.
pub(crate) async fn enrol(
    services: &Services,
    applicant: Applicant<'_>,
    certificate_life_ms: Option<i64>,
) -> Result<Enrolled, EnrolError> {
    let Applicant { population, key, .. } = applicant;
    let (db, now_ms) = (&services.db, services.clock.now_ms());
    let again = returning(services, &applicant).await?;
    let authority = match key.zip(certificate_life_ms) {
        Some((key, life_ms)) => Some((Authority::of(db, population, now_ms, life_ms).await?, key, life_ms)),
        None => None,
    };
    let secret = entropy::secret(SecretKind::Client);
    let mut tx = db.begin().await?;
    let token = match tx.count_enrolment(applicant.token, now_ms).await? {
        Enrolment::Counted(token) => token,
        refused => return Err(EnrolError::Token(refused)),
    };
    let (client, number) = match &again {
        Some(known) => (readmit(&mut tx, known.id, applicant, &token, (&secret, now_ms)).await?, known.number),
        None => admit(&mut tx, applicant, &token, (&secret, now_ms)).await?,
    };
    let certificate = match &authority {
        Some((authority, key, life_ms)) => {
            let name = DeviceName { population: population.clone(), client };
            Some(authority.issue(&name, key, now_ms, *life_ms)?)
        }
        None => None,
    };
    if let Some(key) = key {
        let until_ms = certificate_life_ms.map(|life_ms| now_ms.saturating_add(life_ms));
        tx.bind_key(client, &key.fingerprint, until_ms).await?;
    }
    let enrolled = NewAudit {
        actor: token.id.to_string(),
        label: token.label,
        action: AuditAction::ClientEnrol,
        subject: audited_client(number),
        population: Some(population.clone()),
        detail: again.map(|_| "again, with its earlier certificate".to_owned()),
    };
    tx.append_audit(enrolled, now_ms).await?;
    tx.commit().await?;
    Ok(Enrolled { client, secret, certificate })
}

/// The client that enrols again: it presented a certificate of this population in the handshake, which may have
/// expired, and requests the new one for the same key. A copy of its request alone could come from anybody.
async fn returning(services: &Services, applicant: &Applicant<'_>) -> Result<Option<ClientRow>, DbError> {
    let Applicant { population, peer: Some(peer), key: Some(key), .. } = *applicant else { return Ok(None) };
    match signed_client(&services.db, peer).await {
        Ok((known, presented)) if known.client.population == *population && presented.key == key.fingerprint => {
            Ok(Some(known.client))
        }
        Err(PresentedError::Db(error)) => Err(error),
        Ok(_) | Err(_) => Ok(None),
    }
}

/// The client keeps its id, and gets a new secret.
async fn readmit(
    tx: &mut Tx,
    client: ClientId,
    applicant: Applicant<'_>,
    token: &Token,
    (secret, now_ms): (&Secret, i64),
) -> Result<ClientId, EnrolError> {
    let again = ReEnrolment {
        client,
        token: token.id,
        secret: stored_hash(secret),
        attributes: &applicant.attributes.with_granted(&token.attributes),
        granted: &token.attributes,
        consent: applicant.consent.as_ref(),
        now_ms,
    };
    if tx.enrol_again(again).await? { Ok(client) } else { Err(EnrolError::Revoked) }
}

/// The device becomes a new client, unless it was excluded under an earlier id with the same key.
async fn admit(
    tx: &mut Tx,
    applicant: Applicant<'_>,
    token: &Token,
    (secret, now_ms): (&Secret, i64),
) -> Result<(ClientId, u64), EnrolError> {
    let Applicant { population, attributes, key, consent, .. } = applicant;
    if let Some(key) = key {
        match tx.barred_client(population, &key.fingerprint).await? {
            None => {}
            Some((_, Standing::Revoked)) => return Err(EnrolError::Revoked),
            Some((client, _)) => return Err(EnrolError::Quarantined(client)),
        }
    }
    let client = ClientRow {
        id: ClientId::from_random(entropy::random()),
        number: tx.next_client_number(population).await?,
        population: population.clone(),
        attributes: Json(attributes.with_granted(&token.attributes)),
        granted: Json(token.attributes.clone()),
        standing: Standing::Active,
        sdk: None,
        sdk_version: None,
        abilities: Json(Abilities::FIRST),
        examples: 0,
        sets: Json(Vec::new()),
        created_at_ms: now_ms,
        last_seen_at_ms: now_ms,
    };
    tx.insert_client(&client, token.id, &stored_hash(secret), consent.as_ref()).await?;
    Ok((client.id, client.number))
}
