//! Time to recover: a coordinator whose open round has stored updates is killed and started again.

use std::time::Duration;

use clap::Args;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use hyper::header::HeaderValue;
use serde::Serialize;
use tokio::task::JoinSet;
use tributary_protocol::device::Assignment;
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::Round;
use tributary_protocol::sealed::Sealed;
use tributary_protocol::state::Task;

use crate::device::{Connection, Server, check_in_body};
use crate::error::BenchError;
use crate::fleet;
use crate::process::{CoordinatorProcess, database_of, engine, operator_token, population_name};
use tributary::api::Api;
use tributary::error::CliError;
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// Updates that are sent at the same time.
const SENDERS: usize = 4;
/// How long clients wait for their assignments.
const WAIT_MS: u32 = 60_000;
/// How often the coordinator is asked for its progress.
const POLL: Duration = Duration::from_millis(5);
const RECOVERY_S_MAX: u64 = 300;

#[derive(Clone, Debug, Args)]
pub(crate) struct RecoveryArgs {
    /// Enrolled clients, more than updates.
    #[arg(long, default_value_t = 1000, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    clients: u32,
    /// Stored updates of the open round.
    #[arg(long, default_value_t = 100, value_name = "UPDATES", value_parser = clap::value_parser!(u32).range(1..=9_999))]
    updates: u32,
    /// Parameters of the model.
    #[arg(long, default_value_t = 1_663_370, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    params: u32,
    /// The database, for example postgres://USER@HOST/NAME [default: a SQLite file in an empty folder].
    #[arg(long, value_name = "URL")]
    database: Option<Sealed<String>>,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    engine: &'static str,
    clients: u32,
    updates: u32,
    params: u32,
    update_bytes: u64,
    /// From the start of the process until it listens.
    serving_s: f64,
    /// From the start of the process until the round's sum holds every stored update.
    recovery_s: f64,
}

pub(crate) async fn run(args: &RecoveryArgs, output: &Output) -> Result<(), CliError> {
    if args.updates >= args.clients {
        return Err(CliError::BadSetting("--clients must be more than --updates, so that the round stays open".into()));
    }
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let database = database_of(args.database.as_ref(), folder.path());
    let operator = operator_token()?;
    let coordinator = CoordinatorProcess::start(&database, &operator).await?;
    let population = population_name()?;
    let token = coordinator.population(&population).await?;
    output.note(&format!("enrolling {} clients", args.clients));
    let server = &fleet::server(&coordinator)?;
    let clients = fleet::enrol(server, &token, args.clients).await?;
    let job = coordinator.api.create_job(job_file(args, &population)?).await?.head.id;
    output.note(&format!("storing {} updates of {} parameters", args.updates, args.params));
    let assignments = assigned(server, &clients[..=args.updates as usize]).await?;
    let update_bytes = send(server, assignments, args.updates).await?;
    drop(coordinator);

    let clock = Stopwatch::start();
    let coordinator = CoordinatorProcess::start(&database, &operator).await?;
    let serving = clock.elapsed();
    let round = recovered(&coordinator.api, job, args.updates, clock).await?;
    let recovery = clock.elapsed();
    let measured = Measured {
        engine: engine(database.expose()),
        clients: args.clients,
        updates: round.reported,
        params: args.params,
        update_bytes,
        serving_s: serving.as_secs_f64(),
        recovery_s: recovery.as_secs_f64(),
    };
    output.object(&measured, || text(&measured))
}

/// With one client more than updates, so that the round stays open.
fn job_file(args: &RecoveryArgs, population: &Name) -> Result<JobFile, CliError> {
    let (params, cohort) = (args.params, args.updates + 1);
    fleet::job_file(&format!(
        "name = 'recovery'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [{params}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         round = {{ updates_goal = {cohort}, updates_min = {cohort}, over_selection = 1.0, deadline_ms = 86400000 }}\n"
    ))
}

/// Checks all clients in; returns their assignments.
async fn assigned(server: &Server, clients: &[HeaderValue]) -> Result<Vec<(HeaderValue, Box<Assignment>)>, CliError> {
    let body = check_in_body(WAIT_MS);
    let mut waiting = JoinSet::new();
    for client in clients {
        let (client, body, server) = (client.clone(), body.clone(), server.clone());
        waiting.spawn(async move {
            let mut connection = Connection::open(&server).await?;
            let assignment = connection.check_in(&client, &body).await?;
            let limit_s = u64::from(WAIT_MS) / 1000;
            Ok::<_, BenchError>((
                client,
                assignment.ok_or(BenchError::TooSlow { what: "the drawing of a cohort", limit_s })?,
            ))
        });
    }
    Ok(waiting.join_all().await.into_iter().collect::<Result<_, _>>()?)
}

/// Sends all updates; returns their total size in bytes.
async fn send(
    server: &Server,
    assignments: Vec<(HeaderValue, Box<Assignment>)>,
    updates: u32,
) -> Result<u64, CliError> {
    let sends = assignments.into_iter().zip(0..updates).map(|((client, assignment), number)| async move {
        let body = tokio::task::spawn_blocking({
            let assignment = assignment.clone();
            move || fleet::update(&assignment, number.into())
        });
        let body = body.await.map_err(CliError::task)??;
        let bytes = body.len() as u64;
        let mut connection = Connection::open(server).await?;
        connection.put_update(&client, &assignment, body).await?;
        Ok::<_, CliError>(bytes)
    });
    stream::iter(sends).buffer_unordered(SENDERS).try_fold(0, |sum, bytes| async move { Ok(sum + bytes) }).await
}

/// Waits until the open round's sum holds all updates.
async fn recovered(api: &Api, job: JobId, updates: u32, clock: Stopwatch) -> Result<Round, CliError> {
    while clock.elapsed().as_secs() < RECOVERY_S_MAX {
        let rounds = api.latest_rounds(job, Task::Train, 1).await?;
        if let Some(round) = rounds.into_iter().find(|round| round.reported == updates && round.folded == Some(updates))
        {
            return Ok(round);
        }
        tokio::time::sleep(POLL).await;
    }
    Err(BenchError::TooSlow { what: "the recovery of the round's sum", limit_s: RECOVERY_S_MAX }.into())
}

fn text(measured: &Measured) -> String {
    let Measured { engine, clients, updates, params, serving_s, recovery_s, .. } = measured;
    format!(
        "{engine}, {clients} clients, {updates} stored updates of {params} parameters: \
         serving after {serving_s:.2} s, recovered after {recovery_s:.2} s"
    )
}
