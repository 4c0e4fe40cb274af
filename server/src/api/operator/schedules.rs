//! The schedules of retention and upkeep.

use std::sync::Arc;

use axum::extract::State;
use tributary_protocol::operator::{Page, PageQuery, ScheduledWork};

use crate::api::auth::{Operator, Views};
use crate::api::extract::{Json, Query, full_page, page};
use crate::api::problem::Answer;
use crate::app::App;

pub(super) async fn list(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Query(query): Query<PageQuery>,
) -> Answer<Json<Page<ScheduledWork>>> {
    operator.may_everywhere()?;
    let (limit, after) = page(&query, String::new())?;
    let items = app.db.read().await?.schedules(&after, limit).await?;
    Ok(Json(full_page(items, limit, |work| work.name.clone())))
}
