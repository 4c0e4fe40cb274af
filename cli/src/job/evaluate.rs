//! `tributary job evaluate` and `tributary job sites`: fixed models at each client, without any training.

use serde::Serialize;
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::job_file::{EvaluationPlace, EvaluationPolicy, InitialModel, JobFile, Retention, StopPolicy};
use tributary_protocol::operator::{Assignment, Job, MeasuredOn, ModelVersion};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Task};
use tributary_protocol::version_of::{JobRef, VersionOf};

use super::args::{JobArgs, JobEvaluateArgs};
use super::find::find_job;
use crate::api::{Api, ApiError, collect};
use crate::error::CliError;
use crate::format::measured;
use crate::output::Output;

/// Creates a job that only evaluates versions of another one.
pub(super) async fn create(args: &JobEvaluateArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, &args.job).await?;
    let file = only_evaluating(&job, &args.versions, args.name.clone())?;
    let created = api.create_job(file).await?;
    output.object(&created, || {
        let (name, id) = (&created.file.name, created.head.id);
        format!("created the job {name} ({id})\nnext: `tributary job sites {name}` shows what the clients measure")
    })
}

fn only_evaluating(job: &Job, versions: &[u32], name: Option<Name>) -> Result<JobFile, CliError> {
    let of = |version: &u32| VersionOf { job: JobRef::Name(job.file.name.clone()), version: *version };
    let name = match name {
        Some(name) => name,
        None => {
            let listed: Vec<_> = versions.iter().map(u32::to_string).collect();
            let name = format!("{}-versions-{}", job.file.name, listed.join("-"));
            name.parse().map_err(|_| CliError::BadSetting("the job needs a --name".into()))?
        }
    };
    let evaluation = job.file.evaluation.clone().unwrap_or_default();
    Ok(JobFile {
        name,
        seed: None,
        initial_model: InitialModel::Random,
        evaluation: Some(EvaluationPolicy {
            only: true,
            place: EvaluationPlace::Clients,
            every_rounds: 1,
            models: versions.iter().map(of).collect(),
            ..evaluation
        }),
        stop: StopPolicy::default(),
        schedule: None,
        retention: Retention::default(),
        privacy: None,
        secure_aggregation: None,
        group: None,
        coded: None,
        ..job.file.clone()
    })
}

/// A client in the table, with a cell for each model.
#[derive(Debug, Serialize)]
struct Site {
    number: u64,
    client: String,
    results: Vec<Option<Assignment>>,
}

/// Shows a table of models and clients.
pub(super) async fn sites(args: &JobArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, args).await?;
    let Some(evaluation) = job.file.evaluation.as_ref().filter(|evaluation| evaluation.only) else {
        let text = format!("{} trains: `job evaluate` makes a job that only evaluates", job.file.name);
        return Err(CliError::BadSetting(text));
    };
    let models = collect(None, async |page| api.model_versions(job.head.id, page).await).await?.items;
    let sites = table(api, job.head.id, models.len()).await?;
    let name = |place: usize, model: &ModelVersion| {
        evaluation.models.get(place).map_or_else(|| format!("model {}", model.version), VersionOf::to_string)
    };
    let names: Vec<String> = models.iter().enumerate().map(|(place, model)| name(place, model)).collect();
    let mut header = vec!["client"];
    header.extend(names.iter().map(String::as_str));
    let mut rows = sites;
    // The last row is about all of them.
    rows.push(Site { number: 0, client: "all".into(), results: Vec::new() });
    output.list(&rows, &header, |site| {
        let mut row = vec![if site.number == 0 { "all".to_owned() } else { site.number.to_string() }];
        row.extend(models.iter().enumerate().map(|(place, model)| match site.number {
            0 => model.accuracy.map_or_else(|| loss(model.loss), |accuracy| measured(accuracy, model.measured_on)),
            _ => site.results.get(place).map_or_else(|| "-".into(), |result| cell(result.as_ref())),
        }));
        row
    })
}

async fn table(api: &Api, job: JobId, models: usize) -> Result<Vec<Site>, CliError> {
    let mut sites: Vec<Site> = Vec::new();
    for place in 0..models {
        let round = u32::try_from(place).unwrap_or(u32::MAX) + 1;
        let fetched = collect(None, async |page| api.assignments(job, round, Task::Evaluate, page).await).await;
        let assignments = match fetched {
            // Its turn has not come yet.
            Err(ApiError::Problem(problem)) if problem.kind == ProblemType::NotFound => break,
            fetched => fetched?.items,
        };
        for assignment in assignments {
            let found = sites.iter().position(|site| site.number == assignment.client_number);
            let at = found.unwrap_or_else(|| {
                let (number, client) = (assignment.client_number, assignment.client.to_string());
                sites.push(Site { number, client, results: Vec::new() });
                sites.len() - 1
            });
            sites[at].results.resize(place, None);
            sites[at].results.push(Some(assignment));
        }
    }
    sites.sort_by_key(|site| site.number);
    Ok(sites)
}

fn cell(result: Option<&Assignment>) -> String {
    let Some(result) = result else { return "not here".into() };
    let on = result.accuracy_low.zip(result.accuracy_high).zip(result.weight);
    let on = on.map(|((low, high), examples)| MeasuredOn { examples, clients: 1, low, high, worst: None, p10: None });
    match (result.state, result.accuracy) {
        (AssignmentState::Reported, Some(accuracy)) => measured(accuracy, on),
        (AssignmentState::Reported, None) => loss(result.loss),
        (AssignmentState::Assigned, ..) => "at work".into(),
        (state, ..) => result.reason.clone().unwrap_or_else(|| state.to_string()),
    }
}

fn loss(loss: Option<f64>) -> String {
    loss.map_or_else(|| "-".into(), |loss| format!("loss {loss:.4}"))
}
