//! Operators: holders of an operator token, and people with a session.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{ClientId, JobId, Name, SecretKind, TokenId};
use tributary_protocol::operator::{Client, SignedIn};
use tributary_protocol::problem::ProblemType;

use super::bearer::{bearer, bearer_text, unauthorized};
use super::caller::Caller;
use super::permit::{Permit, Power};
use super::session::{require_own_page, secret_in_cookie, used_since_ms};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{DbError, JobRow, Text, Tx, stored_hash};

/// Largest error of the time of last use. It saves a write per request.
const USED_EVERY_MS: i64 = 60_000;
/// How often a stream looks its credential up, in milliseconds.
const LOOK_EVERY_MS: i64 = 5_000;

/// An authenticated operator whose role has the power `P`. Over which population, a [`Permit`] says.
#[derive(Clone, Debug)]
pub(in crate::api) struct Operator<P> {
    identity: Identity,
    power: PhantomData<P>,
}

/// An authenticated operator.
#[derive(Clone, Debug)]
struct Identity {
    who: SignedIn,
    credential: Credential,
    /// When the credential was looked up.
    seen_at_ms: i64,
}

/// What a request was authenticated by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::api) enum Credential {
    Token(TokenId),
    /// The hash of a session's secret.
    Session(Sha256Hash),
}

impl<P: Power> FromRequestParts<Arc<App>> for Operator<P> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let identity = if bearer_text(parts).is_some() {
            Identity::by_token(parts, app).await?
        } else if let Some(secret) = secret_in_cookie(&parts.headers) {
            require_own_page(&parts.method, &parts.headers)?;
            Identity::by_session(secret, app).await?
        } else {
            return Err(unauthorized("send an operator token as Authorization: Bearer .., or sign in"));
        };
        let SignedIn { actor, name, population, role, .. } = identity.who.clone();
        Caller::Named { actor, label: name, population }.noted(parts);
        if role < P::ROLE {
            let needed = P::ROLE;
            return Err(forbidden(&format!(
                "this call needs the role {needed}, and this operator has the role {role}"
            )));
        }
        Ok(Self { identity, power: PhantomData })
    }
}

impl Identity {
    async fn by_token(parts: &Parts, app: &App) -> Answer<Self> {
        let secret = bearer(parts, SecretKind::Operator, "an operator token")?;
        let now_ms = app.clock.now_ms();
        let token = app.db.look().await?.working_token(&stored_hash(&secret), now_ms).await?;
        // Only operator tokens have a role.
        let token = token.and_then(|token| Some((token.role?, token)));
        let (role, token) = token.ok_or_else(|| unauthorized("this operator token is unknown, expired or revoked"))?;
        if token.last_used_at_ms.is_none_or(|at_ms| at_ms <= now_ms.saturating_sub(USED_EVERY_MS)) {
            note_use(async {
                let mut tx = app.db.begin_losable().await?;
                tx.token_used(token.id, now_ms.saturating_sub(USED_EVERY_MS) + 1, now_ms).await?;
                tx.commit().await
            })
            .await;
        }
        let who = SignedIn {
            name: token.label,
            actor: token.id.to_string(),
            role,
            population: token.population,
            expires_at_ms: token.expires_at_ms,
        };
        Ok(Self { who, credential: Credential::Token(token.id), seen_at_ms: now_ms })
    }

    async fn by_session(secret: Sha256Hash, app: &App) -> Answer<Self> {
        let now_ms = app.clock.now_ms();
        let session = app.db.look().await?.session(&secret, used_since_ms(now_ms), now_ms).await?;
        let session = session.ok_or_else(|| unauthorized("the session has ended; sign in again"))?;
        if session.last_used_at_ms <= now_ms.saturating_sub(USED_EVERY_MS) {
            note_use(async {
                let mut tx = app.db.begin_losable().await?;
                tx.session_used(&secret, now_ms.saturating_sub(USED_EVERY_MS) + 1, now_ms).await?;
                tx.commit().await
            })
            .await;
        }
        let who = SignedIn {
            name: session.name,
            actor: session.actor,
            role: session.role,
            population: session.population.map(|Text(population)| population),
            expires_at_ms: Some(session.expires_at_ms),
        };
        Ok(Self { who, credential: Credential::Session(secret), seen_at_ms: now_ms })
    }
}

impl<P: Power> Operator<P> {
    pub(in crate::api) fn who(&self) -> &SignedIn {
        &self.identity.who
    }

    pub(in crate::api) fn credential(&self) -> &Credential {
        &self.identity.credential
    }

    /// The power over a population.
    pub(in crate::api) fn may(&self, population: &Name) -> Answer<Permit<P>> {
        match self.scope() {
            Some(only) if only != population => Err(forbidden(&format!("this operator may act in {only} only"))),
            _ => Ok(self.may_within().about(Some(population.clone()))),
        }
    }

    /// The power over the whole deployment.
    pub(in crate::api) fn may_everywhere(&self) -> Answer<Permit<P>> {
        match self.scope() {
            Some(only) => Err(forbidden(&format!("this operator may act in {only} only"))),
            None => Ok(self.may_within()),
        }
    }

    /// The power over the population of the operator, or over all if it has none. Lists are restricted by
    /// [`Permit::population`].
    pub(in crate::api) fn may_within(&self) -> Permit<P> {
        Permit::new(self.who())
    }

    /// A job and the power over it. A job of another population is answered like one that does not exist.
    pub(in crate::api) async fn job(&self, tx: &mut Tx, id: JobId) -> Answer<(JobRow, Permit<P>)> {
        let row = tx.job(id).await?.filter(|row| self.reaches(Some(&row.file.0.population)));
        let row = row.ok_or_else(|| ApiError::not_found(id))?;
        let permit = self.may_within().about(Some(row.file.0.population.clone()));
        Ok((row, permit))
    }

    /// A client and the power over it. A client of another population is answered like one that does not exist.
    pub(in crate::api) async fn client(&self, tx: &mut Tx, id: ClientId) -> Answer<(Client, Permit<P>)> {
        let client = tx.client(id).await?.filter(|client| self.reaches(Some(&client.population)));
        let client = client.ok_or_else(|| ApiError::not_found(id))?;
        let permit = self.may_within().about(Some(client.population.clone()));
        Ok((client, permit))
    }

    /// Whether something of this population, or of the deployment as a whole, is within this operator's reach.
    pub(in crate::api) fn reaches(&self, population: Option<&Name>) -> bool {
        self.scope().is_none_or(|only| Some(only) == population)
    }

    /// The only population in which the operator may act.
    fn scope(&self) -> Option<&Name> {
        self.identity.who.population.as_ref()
    }

    /// Watches that the credential goes on to work, for an answer that lasts. However long the answer took to begin,
    /// the first look is soon after the request was authenticated.
    pub(in crate::api) fn still_in(&self) -> StillIn {
        StillIn {
            credential: self.identity.credential.clone(),
            expires_at_ms: self.identity.who.expires_at_ms.unwrap_or(i64::MAX),
            next_look_at_ms: self.identity.seen_at_ms.saturating_add(LOOK_EVERY_MS),
        }
    }
}

/// Looks a credential up regularly while an answer goes on.
#[derive(Debug)]
pub(in crate::api) struct StillIn {
    credential: Credential,
    expires_at_ms: i64,
    next_look_at_ms: i64,
}

impl StillIn {
    /// Returns when the credential does not work any more.
    pub(in crate::api) async fn ended(&mut self, app: &App) -> Result<(), DbError> {
        loop {
            app.clock.sleep_until(self.next_look_at_ms.min(self.expires_at_ms)).await;
            if !self.works(app).await? {
                return Ok(());
            }
        }
    }

    /// Whether the credential works now. Looks it up when the last look is too long ago.
    pub(in crate::api) async fn works(&mut self, app: &App) -> Result<bool, DbError> {
        let now_ms = app.clock.now_ms();
        if now_ms < self.next_look_at_ms && now_ms < self.expires_at_ms {
            return Ok(true);
        }
        let mut tx = app.db.read().await?;
        let works = match &self.credential {
            Credential::Token(id) => tx.token_works(*id, now_ms).await?,
            Credential::Session(secret) => tx.session(secret, used_since_ms(now_ms), now_ms).await?.is_some(),
        };
        self.next_look_at_ms = now_ms.saturating_add(LOOK_EVERY_MS);
        Ok(works)
    }
}

/// The audit log's name of an account.
pub(in crate::api) fn account_actor(name: &Name) -> String {
    format!("account:{name}")
}

/// Stores the time of last use. A request does not fail because of it.
async fn note_use(write: impl Future<Output = Result<(), DbError>>) {
    if let Err(error) = write.await {
        tracing::warn!(%error, "the time of last use of a credential was not stored");
    }
}

fn forbidden(detail: &str) -> ApiError {
    ApiError::new(ProblemType::Forbidden, detail)
}
