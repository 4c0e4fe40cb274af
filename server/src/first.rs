//! What the first start creates: a token for an admin, and with a private CA a population.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Name, PinnedSecret, Secret, SecretKind, TokenId};
use tributary_protocol::operator::{ENROLMENTS_PER_MINUTE_DEFAULT, Token};
use tributary_protocol::state::{AuditAction, Role, TokenKind};

use crate::db::{Db, DbError, NewAudit, stored_hash};
use crate::runtime::clock::Clock;
use crate::runtime::entropy;

/// The population that the first start with a private CA creates.
pub(crate) const FIRST_POPULATION: &str = "default";

/// A population that was created because there was none.
#[derive(Clone, Debug)]
pub struct FirstClients {
    pub population: Name,
    /// It is shown once, because only its hash is stored.
    pub token: PinnedSecret,
}

/// Ensures that a token of an admin works. Returns the token that was created for this, if any.
pub(crate) async fn let_operator_in(
    db: &Db,
    clock: &Clock,
    configured: Option<&Secret>,
) -> Result<Option<Secret>, DbError> {
    let now_ms = clock.now_ms();
    let mut tx = db.begin().await?;
    let (secret, label) = match configured {
        Some(secret) if tx.working_token(&stored_hash(secret), now_ms).await?.is_some() => return Ok(None),
        Some(secret) => (secret.clone(), "configured token"),
        None if tx.has_admin_token(now_ms).await? => return Ok(None),
        None => (entropy::secret(SecretKind::Operator), "made at the first start"),
    };
    let token = lasting_token(None, label, now_ms);
    match tx.insert_token(&token, &stored_hash(&secret)).await {
        // The configured token was revoked and stays revoked.
        Err(DbError::Duplicate) => {
            tracing::warn!("the configured operator token was revoked; it is not accepted");
            return Ok(None);
        }
        stored => stored?,
    }
    let made = NewAudit {
        actor: "coordinator".to_owned(),
        label: label.to_owned(),
        action: AuditAction::TokenCreate,
        subject: token.id.to_string(),
        population: None,
        detail: Some("for admin".to_owned()),
    };
    tx.append_audit(made, now_ms).await?;
    tx.commit().await?;
    Ok(configured.is_none().then_some(secret))
}

/// Ensures that there is a population. Returns the one that was created for this, if any.
pub(crate) async fn let_clients_in(
    db: &Db,
    clock: &Clock,
    ca: Option<Sha256Hash>,
    population: &Name,
) -> Result<Option<FirstClients>, DbError> {
    let mut tx = db.begin().await?;
    if !tx.populations(None, "", 1).await?.is_empty() {
        return Ok(None);
    }
    let (population, now_ms) = (population.clone(), clock.now_ms());
    let secret = entropy::secret(SecretKind::Enrolment);
    let token = Token {
        per_minute_max: Some(ENROLMENTS_PER_MINUTE_DEFAULT),
        ..lasting_token(Some(population.clone()), "made at the first start", now_ms)
    };
    match tx.insert_population(&population, now_ms).await {
        // Another coordinator of the database starts at the same time.
        Err(DbError::Duplicate) => return Ok(None),
        stored => stored?,
    }
    tx.insert_token(&token, &stored_hash(&secret)).await?;
    tx.commit().await?;
    Ok(Some(FirstClients { population, token: PinnedSecret::new(secret, ca) }))
}

/// A token without an end: of an administrator, or with a population for enrolment in it.
fn lasting_token(population: Option<Name>, label: &str, now_ms: i64) -> Token {
    let (kind, role) = match population {
        Some(_) => (TokenKind::Enrolment, None),
        None => (TokenKind::Operator, Some(Role::Admin)),
    };
    let id = TokenId::from_random(entropy::random());
    Token { population, role, ..Token::unlimited(id, kind, label.to_owned(), now_ms) }
}
