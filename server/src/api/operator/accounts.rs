//! Accounts of people, managed by admins.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{
    Account, ChangePassword, CreateAccount, PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, Page, PageQuery, Session,
};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::sealed::Sealed;
use tributary_protocol::state::AuditAction;
use tributary_protocol::text::is_text;

use super::people::require_population;
use crate::api::auth::{Administers, Operator, Permit, SESSIONS_MAX, account_actor};
use crate::api::extract::{Json, Path, Query, full_page, page, text};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{DbError, Tx};

/// Longest name of a person of a provider, as the audit log has it.
const ACTOR_BYTES_MAX: usize = 260;

pub(super) async fn create(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Json(request): Json<CreateAccount>,
) -> Answer<(StatusCode, Json<Account>)> {
    let CreateAccount { name, role, population, password } = request;
    let permit = match &population {
        Some(population) => operator.may(population)?,
        None => operator.may_everywhere()?,
    };
    let hash = hashed(&app, password).await?;
    let now_ms = app.clock.now_ms();
    let account =
        Account { name, role, population, created_at_ms: now_ms, password_at_ms: now_ms, revoked_at_ms: None };
    let mut tx = app.db.begin().await?;
    if let Some(population) = &account.population {
        require_population(&mut tx, population).await?;
    }
    match tx.insert_account(&account, &hash).await {
        Err(DbError::Duplicate) => {
            return Err(ApiError::new(ProblemType::NameTaken, format!("the name {} is taken", account.name)));
        }
        stored => stored?,
    }
    let detail = match &account.population {
        Some(population) => format!("{role} of {population}"),
        None => role.to_string(),
    };
    permit.audits(&mut tx, AuditAction::AccountCreate, &account.name, Some(detail), now_ms).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(account)))
}

pub(super) async fn list(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<Account>>> {
    let permit = operator.may_within();
    let (limit, after) = page(&query, String::new())?;
    let items = app.db.read().await?.accounts(permit.population(), &after, limit).await?;
    Ok(Json(full_page(items, limit, |account| account.name.to_string())))
}

/// Sets a password, and ends the sessions that were begun with the old one.
pub(super) async fn change_password(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Path(name): Path<Name>,
    Json(request): Json<ChangePassword>,
) -> Answer<StatusCode> {
    let hash = hashed(&app, request.password).await?;
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    let permit = of_account(&operator, &mut tx, &name).await?;
    if !tx.set_password(&name, &hash, now_ms).await? {
        return Err(ApiError::new(ProblemType::WrongState, format!("the account {name} is revoked")));
    }
    tx.delete_sessions(&account_actor(&name)).await?;
    permit.audits(&mut tx, AuditAction::AccountPassword, &name, None, now_ms).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn revoke(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Path(name): Path<Name>,
) -> Answer<StatusCode> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    let permit = of_account(&operator, &mut tx, &name).await?;
    tx.revoke_account(&name, now_ms).await?;
    tx.delete_sessions(&account_actor(&name)).await?;
    permit.audits(&mut tx, AuditAction::AccountRevoke, &name, None, now_ms).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn sessions(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Path(name): Path<Name>,
) -> Answer<Json<Vec<Session>>> {
    let mut tx = app.db.read().await?;
    of_account(&operator, &mut tx, &name).await?;
    Ok(Json(tx.sessions(&account_actor(&name), app.clock.now_ms(), SESSIONS_MAX).await?))
}

pub(super) async fn end_sessions(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Path(name): Path<Name>,
) -> Answer<StatusCode> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    let permit = of_account(&operator, &mut tx, &name).await?;
    let ended = tx.delete_sessions(&account_actor(&name)).await?;
    permit.audits(&mut tx, AuditAction::SessionsEnd, &name, Some(format!("{ended} sessions")), now_ms).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Whose sessions.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionsQuery {
    /// A person whom an identity provider knows, as the audit log has it: `oidc:` and the provider's subject.
    actor: String,
}

/// The sessions of a person whom an identity provider knows.
pub(super) async fn provider_sessions(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Query(query): Query<SessionsQuery>,
) -> Answer<Json<Vec<Session>>> {
    let actor = provider_actor(query)?;
    let (permit, now_ms) = (operator.may_within(), app.clock.now_ms());
    let mut tx = app.db.read().await?;
    Ok(Json(tx.provider_sessions(&actor, permit.population(), now_ms, SESSIONS_MAX).await?))
}

pub(super) async fn end_provider_sessions(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Query(query): Query<SessionsQuery>,
) -> Answer<StatusCode> {
    let actor = provider_actor(query)?;
    let (permit, now_ms) = (operator.may_within(), app.clock.now_ms());
    let mut tx = app.db.begin().await?;
    let ended = tx.delete_provider_sessions(&actor, permit.population()).await?;
    permit.audits(&mut tx, AuditAction::SessionsEnd, &actor, Some(format!("{ended} sessions")), now_ms).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

fn provider_actor(SessionsQuery { actor }: SessionsQuery) -> Answer<String> {
    text("actor", &actor, ACTOR_BYTES_MAX)?;
    if !actor.starts_with("oidc:") || !is_text(&actor) {
        let detail = "actor is oidc: and the provider's subject; accounts have /accounts/{account}/sessions";
        return Err(ApiError::new(ProblemType::Malformed, detail));
    }
    Ok(actor)
}

/// The power over an account. An account out of reach is answered like one that does not exist.
async fn of_account(operator: &Operator<Administers>, tx: &mut Tx, name: &Name) -> Answer<Permit<Administers>> {
    let account = tx.account(name).await?.filter(|account| operator.reaches(account.population.as_ref()));
    let account = account.ok_or_else(|| ApiError::not_found(format!("account {name}")))?;
    Ok(operator.may_within().about(account.population))
}

async fn hashed(app: &App, password: Sealed<String>) -> Answer<String> {
    let letters = password.expose();
    if letters.chars().count() < PASSWORD_CHARS_MIN || letters.len() > PASSWORD_BYTES_MAX {
        let detail =
            format!("a password has {PASSWORD_CHARS_MIN} characters or more, and at most {PASSWORD_BYTES_MAX} bytes");
        return Err(ApiError::new(ProblemType::Malformed, detail));
    }
    Ok(app.people.passwords.hash(password).await?)
}
