//! Populations and tokens.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use tributary_protocol::id::{PinnedSecret, SecretKind, TokenId};
use tributary_protocol::operator::{CreatePopulation, CreateToken, CreatedToken, Page, PageQuery, Population, Token};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::AuditAction;

use crate::api::auth::{Operator, stored_hash};
use crate::api::extract::{Json, Path, Query, full_page, page};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::DbError;
use crate::runtime::entropy;

const LABEL_BYTES_MAX: usize = 200;

pub(super) async fn create_population(
    operator: Operator,
    State(app): State<Arc<App>>,
    Json(request): Json<CreatePopulation>,
) -> Answer<(StatusCode, Json<Population>)> {
    let created_at_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    match tx.insert_population(&request.name, created_at_ms).await {
        Err(DbError::Duplicate) => {
            return Err(ApiError::new(ProblemType::NameTaken, format!("population {} exists", request.name)));
        }
        stored => stored?,
    }
    operator.audits(&mut tx, AuditAction::PopulationCreate, &request.name, None, created_at_ms).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(Population { name: request.name, clients: 0, created_at_ms })))
}

pub(super) async fn populations(
    _: Operator,
    State(app): State<Arc<App>>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<Population>>> {
    let (limit, after) = page(&query, String::new())?;
    let items = app.db.read().await?.populations(&after, limit).await?;
    Ok(Json(full_page(items, limit, |population| population.name.to_string())))
}

pub(super) async fn create_token(
    operator: Operator,
    State(app): State<Arc<App>>,
    Json(request): Json<CreateToken>,
) -> Answer<(StatusCode, Json<CreatedToken>)> {
    if request.label.len() > LABEL_BYTES_MAX {
        return Err(ApiError::new(ProblemType::Malformed, format!("a label has at most {LABEL_BYTES_MAX} bytes")));
    }
    if request.label.chars().any(char::is_control) {
        return Err(ApiError::new(ProblemType::Malformed, "a label has no control characters"));
    }
    let kind = if request.population.is_some() { SecretKind::Enrolment } else { SecretKind::Operator };
    let now_ms = app.clock.now_ms();
    let valid_for_ms = request.valid_for_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
    let token = Token {
        id: TokenId::from_random(entropy::random()),
        population: request.population,
        label: request.label,
        created_at_ms: now_ms,
        expires_at_ms: valid_for_ms.map(|ms| now_ms.saturating_add(ms)),
        revoked_at_ms: None,
    };
    let secret = entropy::secret(kind);
    let mut tx = app.db.begin().await?;
    if let Some(population) = &token.population {
        let known = tx.population(population).await?;
        known.ok_or_else(|| ApiError::not_found(format!("population {population}")))?;
    }
    tx.insert_token(&token, &stored_hash(&secret)).await?;
    let whose = token.population.as_ref().map_or("an operator".to_owned(), ToString::to_string);
    let detail = format!("for {whose}: {}", token.label);
    operator.audits(&mut tx, AuditAction::TokenCreate, &token.id, Some(detail), now_ms).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(CreatedToken { token, secret: PinnedSecret::new(secret, app.ca) })))
}

pub(super) async fn tokens(
    _: Operator,
    State(app): State<Arc<App>>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<Token>>> {
    let (limit, after) = page(&query, String::new())?;
    let items = app.db.read().await?.tokens(&after, limit).await?;
    Ok(Json(full_page(items, limit, |token| token.id.to_string())))
}

pub(super) async fn revoke_token(
    operator: Operator,
    State(app): State<Arc<App>>,
    Path(id): Path<TokenId>,
) -> Answer<StatusCode> {
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    if !tx.revoke_token(id, now_ms).await? {
        return Err(ApiError::not_found(id));
    }
    operator.audits(&mut tx, AuditAction::TokenRevoke, &id, None, now_ms).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
