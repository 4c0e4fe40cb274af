//! `tributary job check`: what the coordinator makes of a job file.

use tributary_protocol::job_file::JobFile;
use tributary_protocol::layers::LayerRow;
use tributary_protocol::operator::JobDraft;
use tributary_protocol::problem::ProblemType;

use crate::api::{Api, ApiError};
use crate::error::CliError;
use crate::format::{bytes, count};
use crate::output::{self, Output};
use crate::population::check_population;

pub(super) async fn run(file: JobFile, api: &Api, output: &Output) -> Result<(), CliError> {
    let population = file.population.clone();
    let draft = match api.try_job(file).await {
        Err(ApiError::Problem(problem)) if problem.kind == ProblemType::NotFound => {
            // Names the population that was probably meant.
            check_population(&population, api).await?;
            return Err(ApiError::Problem(problem).into());
        }
        draft => draft?,
    };
    output.object(&draft, || text(&draft, output.width))
}

fn text(draft: &JobDraft, width: Option<u16>) -> String {
    let name = &draft.job.name;
    let mut text = format!("the coordinator accepts the job {name}: {} parameters", count(draft.parameters));
    if let Ok(Some(values)) = draft.job.values_per_example() {
        let memory = bytes(4 * values as u64);
        text.push_str(&format!("; the layers hold {} values of one example, {memory}", count(values as u64)));
    }
    if !draft.layers.is_empty() {
        let rows = draft.layers.iter().enumerate().map(|(index, layer)| row(index, layer));
        text.push_str("\n\n");
        text.push_str(output::table(&["#", "layer", "output", "parameters"], rows, width).trim_end());
    }
    for remark in &draft.remarks {
        text.push_str(&format!("\n\nnote: {remark}"));
    }
    text
}

fn row(index: usize, layer: &LayerRow) -> Vec<String> {
    vec![index.to_string(), layer.kind.clone(), format!("{:?}", layer.output), count(layer.parameters)]
}
