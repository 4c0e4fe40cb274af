//! Clients: the list, one client, its history, and statistics of device classes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use tributary_protocol::device::{ATTRIBUTE_BYTES_MAX, Attributes};
use tributary_protocol::id::{ClientId, JobId, Name};
use tributary_protocol::operator::{
    AttributeName, ChangeStanding, ClassStats, Client, ClientAssignment, ClientOrder, LABEL_BYTES_MAX, Order, Page,
    PageQuery, ShapeCount,
};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AuditAction, Standing, Task};
use tributary_protocol::text::visible;

use super::people::require_population;
use crate::api::auth::{Operator, Steers, Views};
use crate::api::extract::{Json, Path, Place, Query, full_page, page, text};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{ClientsList, audited_client};
use crate::fleet::online::Online;
use crate::lifecycle::{assignments, erasure, standings};
use crate::runtime::offload::blocking;
use tributary_engine::story::{class_stats, funnel};

/// Names of attributes in one answer. Devices choose them, so their number has no other limit.
const ATTRIBUTE_NAMES_MAX: usize = 1_000;
/// Longest search text in bytes.
const SEARCH_BYTES_MAX: usize = 200;
/// Statistics cover the newest sessions, up to this number.
const SESSIONS_MAX: u32 = 20_000;
/// Rounds that a funnel covers: the default and the limit.
const FUNNEL_ROUNDS_DEFAULT: u32 = 100;
const FUNNEL_ROUNDS_MAX: u32 = 10_000;
/// Most classes in an answer. Rarer values are counted together.
const CLASSES_MAX: usize = 100;

/// Which clients.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientsQuery {
    population: Name,
    /// Only those whose id, number or attributes contain this.
    #[serde(default)]
    search: String,
    #[serde(default)]
    order: ClientOrder,
    /// Default: `asc` by number, else `desc`.
    direction: Option<Order>,
    limit: Option<u32>,
    after: Option<String>,
}

pub(super) async fn list(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Query(query): Query<ClientsQuery>,
) -> Answer<Json<Page<Client>>> {
    operator.may(&query.population)?;
    text("search", &query.search, SEARCH_BYTES_MAX)?;
    let asked = PageQuery { limit: query.limit, after: query.after };
    let direction = query.direction.unwrap_or(query.order.direction());
    // In the order by number, `after` is the number alone.
    let is_by_number = query.order == ClientOrder::Number && direction == Order::Asc;
    let (limit, after) = if is_by_number {
        let (limit, after) = page(&asked, 0)?;
        (limit, Some((i64::MIN, after)))
    } else {
        let (limit, Place(value, number)) = page(&asked, Place(i64::MIN, 0))?;
        (limit, Some((value, number)))
    };
    let (population, search) = (&query.population, query.search.as_str());
    let list = ClientsList { population, search, order: query.order, direction, after, limit };
    let mut tx = app.db.read().await?;
    let found = tx.clients(&list).await?;
    let online = Online::read(&app.fleet, &mut tx, app.clock.now_ms()).await?;
    drop(tx);
    let waiting = app.fleet.lobby.candidates(population);
    let places: BTreeMap<ClientId, u32> = waiting.iter().filter_map(|one| Some((one.client, one.relay?))).collect();
    let end = found.last().filter(|_| found.len() == limit as usize).map(|(_, end)| *end);
    let next = end.map(|(value, number)| match is_by_number {
        true => number.to_string(),
        false => Place(value, number).to_string(),
    });
    let view = |client: Client| Client { places: places.get(&client.id).copied(), ..client_view(client, &online) };
    Ok(Json(Page { items: found.into_iter().map(|(client, _)| view(client)).collect(), next }))
}

pub(super) async fn show(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<ClientId>,
) -> Answer<Json<Client>> {
    let mut tx = app.db.read().await?;
    let (client, _) = operator.client(&mut tx, id).await?;
    let online = Online::read(&app.fleet, &mut tx, app.clock.now_ms()).await?;
    let releases = tx.held_releases(client.id).await?;
    Ok(Json(Client { releases, ..client_view(client, &online) }))
}

fn client_view(client: Client, online: &Online) -> Client {
    Client { online: online.has(client.id), working: online.works(client.id), ..client }
}

/// Quarantines, releases or revokes a client.
pub(super) async fn change_standing(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(id): Path<ClientId>,
    Json(request): Json<ChangeStanding>,
) -> Answer<Json<Client>> {
    let ChangeStanding { standing, reason } = request;
    text("reason", &reason, LABEL_BYTES_MAX)?;
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.begin().await?;
    let (client, permit) = operator.client(&mut tx, id).await?;
    if client.standing == Standing::Revoked && standing != Standing::Revoked {
        return Err(ApiError::new(ProblemType::WrongState, "this client is revoked, which is for good"));
    }
    let reason = Some(visible(&reason)).filter(|reason| !reason.is_empty() && standing != Standing::Active);
    if standings::change(&mut tx, id, standing, reason.as_deref(), now_ms).await?.is_some() {
        let action = match standing {
            Standing::Active => AuditAction::ClientRelease,
            Standing::Quarantined => AuditAction::ClientQuarantine,
            Standing::Revoked => AuditAction::ClientRevoke,
        };
        permit.audits(&mut tx, action, &audited_client(client.number), reason, now_ms).await?;
    }
    tx.commit().await?;
    if standing != Standing::Active {
        assignments::shut_out(&app, &app.fleet, id).await?;
    }
    let client = app.db.read().await?.client(id).await?;
    client.map(Json).ok_or_else(|| ApiError::not_found(id))
}

/// Deletes what is stored of a client, for good.
pub(super) async fn erase(
    operator: Operator<Steers>,
    State(app): State<Arc<App>>,
    Path(id): Path<ClientId>,
) -> Answer<StatusCode> {
    let (_, permit) = operator.client(&mut app.db.read().await?, id).await?;
    let now_ms = app.clock.now_ms();
    let erased = erasure::erase(&app, &app.fleet, id, async |tx, client| {
        permit.audits(tx, AuditAction::ClientErase, &audited_client(client.number), None, now_ms).await
    });
    if erased.await? { Ok(StatusCode::NO_CONTENT) } else { Err(ApiError::not_found(id)) }
}

pub(super) async fn history(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<ClientId>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<ClientAssignment>>> {
    let (limit, Place(at_ms, before)) = page(&query, Place(i64::MAX, String::new()))?;
    let mut tx = app.db.read().await?;
    operator.client(&mut tx, id).await?;
    let items = tx.client_history(id, (at_ms, &before), limit).await?;
    let end = |item: &ClientAssignment| Place(item.assignment.assigned_at_ms, item.assignment.id).to_string();
    Ok(Json(full_page(items, limit, end)))
}

pub(super) async fn attributes(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(population): Path<Name>,
) -> Answer<Json<Vec<AttributeName>>> {
    operator.may(&population)?;
    let mut tx = app.db.read().await?;
    require_population(&mut tx, &population).await?;
    let clients = tx.client_attributes(&population).await?;
    drop(tx);
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in clients.iter().flat_map(|(attributes, _)| attributes.as_map()) {
        names.entry(name).or_default().insert(value);
    }
    let names = names.into_iter().take(ATTRIBUTE_NAMES_MAX);
    let names = names.map(|(name, values)| AttributeName { name: name.into(), values: values.len() as u64 });
    Ok(Json(names.collect()))
}

/// By which attribute.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassesQuery {
    attribute: String,
}

pub(super) async fn classes(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(population): Path<Name>,
    Query(query): Query<ClassesQuery>,
) -> Answer<Json<Vec<ClassStats>>> {
    operator.may(&population)?;
    text("attribute", &query.attribute, ATTRIBUTE_BYTES_MAX)?;
    let mut tx = app.db.read().await?;
    require_population(&mut tx, &population).await?;
    let clients = tx.client_attributes(&population).await?;
    let sessions = tx.newest_sessions(&population, SESSIONS_MAX).await?;
    drop(tx);
    let stats = blocking(move || {
        let common = common_values(&query.attribute, &clients);
        let known = |attributes: &Attributes| {
            common.contains(attributes.as_map().get(&query.attribute).map_or("", String::as_str))
        };
        let clients = clients.iter().filter(|(attributes, _)| known(attributes));
        let sessions = sessions.iter().filter(|(attributes, _)| known(attributes));
        class_stats(
            &query.attribute,
            clients.map(|(attributes, count)| (attributes, *count)),
            sessions.map(|(attributes, session)| (&**attributes, session)),
        )
    });
    Ok(Json(stats.await))
}

/// The most common values of an attribute. An attribute with a different value for each client does not form classes.
fn common_values(attribute: &str, clients: &[(Attributes, u64)]) -> BTreeSet<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (attributes, count) in clients {
        *counts.entry(attributes.as_map().get(attribute).map_or("", String::as_str)).or_default() += count;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().take(CLASSES_MAX).map(|(value, _)| value.to_owned()).collect()
}

/// Which sessions.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ShapesQuery {
    /// Of the newest so many rounds.
    rounds: Option<u32>,
    #[serde(default = "train")]
    task: Task,
    /// Counts by the values of this attribute too.
    attribute: Option<String>,
}

fn train() -> Task {
    Task::Train
}

pub(super) async fn shapes(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Path(id): Path<JobId>,
    Query(query): Query<ShapesQuery>,
) -> Answer<Json<Vec<ShapeCount>>> {
    let rounds = query.rounds.unwrap_or(FUNNEL_ROUNDS_DEFAULT);
    if !(1..=FUNNEL_ROUNDS_MAX).contains(&rounds) {
        return Err(ApiError::new(ProblemType::Malformed, format!("rounds must be 1 to {FUNNEL_ROUNDS_MAX}")));
    }
    if let Some(attribute) = &query.attribute {
        text("attribute", attribute, ATTRIBUTE_BYTES_MAX)?;
    }
    let mut tx = app.db.read().await?;
    let (job, _) = operator.job(&mut tx, id).await?;
    let from = job.rounds_opened.saturating_sub(rounds) + 1;
    let sessions = tx.sessions_of_job(id, query.task, from, SESSIONS_MAX).await?;
    drop(tx);
    let counts = blocking(move || {
        let sessions = sessions.iter().map(|(attributes, session)| (&**attributes, session));
        funnel(sessions, query.attribute.as_deref())
    });
    Ok(Json(counts.await))
}
