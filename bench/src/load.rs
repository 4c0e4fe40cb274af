//! Load: check-ins and updates per second of one coordinator, and its memory per held client.
//!
//! Generator and coordinator are two processes that share this machine's processors. With several jobs, each has a
//! population of its own, and clients and connections are spread evenly over the jobs. A round takes half of its job's
//! connections, at least one, so that more jobs mean smaller rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use hyper::header::HeaderValue;
use serde::Serialize;
use tokio::task::JoinSet;
use tributary_protocol::id::{JobId, Name, Secret};
use tributary_protocol::job_file::JobFile;
use tributary_protocol::sealed::Sealed;
use tributary_server::net::raise_open_files;

use crate::device::{Connection, Server, check_in_body};
use crate::error::BenchError;
use crate::fleet;
use crate::populations::{self, Populations};
use crate::process::{CoordinatorProcess, Options, database_of, engine, operator_token};
use crate::quantile::quantile;
use tributary::error::CliError;
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// Files that each process needs beside its connections.
const OTHER_FILES: u64 = 100;
/// How long a client that delivers updates waits for an assignment.
const WORK_WAIT_MS: u32 = 10_000;
/// How long the held clients ask to be held.
const HELD_WAIT_MS: u32 = 60_000;
/// Pause before the coordinator's memory is read.
const SETTLE: Duration = Duration::from_secs(2);
/// Held clients that check in at the same time.
const OPENING: usize = 64;

#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// Enrolled clients, rounded up to a multiple of --jobs.
    #[arg(long, default_value_t = 1000, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Jobs that are live at the same time, each in a population of its own. A round takes half of its job's
    /// connections, at least one.
    #[arg(long, default_value_t = 1, value_name = "JOBS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    jobs: u32,
    /// Connections that check in and deliver updates at the same time.
    #[arg(long, default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Check-ins to measure.
    #[arg(long, default_value_t = 50_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    checkins: u32,
    /// Updates to measure.
    #[arg(long, default_value_t = 5_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    updates: u32,
    /// Parameters of the model.
    #[arg(long, default_value_t = 1000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    params: u32,
    /// Clients that are held in long polls while the coordinator's memory is measured.
    #[arg(long, default_value_t = 10_000, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    held: u32,
    /// The database, for example postgres://USER@HOST/NAME [default: a SQLite file in an empty folder].
    #[arg(long, value_name = "URL")]
    database: Option<Sealed<String>>,
    /// The coordinator serves with TLS. Connections resume sessions where they can.
    #[arg(long)]
    tls: bool,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    engine: &'static str,
    clients: u32,
    jobs: u32,
    connections: u32,
    enrolments_per_s: f64,
    checkins: u32,
    checkins_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    updates: u32,
    params: u32,
    updates_per_s: f64,
    held: u32,
    tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    kb_per_held_client: Option<f64>,
}

pub(crate) async fn run(args: &LoadArgs, output: &Output) -> Result<(), CliError> {
    raise_open_files();
    check_open_files(args.held.max(args.connections))?;
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let database = database_of(args.database.as_ref(), folder.path());
    let operator = operator_token()?;
    let options = Options {
        // Some of OTHER_FILES are for connections of the API and for the probe.
        connections_max: Some(args.held.max(args.connections) + 32),
        tls: args.tls.then_some(folder.path()),
        ..Options::default()
    };
    let coordinator = CoordinatorProcess::start_with(&database, &operator, options).await?;
    let populations = Populations::create(&coordinator, args.jobs).await?;

    // One client more than are held, to probe.
    let enrolled = args.clients.max(args.held + 1).max(args.connections).next_multiple_of(args.jobs);
    output.note(&format!("enrolling {enrolled} clients"));
    let server = &fleet::server(&coordinator)?;
    let clock = Stopwatch::start();
    let clients: Arc<[HeaderValue]> = populations.enrol(server, enrolled / args.jobs).await?.into();
    let enrolments_per_s = f64::from(enrolled) / clock.elapsed().as_secs_f64();

    // These jobs wait for clients that do not exist, so that every check-in is considered for a round.
    let waiting = populations.create_jobs(&coordinator, waiting_job).await?;
    output.note(&format!("{} check-ins", args.checkins));
    let (checkins_per_s, times_ms) = check_ins(args, server, &clients).await?;
    populations::stop_jobs(&coordinator, &waiting).await?;

    output.note(&format!("{} updates of {} parameters", args.updates, args.params));
    let training = populations.create_jobs(&coordinator, |population| training_job(args, population)).await?;
    let updates_per_s = updates(args, server, &clients).await?;
    populations::stop_jobs(&coordinator, &training).await?;
    drop(coordinator);

    output.note(&format!("holding {} clients", args.held));
    // In a new process, because memory that the allocator kept from the earlier phases would hide the difference.
    let bytes_per_held = held(args, &database, &operator, options, &clients).await?;
    let measured = Measured {
        engine: engine(database.expose()),
        clients: args.clients,
        jobs: args.jobs,
        connections: args.connections,
        enrolments_per_s,
        checkins: args.checkins,
        checkins_per_s,
        p50_ms: quantile(&times_ms, 0.5),
        p99_ms: quantile(&times_ms, 0.99),
        updates: args.updates,
        params: args.params,
        updates_per_s,
        held: args.held,
        tls: args.tls,
        kb_per_held_client: bytes_per_held.map(|bytes| bytes / 1000.0),
    };
    output.object(&measured, || text(&measured))
}

/// Whether this process, and the one that it starts, may open this many connections.
fn check_open_files(wanted: u32) -> Result<(), BenchError> {
    let needed = u64::from(wanted) + OTHER_FILES;
    // Without this file, as on macOS, the connections themselves show whether the limit is too low.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    match open_files_max(&limits) {
        Some(limit) if limit < needed => Err(BenchError::OpenFiles { wanted, needed, limit }),
        _ => Ok(()),
    }
}

/// The soft limit of open files in the text of `/proc/PID/limits`; `None` when unlimited.
fn open_files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

pub(crate) fn waiting_job(population: &Name) -> Result<JobFile, CliError> {
    fleet::job_file(&format!(
        "name = 'waiting'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [1] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         eligibility = {{ attributes = {{ nobody = 'has this' }} }}\n\
         round = {{ selection_timeout_ms = 86400000 }}\n"
    ))
}

fn training_job(args: &LoadArgs, population: &Name) -> Result<JobFile, CliError> {
    // Half of the job's connections, so that the others can check in for the next round meanwhile.
    let (params, goal) = (args.params, (args.connections / args.jobs / 2).max(1));
    fleet::job_file(&format!(
        "name = 'training'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [{params}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         round = {{ updates_goal = {goal}, updates_min = {goal}, over_selection = 1.0 }}\n"
    ))
}

/// Check-ins that are answered at once. Returns their rate per second and their sorted times in milliseconds.
async fn check_ins(
    args: &LoadArgs,
    server: &Server,
    clients: &Arc<[HeaderValue]>,
) -> Result<(f64, Vec<f64>), CliError> {
    let left = Arc::new(AtomicUsize::new(args.checkins as usize));
    let body = check_in_body(0);
    let clock = Stopwatch::start();
    let mut workers = JoinSet::new();
    for worker in 0..args.connections as usize {
        let (left, clients, body, server) = (Arc::clone(&left), Arc::clone(clients), body.clone(), server.clone());
        let stride = args.connections as usize;
        workers.spawn(async move {
            let mut connection = Connection::open(&server).await?;
            let mut times_ms = Vec::new();
            // Each worker has clients of its own, because a client may have one check-in at a time.
            let own = (worker..clients.len()).step_by(stride).cycle();
            for client in own {
                if !fleet::take(&left) {
                    break;
                }
                let clock = Stopwatch::start();
                connection.check_in(&clients[client], &body).await?;
                times_ms.push(clock.elapsed().as_secs_f64() * 1000.0);
            }
            Ok::<_, BenchError>(times_ms)
        });
    }
    let mut times_ms = Vec::with_capacity(args.checkins as usize);
    for times in workers.join_all().await {
        times_ms.extend(times?);
    }
    let per_s = f64::from(args.checkins) / clock.elapsed().as_secs_f64();
    times_ms.sort_by(f64::total_cmp);
    Ok((per_s, times_ms))
}

/// Cycles of check-in, assignment and update in rounds that follow each other. Returns the updates per second.
async fn updates(args: &LoadArgs, server: &Server, clients: &Arc<[HeaderValue]>) -> Result<f64, CliError> {
    let left = Arc::new(AtomicUsize::new(args.updates as usize));
    let clock = Stopwatch::start();
    let mut workers = JoinSet::new();
    for worker in 0..args.connections as usize {
        let own = own_clients(worker, args).map(|client| clients[client].clone());
        workers.spawn(deliver(server.clone(), own.collect(), Arc::clone(&left)));
    }
    // The first worker to end has delivered the last update. The others still wait for a round and are aborted.
    if let Some(worker) = workers.join_next().await {
        worker.map_err(CliError::task)??;
    }
    Ok(f64::from(args.updates) / clock.elapsed().as_secs_f64())
}

/// The clients that a worker plays: one, or with more jobs than connections one of each of its jobs.
fn own_clients(worker: usize, args: &LoadArgs) -> impl Iterator<Item = usize> + use<> {
    let (jobs, connections) = (args.jobs as usize, args.connections as usize);
    (worker..jobs.max(connections)).step_by(connections)
}

/// Delivers updates of these clients in turn, until all workers together have delivered enough.
async fn deliver(server: Server, clients: Vec<HeaderValue>, left: Arc<AtomicUsize>) -> Result<(), CliError> {
    let check_in = check_in_body(WORK_WAIT_MS);
    let mut connection = Connection::open(&server).await?;
    let mut body: Option<((JobId, u32), Bytes)> = None;
    for client in clients.iter().cycle() {
        if left.load(Ordering::Relaxed) == 0 {
            break;
        }
        let Some(assignment) = connection.check_in(client, &check_in).await? else { continue };
        let version = (assignment.job, assignment.model_version);
        let update = match body.take() {
            Some((of, update)) if of == version => update,
            _ => fleet::update(&assignment, assignment.model_version.into())?,
        };
        connection.put_update(client, &assignment, update.clone()).await?;
        body = Some((version, update));
        fleet::take(&left);
    }
    Ok(())
}

/// Memory of the coordinator per held client, in bytes.
async fn held(
    args: &LoadArgs,
    database: &Sealed<String>,
    operator: &Secret,
    options: Options<'_>,
    clients: &Arc<[HeaderValue]>,
) -> Result<Option<f64>, CliError> {
    let coordinator = CoordinatorProcess::start_with(database, operator, options).await?;
    let server = &fleet::server(&coordinator)?;
    // Check-ins before the first reading let the process allocate what it needs once.
    let warm_up = LoadArgs { checkins: args.connections * 10, ..args.clone() };
    check_ins(&warm_up, server, clients).await?;
    let Some(before) = coordinator.resident_bytes().filter(|_| args.held > 0) else { return Ok(None) };

    let body = check_in_body(HELD_WAIT_MS);
    let mut waiting = JoinSet::new();
    let mut probe = Connection::open(server).await?;
    let (prober, held) = clients.split_last().ok_or_else(|| CliError::Internal("there are no clients".into()))?;
    for group in held[..args.held as usize].chunks(OPENING) {
        for client in group {
            let mut connection = Connection::open(server).await?;
            let (client, body) = (client.clone(), body.clone());
            waiting.spawn(async move { connection.check_in(&client, &body).await });
        }
        // The next group waits for an answer, as clients wait for their retry windows. A burst of arrivals would leave
        // memory in the allocator that no held client needs.
        probe.check_in(prober, &check_in_body(0)).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let mut answered = 0;
    while let Some(worker) = waiting.try_join_next() {
        worker.map_err(CliError::task)??;
        answered += 1;
    }
    if answered > 0 {
        return Err(BenchError::NotHeld(answered).into());
    }
    let after = coordinator.resident_bytes().unwrap_or(before);
    Ok(Some(after.saturating_sub(before) as f64 / f64::from(args.held)))
}

fn text(measured: &Measured) -> String {
    let Measured { engine, connections, checkins_per_s, p50_ms, p99_ms, updates_per_s, params, held, .. } = measured;
    let tls = if measured.tls { "TLS, " } else { "" };
    let jobs = if measured.jobs > 1 { format!("{} jobs, ", measured.jobs) } else { String::new() };
    let memory =
        measured.kb_per_held_client.map_or_else(String::new, |kb| format!(", {kb:.1} kB per held client of {held}"));
    format!(
        "{engine}, {tls}{jobs}{connections} connections: {checkins_per_s:.0} check-ins/s (p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms), \
         {updates_per_s:.0} updates/s of {params} parameters{memory}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_read_from_the_systems_table() {
        let table = "Limit                     Soft Limit           Hard Limit           Units\n\
                     Max open files            1024                 20000                files\n";
        assert_eq!(open_files_max(table), Some(1024));
        assert_eq!(open_files_max("Max open files            unlimited            unlimited            files\n"), None);
        assert_eq!(open_files_max(""), None);
    }

    #[test]
    fn every_job_is_played_and_no_client_by_two_workers() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            load: LoadArgs,
        }
        for (jobs, connections) in [(1, 64), (2, 5), (64, 64), (200, 64)] {
            let words = ["load".to_owned(), format!("--jobs={jobs}"), format!("--connections={connections}")];
            let args = <Line as clap::Parser>::parse_from(words).load;
            let played: Vec<usize> = (0..connections).flat_map(|worker| own_clients(worker, &args)).collect();
            let distinct: std::collections::BTreeSet<usize> = played.iter().copied().collect();
            assert_eq!((distinct.len(), played.len()), (jobs.max(connections), jobs.max(connections)));
            assert!((0..jobs).all(|job| played.iter().any(|client| client % jobs == job)));
        }
    }
}
