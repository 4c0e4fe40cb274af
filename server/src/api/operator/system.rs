//! The coordinator itself: its database, its load, and the other coordinators.

use std::sync::Arc;

use axum::extract::State;
use tributary_protocol::operator::{Node, PAGE_ITEMS_MAX, Page, PageQuery, Storage, System};

use crate::api::auth::{Operator, Views};
use crate::api::extract::{Json, Query, full_page, page};
use crate::api::problem::Answer;
use crate::api::story::disk::Disk;
use crate::app::App;
use crate::db::{DbError, Tx};
use crate::fleet::online::Online;

pub(super) async fn show(operator: Operator<Views>, State(app): State<Arc<App>>) -> Answer<Json<System>> {
    operator.may_everywhere()?;
    let now_ms = app.clock.now_ms();
    let mut tx = app.db.read().await?;
    let nodes = nodes_with_work(&mut tx, "", PAGE_ITEMS_MAX, now_ms).await?;
    let schedules = tx.schedules("", PAGE_ITEMS_MAX).await?;
    let disk = Disk::read(&app, &mut tx).await?;
    let (online_clients, working_clients) = Online::read(&app.fleet, &mut tx, now_ms).await?.all();
    let storage = Storage { free_bytes: disk.free_bytes, full_in_ms: disk.full_in_ms, ..tx.storage().await? };
    Ok(Json(System {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at_ms: app.leases.started_at_ms(),
        engine: app.db.engine(),
        parent: app.upstream.as_ref().map(|upstream| upstream.address().to_owned()),
        nodes,
        checkins_per_s: app.fleet.check_ins.per_second(now_ms),
        held_clients: app.fleet.lobby.len() as u64,
        online_clients,
        working_clients,
        updates_per_s: app.fleet.updates.per_second(now_ms),
        updates_in_flight: app.updates.budget.taken(),
        db: app.db.latency(),
        storage,
        schedules,
        history: app.load.values(),
    }))
}

pub(super) async fn nodes(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<Node>>> {
    operator.may_everywhere()?;
    let (limit, after) = page(&query, String::new())?;
    let nodes = nodes_with_work(&mut app.db.read().await?, &after, limit, app.clock.now_ms()).await?;
    Ok(Json(full_page(nodes, limit, |node| node.id.to_string())))
}

async fn nodes_with_work(tx: &mut Tx, after: &str, limit: u32, now_ms: i64) -> Result<Vec<Node>, DbError> {
    let mut nodes = tx.nodes(after, limit, now_ms).await?;
    for (node, lease) in tx.leases().await?.into_iter().filter(|(_, lease)| lease.expires_at_ms > now_ms) {
        if let Some(node) = nodes.iter_mut().find(|known| known.id == node) {
            node.leases.push(lease);
        }
    }
    for (node, shard) in tx.shards_of_all().await? {
        if let Some(node) = nodes.iter_mut().find(|known| known.id == node) {
            node.shards.push(shard);
        }
    }
    Ok(nodes)
}
