//! Signing in and out in a browser, and who is signed in.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{Account, Login, PASSWORD_BYTES_MAX, Session, SignedIn};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::AuditAction;

use crate::api::auth::{
    Caller, Credential, Operator, Origin, SESSION_MS_MAX, SESSIONS_MAX, Views, account_actor, cookie, cookie_that_ends,
    require_own_page,
};
use crate::api::extract::Json;
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::NewAudit;
use crate::runtime::entropy;

/// Begins a session. Unknown account, revoked account and wrong password have the same answer after the same work.
pub(super) async fn login(
    State(app): State<Arc<App>>,
    origin: Origin,
    headers: HeaderMap,
    Json(request): Json<Login>,
) -> Answer<Response> {
    require_own_page(&Method::POST, &headers)?;
    let now_ms = app.clock.now_ms();
    let Login { account, password } = request;
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
    app.people.attempts.succeeded(&account, origin.address);

    let now_ms = app.clock.now_ms();
    let secret: String = entropy::random::<32>().iter().map(|byte| format!("{byte:02x}")).collect();
    let session = Session {
        address: origin.address.map(|address| address.to_string()),
        created_at_ms: now_ms,
        last_used_at_ms: now_ms,
        expires_at_ms: now_ms.saturating_add(SESSION_MS_MAX),
    };
    let mut tx = app.db.begin().await?;
    // The password may have been changed, or the account revoked, while this one was checked.
    let known = tx.account(&name).await?.filter(|account| account.revoked_at_ms.is_none());
    let account = known.ok_or_else(wrong)?;
    if tx.password(&name).await? != stored {
        return Err(wrong());
    }
    tx.insert_session(&name, &session, &Sha256Hash::of(secret.as_bytes())).await?;
    tx.keep_newest_sessions(&name, SESSIONS_MAX, now_ms).await?;
    tx.append_audit(entry(&account, AuditAction::Login, session.address), now_ms).await?;
    tx.commit().await?;
    let who = SignedIn {
        actor: account_actor(&name),
        name: name.to_string(),
        role: account.role,
        population: account.population,
        expires_at_ms: Some(session.expires_at_ms),
    };
    Ok(([(header::SET_COOKIE, cookie(&secret, origin.is_secure))], Json(who)).into_response())
}

/// Ends the session of the request.
pub(super) async fn logout(operator: Operator<Views>, State(app): State<Arc<App>>, origin: Origin) -> Answer<Response> {
    let (secret, account) = session_of(&operator)?;
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    tx.delete_session(secret).await?;
    operator.may_within().audits(&mut tx, AuditAction::Logout, account, None, now_ms).await?;
    tx.commit().await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie_that_ends(origin.is_secure))]).into_response())
}

/// Ends all sessions of the account.
pub(super) async fn logout_everywhere(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    origin: Origin,
) -> Answer<Response> {
    let (_, account) = session_of(&operator)?;
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    let ended = tx.delete_sessions(account).await?;
    let detail = Some(format!("{ended} sessions"));
    operator.may_within().audits(&mut tx, AuditAction::SessionsEnd, account, detail, now_ms).await?;
    tx.commit().await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie_that_ends(origin.is_secure))]).into_response())
}

pub(super) async fn me(operator: Operator<Views>) -> Json<SignedIn> {
    Json(operator.who().clone())
}

fn session_of(operator: &Operator<Views>) -> Answer<(&Sha256Hash, &Name)> {
    match operator.credential() {
        Credential::Session(secret, account) => Ok((secret, account)),
        Credential::Token(_) => {
            let detail = "a token has no session; revoke it with DELETE /operator/v1/tokens/{id}";
            Err(ApiError::new(ProblemType::WrongState, detail))
        }
    }
}

fn entry(account: &Account, action: AuditAction, address: Option<String>) -> NewAudit {
    NewAudit {
        actor: account_actor(&account.name),
        label: account.name.to_string(),
        action,
        subject: account.name.to_string(),
        population: account.population.clone(),
        detail: address.map(|address| format!("from {address}")),
    }
}
