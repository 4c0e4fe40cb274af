//! A link between two members of a group that cannot reach each other: the coordinator passes their bytes on.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use tributary_protocol::group::messages::LINK_UPGRADE;
use tributary_protocol::id::GroupId;
use tributary_protocol::problem::ProblemType;

use super::checkin::too_many_held;
use crate::api::auth::{Device, Origin};
use crate::api::extract::Path;
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::net::Kept;
use crate::ring::links::{LinkRefusal, Side, meet};

pub(super) async fn link(
    State(app): State<Arc<App>>,
    Device(client): Device,
    origin: Origin,
    Path((group, rank)): Path<(GroupId, u16)>,
    mut request: Request,
) -> Answer<Response> {
    let asks = |headers: &HeaderMap| headers.get(UPGRADE).is_some_and(|name| name == LINK_UPGRADE);
    let upgrade = request.extensions_mut().remove::<OnUpgrade>().filter(|_| asks(request.headers()));
    let upgrade = upgrade.ok_or_else(|| {
        ApiError::new(ProblemType::Malformed, format!("a link needs HTTP/1.1 with `Upgrade: {LINK_UPGRADE}`"))
    })?;
    let side = Side { upgrade, kept: request.extensions_mut().remove::<Kept>() };
    let _held = app.guard.hold(origin.address).ok_or_else(too_many_held)?;
    drop((origin, request));
    match meet(&app, (&app.links, &app.guard.links), &client, (group, rank), side).await {
        Ok(()) => {}
        // Over the same connection a balancer would take the client here again.
        Err(refusal @ LinkRefusal::Elsewhere) => {
            let refused = ApiError::new(ProblemType::WrongState, refusal.to_string());
            return Ok(([(CONNECTION, "close")], refused).into_response());
        }
        Err(LinkRefusal::NotFound) => return Err(ApiError::not_found(format!("link {rank} of {group}"))),
        Err(refusal @ LinkRefusal::Forbidden) => {
            return Err(ApiError::new(ProblemType::Forbidden, refusal.to_string()));
        }
        Err(LinkRefusal::Closed(why)) => return Err(ApiError::new(ProblemType::WrongState, why)),
        Err(LinkRefusal::Db(error)) => return Err(error.into()),
    }
    let headers = [(CONNECTION, "upgrade"), (UPGRADE, LINK_UPGRADE)];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}
