//! Which of the jobs that a relay plays have ended here.

use std::sync::Arc;

use axum::extract::State;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::relay::{RELAY_JOBS_MAX, RelayJobs};
use tributary_protocol::state::JobState;

use crate::api::auth::Device;
use crate::api::extract::Json;
use crate::api::problem::{Answer, ApiError};
use crate::app::App;

pub(super) async fn ended(
    State(app): State<Arc<App>>,
    Device(client): Device,
    Json(RelayJobs { jobs }): Json<RelayJobs>,
) -> Answer<Json<RelayJobs>> {
    if !client.is_relay() {
        return Err(ApiError::new(ProblemType::Forbidden, "the token of this client grants no relay"));
    }
    if jobs.len() > RELAY_JOBS_MAX {
        let detail = format!("a relay asks for at most {RELAY_JOBS_MAX} jobs at a time");
        return Err(ApiError::new(ProblemType::Malformed, detail));
    }
    let mut tx = app.db.read().await?;
    let mut ended = Vec::new();
    for job in jobs {
        // One that was deleted, or is another population's, is no job of this relay any more.
        let state = tx.job_state(job, &client.population).await?;
        if state.is_none_or(JobState::is_final) {
            ended.push(job);
        }
    }
    Ok(Json(RelayJobs { jobs: ended }))
}
