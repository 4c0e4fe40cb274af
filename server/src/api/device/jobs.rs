//! What the running jobs of a population require of examples.

use std::sync::Arc;

use axum::extract::State;
use tributary_protocol::device::{OpenJob, OpenJobs};
use tributary_protocol::layers::ModelSpec;

use crate::api::auth::Enroller;
use crate::api::extract::Json;
use crate::api::problem::Answer;
use crate::app::App;
use crate::db::DbError;
use crate::relay::{Upstream, UpstreamError};

/// Most jobs of this coordinator in an answer.
const JOBS_MAX: u32 = 100;
/// How long a client waits for the jobs of a relay's parent, in milliseconds.
const PARENT_MS: i64 = 3_000;

pub(super) async fn open(State(app): State<Arc<App>>, enroller: Enroller) -> Answer<Json<OpenJobs>> {
    let rows = app.db.read().await?.jobs_at_a_glance(Some(&enroller.population), false, JOBS_MAX).await?;
    let mut jobs = Vec::new();
    for row in rows.iter().filter(|row| row.state.is_running()) {
        let file = &row.file.0;
        let input = match &file.model.spec {
            ModelSpec::Layers(model) => Some(model.input.clone()),
            ModelSpec::Parameters(_) => None,
        };
        let output = file.model.spec.output_shape().map_err(|error| DbError::Corrupt(error.to_string()))?;
        let (inputs, analysis) = (file.model.inputs.clone(), file.analysis.clone());
        let (name, data) = (file.name.clone(), file.data.clone());
        jobs.push(OpenJob { name, data, input, output, loss: file.training.loss, inputs, analysis });
    }
    if let Some(upstream) = &app.upstream {
        jobs.extend(of_the_parent(&app, &**upstream, &jobs).await);
    }
    Ok(Json(OpenJobs { jobs }))
}

/// The jobs of a relay's parent that the relay does not play yet. None where the parent does not answer in time: a
/// relay serves its clients without its uplink, too.
async fn of_the_parent(app: &App, upstream: &dyn Upstream, played: &[OpenJob]) -> Vec<OpenJob> {
    let told = tokio::select! {
        told = upstream.jobs() => told,
        () = app.clock.sleep_until(app.clock.now_ms() + PARENT_MS) => Err(UpstreamError("it took too long".into())),
    };
    let is_new = |job: &OpenJob| played.iter().all(|known| known.name != job.name);
    match told {
        Ok(jobs) => jobs.into_iter().filter(is_new).collect(),
        Err(error) => {
            tracing::debug!(%error, "the list lacks the jobs of the parent");
            Vec::new()
        }
    }
}
