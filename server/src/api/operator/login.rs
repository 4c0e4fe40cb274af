//! Signing in and out in a browser, and who is signed in.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{Login, PASSWORD_BYTES_MAX, Session, SignInWays, SignedIn};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::AuditAction;

use crate::api::auth::{
    Caller, Credential, Operator, Origin, OwnPage, SESSION_MS_MAX, SESSIONS_MAX, Views, account_actor, cookie,
    cookie_that_ends,
};
use crate::api::extract::Json;
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{DbError, NewAudit, NewSession, Tx};
use crate::people::PasswordsBusy;
use crate::runtime::entropy;

/// How people can sign in. The sign-in form asks before anybody is signed in.
pub(super) async fn ways(State(app): State<Arc<App>>) -> Json<SignInWays> {
    Json(SignInWays { provider: app.people.oidc.is_some() })
}

/// Begins a session. Unknown account, revoked account and wrong password have the same answer after the same work.
pub(super) async fn login(
    State(app): State<Arc<App>>,
    origin: Origin,
    OwnPage: OwnPage,
    Json(request): Json<Login>,
) -> Answer<Response> {
    let now_ms = app.clock.now_ms();
    let Login { account, password } = request;
    let _place = app.guard.password(origin.address).ok_or(PasswordsBusy)?;
    app.people.attempts.begin(&account, origin.address, now_ms).map_err(|refused| {
        let detail = "too many attempts to sign in; wait before the next one";
        ApiError::new(ProblemType::TooManyRequests, detail).retry_after_ms(refused.retry_after_ms)
    })?;
    let wrong = || ApiError::new(ProblemType::Unauthorized, "the account or the password is wrong");
    let name = account.parse::<Name>().ok();
    let mut stored = None;
    if let Some(name) = &name {
        let mut tx = app.db.read().await?;
        stored = tx.password(name).await?;
        if let Some(account) = tx.account(name).await? {
            let (actor, label) = (account_actor(name), name.to_string());
            origin.cell.note(Caller::Named { actor, label, population: account.population });
        }
    }
    let is_right =
        password.expose().len() <= PASSWORD_BYTES_MAX && app.people.passwords.verify(password, stored.clone()).await?;
    let (Some(name), true) = (name, is_right) else { return Err(wrong()) };
    app.people.attempts.succeeded(&account, origin.address, app.clock.now_ms());

    let now_ms = app.clock.now_ms();
    let actor = account_actor(&name);
    let mut tx = app.db.begin().await?;
    // The password may have been changed, or the account revoked, while this one was checked.
    let known = tx.account(&name).await?.filter(|account| account.revoked_at_ms.is_none());
    let account = known.ok_or_else(wrong)?;
    if tx.password(&name).await? != stored {
        return Err(wrong());
    }
    let new = NewSession {
        account: Some(&name),
        actor: &actor,
        name: name.as_str(),
        role: None,
        population: None,
        session: session_from(&origin, now_ms),
    };
    let secret = begin_session(&mut tx, &new, account.population.clone(), now_ms).await?;
    tx.commit().await?;
    let expires_at_ms = Some(new.session.expires_at_ms);
    let who =
        SignedIn { actor, name: name.to_string(), role: account.role, population: account.population, expires_at_ms };
    Ok(([(header::SET_COOKIE, cookie(&secret, origin.is_secure))], Json(who)).into_response())
}

pub(super) fn session_from(origin: &Origin, now_ms: i64) -> Session {
    Session {
        address: origin.address.map(|address| address.to_string()),
        created_at_ms: now_ms,
        last_used_at_ms: now_ms,
        expires_at_ms: now_ms.saturating_add(SESSION_MS_MAX),
    }
}

/// Stores a session and its audit entry, as the last statements of a transaction. Returns the secret.
pub(super) async fn begin_session(
    tx: &mut Tx,
    new: &NewSession<'_>,
    population: Option<Name>,
    now_ms: i64,
) -> Result<String, DbError> {
    let secret: String = entropy::random::<32>().iter().map(|byte| format!("{byte:02x}")).collect();
    tx.insert_session(new, &Sha256Hash::of(secret.as_bytes())).await?;
    tx.keep_newest_sessions(new.actor, SESSIONS_MAX, now_ms).await?;
    let entry = NewAudit {
        actor: new.actor.to_owned(),
        label: new.name.to_owned(),
        action: AuditAction::Login,
        subject: new.name.to_owned(),
        population,
        detail: new.session.address.as_ref().map(|address| format!("from {address}")),
    };
    tx.append_audit(entry, now_ms).await?;
    Ok(secret)
}

/// Ends the session of the request.
pub(super) async fn logout(operator: Operator<Views>, State(app): State<Arc<App>>, origin: Origin) -> Answer<Response> {
    let secret = session_of(&operator)?;
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    tx.delete_session(secret).await?;
    operator.may_within().audits(&mut tx, AuditAction::Logout, &operator.who().name, None, now_ms).await?;
    tx.commit().await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie_that_ends(origin.is_secure))]).into_response())
}

/// Ends all sessions of the account.
pub(super) async fn logout_everywhere(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    origin: Origin,
) -> Answer<Response> {
    session_of(&operator)?;
    let who = operator.who();
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    let ended = tx.delete_sessions(&who.actor).await?;
    let detail = Some(format!("{ended} sessions"));
    operator.may_within().audits(&mut tx, AuditAction::SessionsEnd, &who.name, detail, now_ms).await?;
    tx.commit().await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie_that_ends(origin.is_secure))]).into_response())
}

pub(super) async fn me(operator: Operator<Views>) -> Json<SignedIn> {
    Json(operator.who().clone())
}

fn session_of(operator: &Operator<Views>) -> Answer<&Sha256Hash> {
    match operator.credential() {
        Credential::Session(secret) => Ok(secret),
        Credential::Token(_) => {
            let detail = "a token has no session; revoke it with DELETE /operator/v1/tokens/{id}";
            Err(ApiError::new(ProblemType::WrongState, detail))
        }
    }
}
