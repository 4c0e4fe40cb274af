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

/// Most jobs in an answer.
const JOBS_MAX: u32 = 100;

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
        jobs.push(OpenJob { name: file.name.clone(), input, output, loss: file.training.loss, inputs, analysis });
    }
    Ok(Json(OpenJobs { jobs }))
}
