//! What clients authenticate with: secrets, keys, and the CAs of populations.

use std::sync::Arc;

use tributary_protocol::device::{Attributes, Consent};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, Name, TokenId};
use tributary_protocol::state::Standing;

use super::changes::ClientChange;
use super::clients::ClientRow;
use super::tx::{Json, Text, execute, fetch};
use super::{DbError, Tx};

/// A client with what it authenticates with.
#[derive(Clone, Debug, sqlx::FromRow)]
pub struct KnownClient {
    #[sqlx(flatten)]
    pub client: ClientRow,
    /// The hash of the secret in use.
    #[sqlx(try_from = "String")]
    pub secret_sha256: Sha256Hash,
    /// When the secret was made.
    pub secret_at_ms: i64,
    /// The end of the newest certificate that it was given; none if it was given none.
    pub certificate_until_ms: Option<i64>,
}

/// A client that has just authenticated.
#[derive(Clone, Debug)]
pub struct Authenticated {
    pub known: Arc<KnownClient>,
    /// Whether it had an open assignment then; none where no query was needed.
    pub has_work: Option<bool>,
}

#[derive(Debug, sqlx::FromRow)]
struct AuthenticatedRow {
    #[sqlx(flatten)]
    known: KnownClient,
    has_work: bool,
}

/// The CA of a population.
#[derive(Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct CaRow {
    /// X.509 in DER.
    pub certificate: Vec<u8>,
    /// PKCS #8 in DER.
    pub private_key: Vec<u8>,
    pub created_at_ms: i64,
    pub expires_at_ms: i64,
}

impl std::fmt::Debug for CaRow {
    /// Without the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CaRow").field("expires_at_ms", &self.expires_at_ms).finish_non_exhaustive()
    }
}

/// A client that enrols again under its id.
#[derive(Clone, Copy, Debug)]
pub struct ReEnrolment<'a> {
    pub client: ClientId,
    pub token: TokenId,
    /// The hash of its new secret. The old ones do not work any more.
    pub secret: Sha256Hash,
    pub attributes: &'a Attributes,
    /// Those that its token grants.
    pub granted: &'a Attributes,
    /// None: the one of before stays.
    pub consent: Option<&'a Consent>,
    pub now_ms: i64,
}

/// The columns of a [`KnownClient`].
macro_rules! known_columns {
    () => {
        "id, population, number, attributes, granted, standing, sdk, sdk_version, abilities, examples, sets, \
         created_at_ms, last_seen_at_ms, secret_sha256, secret_at_ms, certificate_until_ms"
    };
}

impl Tx {
    /// The client with this hash of its secret, or of its next secret.
    pub async fn client_by_secret(&mut self, secret: &Sha256Hash) -> Result<Option<Authenticated>, DbError> {
        let sql = concat!(
            "select ",
            known_columns!(),
            ", exists (select 1 from assignments where assignments.client = clients.id and state = 'assigned') \
             as has_work from clients where secret_sha256 = $1 or next_secret_sha256 = $1"
        );
        let row = fetch!(self, AuthenticatedRow, fetch_optional, sql, secret.to_string());
        Ok(row.map(|row| Authenticated { known: Arc::new(row.known), has_work: Some(row.has_work) }))
    }

    pub async fn known_client(&mut self, id: ClientId) -> Result<Option<KnownClient>, DbError> {
        let sql = concat!("select ", known_columns!(), " from clients where id = $1");
        Ok(fetch!(self, KnownClient, fetch_optional, sql, id.to_string()))
    }

    /// Stores the hash of a client's next secret, in the place of one that was never used.
    pub async fn set_next_secret(&mut self, id: ClientId, secret: &Sha256Hash) -> Result<(), DbError> {
        self.changes(id, || ClientChange::Identity);
        let sql = "update clients set next_secret_sha256 = $2 where id = $1";
        execute!(self, sql, id.to_string(), secret.to_string());
        Ok(())
    }

    /// The client's next secret is in use: the old one works no more. Returns false when it was in use already.
    pub async fn use_next_secret(&mut self, id: ClientId, secret: &Sha256Hash, now_ms: i64) -> Result<bool, DbError> {
        self.changes(id, || ClientChange::Identity);
        let sql = "update clients set secret_sha256 = $2, next_secret_sha256 = null, secret_at_ms = $3 \
                   where id = $1 and next_secret_sha256 = $2";
        Ok(execute!(self, sql, id.to_string(), secret.to_string(), now_ms) == 1)
    }

    /// Notes the key of a client, and the end of the certificate that it is given now. Returns false when it has
    /// another key, which stays.
    pub async fn bind_key(
        &mut self,
        id: ClientId,
        key: &Sha256Hash,
        certificate_until_ms: Option<i64>,
    ) -> Result<bool, DbError> {
        self.changes(id, || ClientChange::Identity);
        let sql = "update clients set key_sha256 = $2, certificate_until_ms = coalesce($3, certificate_until_ms) \
                   where id = $1 and (key_sha256 is null or key_sha256 = $2)";
        Ok(execute!(self, sql, id.to_string(), key.to_string(), certificate_until_ms) == 1)
    }

    /// A client of the population with this key that may not take part: the newest one.
    pub async fn barred_client(
        &mut self,
        population: &Name,
        key: &Sha256Hash,
    ) -> Result<Option<(ClientId, Standing)>, DbError> {
        let sql = "select id, standing from clients where population = $1 and key_sha256 = $2 \
                   and standing <> 'active' order by number desc limit 1";
        let row =
            fetch!(self, (Text<ClientId>, Text<Standing>), fetch_optional, sql, population.as_str(), key.to_string());
        Ok(row.map(|(Text(id), Text(standing))| (id, standing)))
    }

    /// Enrols a client again. Returns false when it is revoked.
    pub async fn enrol_again(&mut self, again: ReEnrolment<'_>) -> Result<bool, DbError> {
        self.changes(again.client, || ClientChange::Identity);
        let sql = "update clients set token = $2, secret_sha256 = $3, next_secret_sha256 = null, secret_at_ms = $4, \
                   attributes = $5, granted = $6, consent = coalesce($7, consent), last_seen_at_ms = $4 \
                   where id = $1 and standing <> 'revoked'";
        let ReEnrolment { client, token, secret, attributes, granted, consent, now_ms } = again;
        let (attributes, granted) = (Json::text(attributes)?, Json::text(granted)?);
        let consent = consent.map(Json::text).transpose()?;
        let (client, token, secret) = (client.to_string(), token.to_string(), secret.to_string());
        let changed = execute!(self, sql, client, token, secret, now_ms, attributes, granted, consent);
        Ok(changed == 1)
    }

    pub async fn population_ca(&mut self, population: &Name) -> Result<Option<CaRow>, DbError> {
        let sql = "select certificate, private_key, created_at_ms, expires_at_ms from population_cas \
                   where population = $1";
        Ok(fetch!(self, CaRow, fetch_optional, sql, population.as_str()))
    }

    /// Stores the CA of a population, unless another one is there that expires after `needed_until_ms`.
    pub async fn offer_population_ca(
        &mut self,
        population: &Name,
        ca: &CaRow,
        needed_until_ms: i64,
    ) -> Result<(), DbError> {
        let sql = "insert into population_cas (population, certificate, private_key, created_at_ms, expires_at_ms) \
                   values ($1, $2, $3, $4, $5) on conflict (population) do update set \
                   certificate = excluded.certificate, private_key = excluded.private_key, \
                   created_at_ms = excluded.created_at_ms, expires_at_ms = excluded.expires_at_ms \
                   where population_cas.expires_at_ms <= $6";
        execute!(
            self,
            sql,
            population.as_str(),
            ca.certificate.as_slice(),
            ca.private_key.as_slice(),
            ca.created_at_ms,
            ca.expires_at_ms,
            needed_until_ms
        );
        Ok(())
    }
}
