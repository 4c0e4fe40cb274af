//! The cost of a round of large updates: wall time, processor time and memory of a coordinator in a separate process.
//!
//! Clients train nothing: each downloads the model, and after the last download all send the same bytes at once.
//! Processor time per update is that of the process from the first byte sent to the last acknowledgement. Three
//! yardsticks of the same run stand beside it: a second coordinator that adds updates only at the commit, one copy of
//! such a body in memory, and a process that receives it and discards it. The two coordinators take turns, so that a
//! slow disk affects both. With
//! --database there is no second coordinator.

use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use hyper::header::HeaderValue;
use serde::Serialize;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tributary_protocol::device::Assignment;
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::job_file::{Combine, JobFile, Privacy, ServerOptimizer};
use tributary_protocol::sealed::Sealed;
use tributary_protocol::state::{Phase, Task};
use tributary_protocol::update::Codec;

use crate::device::{Connection, Server, check_in_body};
use crate::error::BenchError;
use crate::fleet;
use crate::process::{CoordinatorProcess, Options, database_of, engine, operator_token, population_name};
use crate::sink::SinkProcess;
use tributary::api::collect;
use tributary::error::CliError;
use tributary::options::{parse_codec, parse_named};
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// How long clients wait for their assignments.
const WAIT_MS: u32 = 60_000;
/// Rounds before the measured ones, in which files grow and caches fill.
const WARM_UP_ROUNDS: u32 = 1;
/// Copies of a body; the fastest counts.
const COPIES: u32 = 10;

#[derive(Clone, Debug, Args)]
pub(crate) struct AggregateArgs {
    /// Clients; every round selects all of them.
    #[arg(long, default_value_t = 8, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Parameters of the model.
    #[arg(long, default_value_t = 10_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=500_000_000))]
    params: u32,
    /// The codec of the updates: its name, or a JSON object with its settings.
    #[arg(long, default_value = "f32", value_name = "CODEC", value_parser = parse_codec)]
    codec: Codec,
    /// A rule of `[aggregation] combine`: its name (median), or a JSON object with its settings. Rules without a
    /// running sum have no second coordinator to compare with.
    #[arg(long, default_value = "weighted_mean", value_name = "RULE", value_parser = parse_named::<Combine>)]
    combine: Combine,
    /// A server optimiser: its kind (adam), or a JSON object with its settings.
    #[arg(long, value_name = "OPTIMIZER", value_parser = parse_optimizer)]
    optimizer: Option<ServerOptimizer>,
    /// The `[privacy]` of the job, as a JSON object. It needs --combine uniform_mean.
    #[arg(long, value_name = "TABLE", value_parser = parse_privacy)]
    privacy: Option<Privacy>,
    /// Rounds to measure.
    #[arg(long, default_value_t = 5, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// The database, for example postgres://USER@HOST/NAME [default: a SQLite file in an empty folder].
    #[arg(long, value_name = "URL")]
    database: Option<Sealed<String>>,
    /// Where the coordinator stores bodies, as `serve --blobs` takes it [default: that of `serve`].
    #[arg(long, value_name = "PLACE")]
    blobs: Option<String>,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    engine: &'static str,
    codec: Codec,
    combine: Combine,
    optimizer: ServerOptimizer,
    clients: u32,
    params: u32,
    rounds: u32,
    /// From the selection of the cohort to the end of the round.
    round_ms_p50: f64,
    /// Processor time of the coordinator for a round: downloads, updates, the new model.
    server_cpu_s_per_round: f64,
    /// Processor time of the coordinator to receive, check, store, acknowledge and fold one update.
    server_cpu_s_per_update: f64,
    server_peak_rss_mb: f64,
    /// In models of 4 bytes per parameter.
    server_peak_rss_models: f64,
    /// Size of the body.
    bytes_up_per_update: u64,
    /// To copy a body in warm memory, on one core.
    memcpy_s: f64,
    /// Processor time of a process that receives a body and discards it.
    socket_cpu_s_per_update: f64,
}

/// A measured coordinator with its clients.
struct Bench {
    coordinator: CoordinatorProcess,
    server: Server,
    clients: Vec<HeaderValue>,
    job: JobId,
    costs: Vec<RoundCost>,
    /// The update that every client sent.
    body: Bytes,
    _folder: tempfile::TempDir,
}

struct RoundCost {
    cpu_s: f64,
    updates_cpu_s: f64,
}

pub(crate) async fn run(args: &AggregateArgs, output: &Output) -> Result<(), CliError> {
    let mut bench = Bench::start(args).await?;
    for round in 0..WARM_UP_ROUNDS + args.rounds {
        output.note(&format!("round {} of {}", round + 1, WARM_UP_ROUNDS + args.rounds));
        bench.play(round).await?;
    }
    let clients = f64::from(args.clients);
    let peak_bytes = bench.coordinator.peak_resident_bytes();
    let peak_bytes = peak_bytes.ok_or_else(|| BenchError::Start("no /proc to read".into()))?;
    let measured = Measured {
        engine: args.database.as_ref().map_or("sqlite", |database| engine(database.expose())),
        codec: args.codec,
        combine: args.combine,
        optimizer: args.optimizer.unwrap_or_default(),
        clients: args.clients,
        params: args.params,
        rounds: args.rounds,
        round_ms_p50: bench.round_ms_p50().await?,
        server_cpu_s_per_round: bench.median(|cost| cost.cpu_s),
        server_cpu_s_per_update: bench.median(|cost| cost.updates_cpu_s) / clients,
        server_peak_rss_mb: peak_bytes as f64 / 1e6,
        server_peak_rss_models: peak_bytes as f64 / (4.0 * f64::from(args.params)),
        bytes_up_per_update: bench.body.len() as u64,
        memcpy_s: copy_s(&bench.body),
        socket_cpu_s_per_update: SinkProcess::measure(&bench.body, args.clients).await?,
    };
    output.object(&measured, || text(&measured))
}

impl Bench {
    async fn start(args: &AggregateArgs) -> Result<Self, CliError> {
        let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
        let database = database_of(args.database.as_ref(), folder.path());
        let operator = operator_token()?;
        let options = Options { blobs: args.blobs.as_deref(), ..Options::default() };
        let coordinator = CoordinatorProcess::start_with(&database, &operator, options).await?;
        let population = population_name()?;
        let token = coordinator.population(&population).await?;
        let server = fleet::server(&coordinator)?;
        let clients = fleet::enrol(&server, &token, args.clients).await?;
        let job = coordinator.api.create_job(job_file(args, &population)?).await?.head.id;
        Ok(Self { coordinator, server, clients, job, costs: Vec::new(), body: Bytes::new(), _folder: folder })
    }

    async fn play(&mut self, round: u32) -> Result<(), CliError> {
        let (cost, body) = one_round(&self.coordinator, &self.server, &self.clients, self.job, round).await?;
        if round >= WARM_UP_ROUNDS {
            self.costs.push(cost);
        }
        self.body = body;
        Ok(())
    }

    fn median(&self, of: fn(&RoundCost) -> f64) -> f64 {
        median(self.costs.iter().map(of).collect())
    }

    /// From the selection of the cohort to the end of the round.
    async fn round_ms_p50(&self) -> Result<f64, CliError> {
        let page = async |page| self.coordinator.api.rounds(self.job, Task::Train, page).await;
        let rounds = collect(None, page).await?.items;
        let measured = rounds.iter().skip(WARM_UP_ROUNDS as usize).filter(|round| round.phase == Phase::Committed);
        Ok(median(measured.filter_map(|round| Some((round.ended_at_ms? - round.selected_at_ms?) as f64)).collect()))
    }
}

/// The upper median; 0 without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn job_file(args: &AggregateArgs, population: &Name) -> Result<JobFile, CliError> {
    let AggregateArgs { clients, params, .. } = args;
    let rounds = args.rounds + WARM_UP_ROUNDS;
    let mut file = fleet::job_file(&format!(
        "name = 'aggregate'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [{params}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         round = {{ updates_goal = {clients}, updates_min = {clients}, over_selection = 1.0, deadline_ms = 86400000 }}\n\
         stop = {{ rounds = {rounds} }}\n"
    ))?;
    file.update.codec = args.codec;
    file.aggregation.combine = args.combine;
    file.aggregation.optimizer = args.optimizer.unwrap_or_default();
    file.privacy = args.privacy.clone();
    Ok(file)
}

fn parse_optimizer(text: &str) -> Result<ServerOptimizer, String> {
    match text.starts_with('{') {
        true => serde_json::from_str(text),
        false => serde_json::from_value(serde_json::json!({ "kind": text })),
    }
    .map_err(|error| format!("no such optimiser: {error}"))
}

fn parse_privacy(text: &str) -> Result<Privacy, String> {
    serde_json::from_str(text).map_err(|error| format!("no such [privacy]: {error}"))
}

/// Plays one round; returns its cost and the body that every client sent.
async fn one_round(
    coordinator: &CoordinatorProcess,
    server: &Server,
    clients: &[HeaderValue],
    job: JobId,
    round: u32,
) -> Result<(RoundCost, Bytes), CliError> {
    let began = coordinator.cpu_s()?;
    let mut working = JoinSet::new();
    let fetched = Arc::new(Barrier::new(clients.len() + 1));
    let (body_sender, body_receiver) = tokio::sync::watch::channel(Bytes::new());
    let (assignment_sender, mut assignments) = tokio::sync::mpsc::channel(clients.len());
    for client in clients {
        let (client, fetched, server) = (client.clone(), Arc::clone(&fetched), server.clone());
        let (assignment_sender, mut body_receiver) = (assignment_sender.clone(), body_receiver.clone());
        working.spawn(async move {
            let mut connection = Connection::open(&server).await?;
            let limit_s = u64::from(WAIT_MS) / 1000;
            let assignment = connection.check_in(&client, &check_in_body(WAIT_MS)).await?;
            let assignment = assignment.ok_or(BenchError::TooSlow { what: "the drawing of a cohort", limit_s })?;
            connection.fetch_model(&client, &assignment).await?;
            let _ = assignment_sender.send(assignment.clone()).await;
            fetched.wait().await;
            let body = body_receiver.wait_for(|body| !body.is_empty()).await;
            let body = body.map_err(|_| BenchError::Connection("the benchmark ended".into()))?.clone();
            connection.put_update(&client, &assignment, body).await
        });
    }
    drop(assignment_sender);
    let assignment: Box<Assignment> = match assignments.recv().await {
        Some(assignment) => assignment,
        // All clients failed. The first error is returned.
        None => return Err(failure(&mut working).await),
    };
    let encoded = tokio::task::spawn_blocking(move || fleet::update(&assignment, round.into()));
    let body = encoded.await.map_err(CliError::task)??;
    tokio::select! {
        _ = fetched.wait() => {}
        error = failure(&mut working) => return Err(error),
    }
    let before = coordinator.cpu_s()?;
    let _ = body_sender.send(body.clone());
    while let Some(sent) = working.join_next().await {
        sent.map_err(CliError::task)??;
    }
    let after = coordinator.cpu_s()?;
    committed(coordinator, job, round + 1).await?;
    Ok((RoundCost { cpu_s: coordinator.cpu_s()? - began, updates_cpu_s: after - before }, body))
}

/// The first error of the clients. Without an error it never returns.
async fn failure(working: &mut JoinSet<Result<(), BenchError>>) -> CliError {
    while let Some(sent) = working.join_next().await {
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error.into(),
            Err(error) => return CliError::Internal(error.to_string()),
        }
    }
    std::future::pending().await
}

/// Waits until a round is committed.
pub(crate) async fn committed(coordinator: &CoordinatorProcess, job: JobId, number: u32) -> Result<(), CliError> {
    const COMMIT_S_MAX: u64 = 300;
    const POLL: std::time::Duration = std::time::Duration::from_millis(5);
    let clock = Stopwatch::start();
    while clock.elapsed().as_secs() < COMMIT_S_MAX {
        let rounds = coordinator.api.latest_rounds(job, Task::Train, 2).await?;
        if rounds.iter().any(|round| round.number == number && round.phase == Phase::Committed) {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    Err(BenchError::TooSlow { what: "the commit of a round", limit_s: COMMIT_S_MAX }.into())
}

/// The time of the fastest copy of a body into warm memory.
fn copy_s(body: &Bytes) -> f64 {
    let mut copy = vec![0u8; body.len()];
    let fastest = (0..COPIES).map(|_| {
        let clock = Stopwatch::start();
        copy.copy_from_slice(std::hint::black_box(body));
        std::hint::black_box(&copy);
        clock.elapsed().as_secs_f64()
    });
    fastest.fold(f64::INFINITY, f64::min)
}

/// The rule as a job file has it.
fn name(combine: Combine) -> String {
    match serde_json::json!(combine) {
        serde_json::Value::String(name) => name,
        table => table.to_string(),
    }
}

fn text(measured: &Measured) -> String {
    let Measured { engine, codec, clients, params, rounds, round_ms_p50, bytes_up_per_update, .. } = measured;
    let Measured { server_cpu_s_per_round, server_cpu_s_per_update, memcpy_s, socket_cpu_s_per_update, .. } = measured;
    format!(
        "{engine}, {rounds} rounds of {clients} clients, {params} parameters, {codec}, {}: {bytes_up_per_update} bytes an update\n\
         round p50 {round_ms_p50} ms; processor {server_cpu_s_per_round:.3} s a round, {server_cpu_s_per_update:.4} s an update\n\
         (a copy takes {memcpy_s:.4} s, the socket alone {socket_cpu_s_per_update:.4} s)\n\
         peak memory {:.0} MB, {:.1} models",
        name(measured.combine),
        measured.server_peak_rss_mb,
        measured.server_peak_rss_models,
    )
}
