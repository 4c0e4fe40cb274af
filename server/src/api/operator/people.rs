//! Populations and tokens.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use tributary_protocol::id::{Name, PinnedSecret, SecretKind, TokenId};
use tributary_protocol::operator::{
    CreatePopulation, CreateToken, CreatedToken, LABEL_BYTES_MAX, OPERATOR_TOKEN_VALID_FOR_MS_DEFAULT, Page, PageQuery,
    Population, Token,
};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AuditAction, Standing, TokenKind};
use tributary_protocol::text::is_text;

use crate::api::auth::{Administers, Operator, Views};
use crate::api::extract::{Json, Path, Query, full_page, page};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{DbError, Tx, stored_hash};
use crate::fleet::online::Online;
use crate::lifecycle::{assignments, budget, standings};
use crate::runtime::entropy;

pub(super) async fn create_population(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Json(request): Json<CreatePopulation>,
) -> Answer<(StatusCode, Json<Population>)> {
    let permit = operator.may_everywhere()?.about(Some(request.name.clone()));
    let created_at_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    match tx.insert_population(&request.name, created_at_ms).await {
        Err(DbError::Duplicate) => {
            return Err(ApiError::new(ProblemType::NameTaken, format!("population {} exists", request.name)));
        }
        stored => stored?,
    }
    permit.audits(&mut tx, AuditAction::PopulationCreate, &request.name, None, created_at_ms).await?;
    if let Some(budget) = request.budget {
        budget::set(&app, &mut tx, &request.name, budget).await?;
    }
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(Population { name: request.name, clients: 0, created_at_ms, online: 0, working: 0 })))
}

pub(super) async fn populations(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<Population>>> {
    let permit = operator.may_within();
    let (limit, after) = page(&query, String::new())?;
    let mut tx = app.db.read().await?;
    let mut items = tx.populations(permit.population(), &after, limit).await?;
    let online = Online::read(&app.fleet, &mut tx, app.clock.now_ms()).await?;
    for population in &mut items {
        (population.online, population.working) = online.of(&population.name);
    }
    Ok(Json(full_page(items, limit, |population| population.name.to_string())))
}

pub(super) async fn create_token(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Json(request): Json<CreateToken>,
) -> Answer<(StatusCode, Json<CreatedToken>)> {
    let now_ms = app.clock.now_ms();
    let token = new_token(request, now_ms)?;
    let permit = match &token.population {
        Some(population) => operator.may(population)?,
        None => operator.may_everywhere()?,
    };
    let secret = entropy::secret(match token.kind {
        TokenKind::Operator => SecretKind::Operator,
        TokenKind::Enrolment => SecretKind::Enrolment,
    });
    let mut tx = app.db.begin().await?;
    if let Some(population) = &token.population {
        require_population(&mut tx, population).await?;
    }
    tx.insert_token(&token, &stored_hash(&secret)).await?;
    permit.audits(&mut tx, AuditAction::TokenCreate, &token.id, Some(described(&token)), now_ms).await?;
    tx.commit().await?;
    let server = app.clients_url.clone().filter(|_| token.kind == TokenKind::Enrolment);
    Ok((StatusCode::CREATED, Json(CreatedToken { token, secret: PinnedSecret::new(secret, app.ca), server })))
}

/// The token that a request describes.
fn new_token(request: CreateToken, now_ms: i64) -> Answer<Token> {
    let after_ms = |ms: u64| now_ms.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX));
    let new = |kind, label| Token::unlimited(TokenId::from_random(entropy::random()), kind, label, now_ms);
    let token = match request {
        CreateToken::Operator { role, population, label, valid_for_ms } => {
            let valid_for_ms = valid_for_ms.unwrap_or(OPERATOR_TOKEN_VALID_FOR_MS_DEFAULT);
            let expires_at_ms = Some(after_ms(valid_for_ms));
            Token { role: Some(role), population, expires_at_ms, ..new(TokenKind::Operator, label) }
        }
        CreateToken::Enrolment { population, label, valid_for_ms, uses_max, per_minute_max, attributes } => Token {
            population: Some(population),
            expires_at_ms: valid_for_ms.map(after_ms),
            uses_max,
            per_minute_max,
            attributes,
            ..new(TokenKind::Enrolment, label)
        },
    };
    if token.uses_max == Some(0) || token.per_minute_max == Some(0) {
        return Err(ApiError::new(ProblemType::Malformed, "uses_max and per_minute_max are at least 1"));
    }
    let attributes = token.attributes.as_map();
    let are_texts = attributes.iter().all(|(name, value)| is_text(name) && is_text(value));
    if !are_texts || !is_text(&token.label) {
        let detail = "label and attributes have no control characters and no invisible ones";
        return Err(ApiError::new(ProblemType::Malformed, detail));
    }
    if token.label.len() > LABEL_BYTES_MAX {
        return Err(ApiError::new(ProblemType::Malformed, format!("a label has at most {LABEL_BYTES_MAX} bytes")));
    }
    Ok(token)
}

/// A new token in the words of the audit log.
fn described(token: &Token) -> String {
    let whose = match (token.role, &token.population) {
        (Some(role), None) => role.to_string(),
        (Some(role), Some(population)) => format!("{role} of {population}"),
        (None, population) => format!("clients of {}", population.as_ref().map_or("", Name::as_str)),
    };
    format!("for {whose}: {}", token.label)
}

pub(super) async fn tokens(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<Token>>> {
    let permit = operator.may_within();
    let (limit, after) = page(&query, String::new())?;
    let items = app.db.read().await?.tokens(permit.population(), &after, limit).await?;
    Ok(Json(full_page(items, limit, |token| token.id.to_string())))
}

/// What else a revocation concerns.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RevokeQuery {
    /// Whether the clients that the token enrolled are revoked, too.
    #[serde(default)]
    with_clients: bool,
}

pub(super) async fn revoke_token(
    operator: Operator<Administers>,
    State(app): State<Arc<App>>,
    Path(id): Path<TokenId>,
    Query(query): Query<RevokeQuery>,
) -> Answer<StatusCode> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    // A token out of reach is answered like one that does not exist.
    let token = tx.token(id).await?.filter(|token| operator.reaches(token.population.as_ref()));
    let token = token.ok_or_else(|| ApiError::not_found(id))?;
    tx.revoke_token(id, now_ms).await?;
    let clients = match query.with_clients {
        true => tx.clients_of_token(id).await?,
        false => Vec::new(),
    };
    for client in &clients {
        let reason = "its enrolment token was revoked with its clients";
        standings::change(&mut tx, *client, Standing::Revoked, Some(reason), now_ms).await?;
    }
    let permit = operator.may_within().about(token.population);
    let detail = query.with_clients.then(|| format!("with {} clients", clients.len()));
    permit.audits(&mut tx, AuditAction::TokenRevoke, &id, detail, now_ms).await?;
    tx.commit().await?;
    for client in clients {
        assignments::shut_out(&app, &app.fleet, client).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn require_population(tx: &mut Tx, name: &Name) -> Answer<()> {
    let known = tx.population(name).await?;
    known.map(drop).ok_or_else(|| ApiError::not_found(format!("population {name}")))
}
