//! `tributary demo`: a real coordinator, real clients and real data in one process, over HTTP, into SQLite.

pub mod args;
pub mod attack;
pub mod changes;
pub mod data;
mod fleet;
mod mnist;
mod model;
mod report;
pub mod stragglers;
pub mod synthetic;
pub mod text;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use tributary_client::examples::{IdxShape, MemoryExamples};
use tributary_client::{EvaluateTask, LayerTrainer, Trainer};
use tributary_protocol::download::ModelForm;
use tributary_protocol::job_file::{JobFile, StopPolicy};
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::operator::{Job, PAGE_ITEMS_MAX, PageQuery, Round};
use tributary_protocol::plan::Loss;
use tributary_protocol::safetensors::model_from_bytes;
use tributary_protocol::state::{AssignmentState, Phase, Task};

use crate::api::{Api, collect};
use crate::data::{EVALUATOR, labels};
use crate::error::{CliError, Failure};
use crate::format::{or_dash, percent};
use crate::http;
use crate::job::watch::Follower;
use crate::job::{export, file};
use crate::local::LocalCoordinator;
use crate::output::Output;
use crate::stopwatch::Stopwatch;

use args::{Dataset, DemoArgs};
use attack::Attackers;
use data::DemoData;
use fleet::{Fault, Fleet, Member};
use report::{Report, Start, Summary};

/// Abandoned rounds in a row after which a benchmark ends: a model that diverged never recovers.
const ABANDONED_MAX: u32 = 3;
/// The same where stragglers are dropped. Of ten clients, nine tenths of which straggle, all do in every third round.
const ABANDONED_MAX_DROPPED: u32 = 50;

#[derive(Debug, thiserror::Error)]
enum DemoError {
    /// The demo's clients train only networks that a job file describes.
    #[error("the demo needs a job whose [model] has layers, and examples with one class each")]
    OwnNetwork,
    /// By Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Failure for DemoError {}

/// Runs the demo to its end.
pub async fn run(args: &DemoArgs, output: &Output) -> Result<(), CliError> {
    let clock = Stopwatch::start();
    let file = job_file(args)?;
    let data = load_data(args, &file, output).await?;
    let members = members(args, data)?;

    let folder = tempfile::Builder::new().prefix("tributary-demo-").tempdir();
    let folder = folder.map_err(CliError::file("create", std::env::temp_dir()))?.keep();
    let coordinator = LocalCoordinator::start(args.listen, &folder.join("tributary.db")).await?;
    let enrolment = coordinator.population(&file.population).await?;
    let mut report = Report::new(output, &members);
    report.started(&Start {
        url: coordinator.url.to_string(),
        dashboard_url: coordinator.dashboard_url().to_string(),
        directory: folder.clone(),
        clients: args.clients(),
        cohort: file.round.cohort_size(),
        parameters: file.model.parameters().map_or(0, |parameters| parameters.total()),
        rounds: file.stop.rounds,
        operator_token: coordinator.operator.clone(),
    })?;

    let http = http::client(&coordinator.url, reqwest::redirect::Policy::none()).map_err(CliError::http)?;
    let clients = folder.join("clients");
    let fleet = Fleet::start(&coordinator.address(), &enrolment, &clients, members, threads(args), &http).await?;
    let job = coordinator.api.create_job(file).await?;
    let followed = tokio::select! {
        followed = follow(&coordinator.api, &job, &mut report) => followed,
        _ = tokio::signal::ctrl_c() => Err(DemoError::Interrupted.into()),
    };
    let ended = match followed {
        Ok(job) => finish(&coordinator.api, &job, &folder, &mut report, clock).await,
        Err(error) => Err(error),
    };
    fleet.stop().await;
    // Only the database and the model are kept.
    let _ = std::fs::remove_dir_all(&clients);
    let result = match ended {
        Ok(summary) => report.ended(&summary),
        Err(error) => Err(error),
    };
    if result.is_ok() {
        keep(args, &coordinator, output).await;
        output.note(&format!("the database and the model stay in {}", folder.display()));
    }
    coordinator.stop().await?;
    result
}

/// Keeps the dashboard there for people who have just read the summary.
async fn keep(args: &DemoArgs, coordinator: &LocalCoordinator, output: &Output) {
    let has_keyboard = output.interactive && std::io::stdin().is_terminal();
    if args.no_keep || !(args.keep || has_keyboard) {
        return;
    }
    let how = if has_keyboard { "press Enter to end" } else { "Ctrl-C ends it" };
    output.note(&format!("\nthe dashboard stays at {}; {how}", coordinator.dashboard_url()));
    let (pressed, enter) = tokio::sync::oneshot::channel();
    if has_keyboard {
        // A separate thread: it waits for the keyboard for as long as the process lives, and must keep nothing else.
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_line(&mut String::new());
            let _ = pressed.send(());
        });
    }
    let enter = async {
        if !has_keyboard || enter.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = enter => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

/// What a demo without output learned.
#[derive(Debug)]
pub struct Learned {
    /// The committed training rounds, with the evaluations of their models.
    pub rounds: Vec<Round>,
    /// Parameters of the model.
    pub parameters: usize,
    /// The last model; `None` without a committed round.
    model: Option<Model>,
    spec: ModelSpec,
    /// The training examples of all clients.
    train: MemoryExamples,
}

impl Learned {
    /// Loss of the last model on the training examples of all clients; `None` without a model.
    pub async fn training_loss(self) -> Result<Option<f64>, CliError> {
        let Self { model: Some(model), spec, train, .. } = self else { return Ok(None) };
        let measured = tokio::task::spawn_blocking(move || {
            let task = EvaluateTask::new(&model, &spec, Loss::CrossEntropy);
            LayerTrainer::new(Arc::new(train)).evaluate(&task, &|| false)
        });
        Ok(Some(measured.await.map_err(internal)?.map_err(internal)?.loss))
    }
}

/// Runs the demo without its output.
pub async fn learn(args: &DemoArgs, output: &Output) -> Result<Learned, CliError> {
    let file = job_file(args)?;
    let parameters = file.model.parameters().map_or(0, |parameters| parameters.total());
    let spec = file.model.spec.clone();
    let data = load_data(args, &file, output).await?;
    let train = data.train.clone();
    let members = members(args, data)?;
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let coordinator = LocalCoordinator::start(args.listen, &folder.path().join("tributary.db")).await?;
    let enrolment = coordinator.population(&file.population).await?;
    let http = http::client(&coordinator.url, reqwest::redirect::Policy::none()).map_err(CliError::http)?;
    let clients = folder.path().join("clients");
    let fleet = Fleet::start(&coordinator.address(), &enrolment, &clients, members, threads(args), &http).await?;
    let job = coordinator.api.create_job(file).await?;
    let mut follower = Follower::start(&coordinator.api, job.head.id, PAGE_ITEMS_MAX).await?;
    let drops = args.changes.stragglers.is_some_and(|stragglers| !stragglers.count);
    let abandoned_max = if drops { ABANDONED_MAX_DROPPED } else { ABANDONED_MAX };
    let mut abandoned_in_a_row = 0;
    loop {
        let news = follower.next().await?;
        for round in news.ended.iter().filter(|round| round.task == Task::Train) {
            abandoned_in_a_row = if round.phase == Phase::Abandoned { abandoned_in_a_row + 1 } else { 0 };
        }
        for round in news.ended.iter().filter(|round| round.task == Task::Evaluate) {
            output.note(&format!("round {}: {}", round.number, or_dash(round.accuracy, percent)));
        }
        if news.job.head.state.is_final() {
            break;
        }
        if abandoned_in_a_row >= abandoned_max {
            output.note("the training is given up: its clients diverge, or their updates are refused");
            break;
        }
    }
    fleet.stop().await;
    let rounds_of = |task| {
        let api = &coordinator.api;
        collect(None, async move |page| api.rounds(job.head.id, task, page).await)
    };
    let mut rounds = rounds_of(Task::Train).await?.items;
    let evaluations = rounds_of(Task::Evaluate).await?.items;
    rounds.retain(|round| round.phase == Phase::Committed);
    for evaluation in evaluations {
        if let Some(round) = rounds.iter_mut().find(|round| round.number == evaluation.number) {
            (round.loss, round.accuracy) = (evaluation.loss, evaluation.accuracy);
            round.measured_on = evaluation.measured_on;
        }
    }
    let job = coordinator.api.job(job.head.id).await?;
    let model = match job.head.model_version {
        Some(_) => {
            let version = export::find_version(&coordinator.api, &job, None).await?;
            let path = folder.path().join("model.safetensors");
            export::download(&coordinator.api, job.head.id, &version, ModelForm::F32, &path).await?;
            let bytes = std::fs::read(&path).map_err(CliError::file("read", &path))?;
            Some(model_from_bytes(&bytes).map_err(internal)?)
        }
        None => None,
    };
    coordinator.stop().await?;
    Ok(Learned { rounds, parameters, model, spec, train })
}

fn internal(error: impl std::fmt::Display) -> CliError {
    CliError::Internal(error.to_string())
}

/// The built-in job, or that of --job with the demo's population.
pub fn job_file(args: &DemoArgs) -> Result<JobFile, CliError> {
    let built_in = model::job_file(args);
    let Some(path) = &args.job else { return Ok(built_in) };
    let given = file::read(path)?;
    let rounds = args.rounds.or(given.stop.rounds).unwrap_or(args.rounds());
    Ok(JobFile {
        population: built_in.population,
        seed: given.seed.or(built_in.seed),
        // The demo prints accuracies, so that a job without an evaluation gets the demo's.
        evaluation: given.evaluation.or(built_in.evaluation),
        stop: StopPolicy { rounds: Some(rounds), accuracy: args.target.or(given.stop.accuracy), ..given.stop.clone() },
        ..given
    })
}

/// The examples for a job of the demo.
pub async fn load_data(args: &DemoArgs, file: &JobFile, output: &Output) -> Result<DemoData, CliError> {
    let input_shape = match &file.model.spec {
        ModelSpec::Layers(layered) => layered.input.clone(),
        ModelSpec::Parameters(_) => return Err(DemoError::OwnNetwork.into()),
    };
    match args.dataset {
        Dataset::Digits => {
            // Any network with 64 inputs fits, whatever their shape.
            let shape = if input_shape.iter().product::<usize>() == 64 { input_shape } else { vec![64] };
            Ok(data::digits(&shape, args.seed()))
        }
        Dataset::Mnist => {
            let shape = if input_shape.len() == 1 { IdxShape::Flat } else { IdxShape::Image };
            let files = mnist::original_files();
            Ok(mnist::load(&args.data_dir, &args.mnist_url, &files, shape, |text| output.note(text)).await?)
        }
        Dataset::Synthetic(synthetic) => {
            let generated = synthetic::generate(synthetic, args.clients() as usize, args.seed());
            generated.map_err(internal)
        }
        Dataset::Shakespeare(split) => Ok(text::load(&args.data_dir, split, args.clients() as usize)?),
    }
}

/// The training clients, two of them with a fault, and the evaluator with the held-out examples.
fn members(args: &DemoArgs, data: DemoData) -> Result<Vec<Member>, CliError> {
    let count = args.clients() as usize;
    let split = match data.split {
        Some(split) => split,
        None => {
            let labels = labels(&data.train).ok_or(DemoError::OwnNetwork)?;
            args.partition().split(&labels, count, args.seed().derive("partition", 0))?
        }
    };
    let examples = data::of_clients(&data.train, &split).map_err(internal)?;
    // Clients are enrolled in this order, and the first ones attack: a split by seed gives them any examples.
    let attackers = args.changes.attack.map(|(attack, attackers)| {
        let attackers = count.min(attackers as usize);
        (attackers, Arc::new(Attackers::new(attack, count, examples[..attackers].to_vec())))
    });
    let faulty = |index: usize| match args.has_faults() {
        true if index == count / 4 => Fault::Slow,
        true if index == count / 2 => Fault::Dies,
        _ => Fault::None,
    };
    let member = |(index, examples): (usize, MemoryExamples)| Member {
        name: format!("client-{:02}", index + 1),
        attribute: None,
        examples,
        fault: faulty(index),
        attackers: attackers.iter().find(|(count, _)| index < *count).map(|(_, attackers)| Arc::clone(attackers)),
        stragglers: args.changes.stragglers,
    };
    let evaluator = Member {
        name: "evaluator".into(),
        attribute: Some(EVALUATOR),
        examples: data.test,
        fault: Fault::None,
        attackers: None,
        stragglers: None,
    };
    Ok(examples.into_iter().enumerate().map(member).chain([evaluator]).collect())
}

fn threads(args: &DemoArgs) -> usize {
    match args.threads {
        Some(threads) => threads as usize,
        None => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    }
}

/// Reports each round after it and its evaluation have ended, until the job ends.
async fn follow(api: &Api, job: &Job, report: &mut Report<'_>) -> Result<Job, CliError> {
    let mut follower = Follower::start(api, job.head.id, PAGE_ITEMS_MAX).await?;
    loop {
        let news = follower.next().await?;
        for round in news.ended {
            for round in report.ended_round(round, job.file.evaluation.as_ref()) {
                let stragglers = stragglers(api, job, &round).await?;
                report.round(&round, stragglers)?;
            }
        }
        if news.job.head.state.is_final() {
            return Ok(news.job);
        }
    }
}

/// Numbers of the clients that had not reported when the round closed.
async fn stragglers(api: &Api, job: &Job, round: &Round) -> Result<Vec<u64>, CliError> {
    if round.expired == 0 {
        return Ok(Vec::new());
    }
    let page = PageQuery { limit: Some(PAGE_ITEMS_MAX), after: None };
    let assignments = api.assignments(job.head.id, round.number, Task::Train, page).await?.items;
    let expired = assignments.iter().filter(|assignment| assignment.state == AssignmentState::Expired);
    Ok(expired.map(|assignment| assignment.client_number).collect())
}

/// Writes the model file and makes the summary.
async fn finish(
    api: &Api,
    job: &Job,
    folder: &Path,
    report: &mut Report<'_>,
    clock: Stopwatch,
) -> Result<Summary, CliError> {
    let model = export::find_version(api, job, None).await?;
    let path = folder.join(format!("{}-v{}.safetensors", job.file.name, model.version));
    export::download(api, job.head.id, &model, ModelForm::F32, &path).await?;
    Ok(report.summary(job, path, model.sha256, clock.elapsed()))
}
