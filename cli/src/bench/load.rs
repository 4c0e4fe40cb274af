//! Load: how many check-ins and updates per second one coordinator takes, and what a held client costs it.
//!
//! Generator and coordinator are two processes that share this machine's processors.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use hyper::header::HeaderValue;
use serde::Serialize;
use tokio::task::JoinSet;
use tributary_protocol::id::{Name, Secret};
use tributary_protocol::job_file::JobFile;

use super::device::{Connection, check_in_body};
use super::process::{CoordinatorProcess, operator_token, population_name};
use super::{BenchError, fleet};
use crate::api::JobChange;
use crate::demo::Stopwatch;
use crate::error::CliError;
use crate::output::Output;

/// Files that either process needs beside its connections.
const OTHER_FILES: u64 = 100;
/// How long the clients that deliver updates wait for work, in milliseconds.
const WORK_WAIT_MS: u32 = 10_000;
/// How long held clients ask to be held, in milliseconds.
const HELD_WAIT_MS: u32 = 60_000;
/// Time for the coordinator to come to rest before its memory is looked at.
const SETTLE: Duration = Duration::from_secs(2);
/// Clients that begin to be held at the same time.
const OPENING: usize = 64;

/// Options of `tributary bench load`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// Enrolled clients.
    #[arg(long, default_value_t = 1000, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// Connections that check in and deliver updates at the same time; at most as many as clients.
    #[arg(long, default_value_t = 64, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Check-ins to measure.
    #[arg(long, default_value_t = 50_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    checkins: u32,
    /// Updates to measure.
    #[arg(long, default_value_t = 5_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    updates: u32,
    /// Numbers in the model.
    #[arg(long, default_value_t = 1000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    params: u32,
    /// Clients that are held in long polls while the coordinator's memory is measured.
    #[arg(long, default_value_t = 10_000, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    held: u32,
    /// The database: an empty folder's SQLite file unless given; or postgres://USER@HOST/NAME.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Measured {
    engine: &'static str,
    clients: u32,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    kb_per_held_client: Option<f64>,
}

/// Measures.
///
/// # Errors
/// When the coordinator fails, or this process may not open as many files as connections are asked for.
pub(crate) async fn run(args: &LoadArgs, output: &Output) -> Result<(), CliError> {
    check_open_files(args.held.max(args.connections))?;
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let file = folder.path().join("tributary.db").to_string_lossy().into_owned();
    let database = args.database.clone().unwrap_or(file);
    let operator = operator_token()?;
    let coordinator = CoordinatorProcess::start(&database, &operator).await?;
    let population = population_name()?;
    let token = coordinator.population(&population).await?;

    // One more than is held asks in between.
    let enrolled = args.clients.max(args.held + 1).max(args.connections);
    output.note(&format!("enrolling {enrolled} clients"));
    let server = fleet::address(&coordinator)?;
    let clock = Stopwatch::start();
    let clients: Arc<[HeaderValue]> = fleet::enrol(server, &token, enrolled).await?.into();
    let enrolments_per_s = f64::from(enrolled) / clock.elapsed().as_secs_f64();

    // A job waits for clients that do not exist, so that every check-in is one that could have started a round.
    let waiting = coordinator.api.create_job(waiting_job(&population)?).await?;
    output.note(&format!("{} check-ins", args.checkins));
    let (checkins_per_s, times_ms) = check_ins(args, server, &clients).await?;
    coordinator.api.change_job(waiting.id, JobChange::Stop).await?;

    output.note(&format!("{} updates of {} numbers", args.updates, args.params));
    let training = coordinator.api.create_job(training_job(args, &population)?).await?;
    let updates_per_s = updates(args, server, &clients).await?;
    coordinator.api.change_job(training.id, JobChange::Stop).await?;
    drop(coordinator);

    output.note(&format!("holding {} clients", args.held));
    // A fresh process: what the phases before have left in the allocator would hide what is measured.
    let bytes_per_held = held(args, &database, &operator, &clients).await?;
    let measured = Measured {
        engine: super::engine(&database),
        clients: args.clients,
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
        kb_per_held_client: bytes_per_held.map(|bytes| bytes / 1000.0),
    };
    output.object(&measured, || text(&measured))
}

/// Whether this process, and the one that it starts, may have so many connections.
fn check_open_files(wanted: u32) -> Result<(), BenchError> {
    let needed = u64::from(wanted) + OTHER_FILES;
    // The soft limit counts; where the system has no such file, the connections themselves will tell.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    match open_files_max(&limits) {
        Some(limit) if limit < needed => Err(BenchError::OpenFiles { wanted, needed, limit }),
        _ => Ok(()),
    }
}

/// The soft limit of open files in the text of `/proc/PID/limits`; none when unlimited.
fn open_files_max(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn waiting_job(population: &Name) -> Result<JobFile, CliError> {
    fleet::job_file(&format!(
        "name = 'waiting'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [1] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         eligibility = {{ attributes = {{ nobody = 'has this' }} }}\n\
         round = {{ selection_timeout_ms = 86400000 }}\n"
    ))
}

fn training_job(args: &LoadArgs, population: &Name) -> Result<JobFile, CliError> {
    // Half of the connections: the others check in for the next round meanwhile.
    let (params, goal) = (args.params, (args.connections / 2).max(1));
    fleet::job_file(&format!(
        "name = 'training'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [{params}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         round = {{ updates_goal = {goal}, updates_min = {goal}, over_selection = 1.0 }}\n"
    ))
}

/// Check-ins that are answered at once: how many per second, and how long each took, sorted, in milliseconds.
async fn check_ins(
    args: &LoadArgs,
    server: SocketAddr,
    clients: &Arc<[HeaderValue]>,
) -> Result<(f64, Vec<f64>), CliError> {
    let left = Arc::new(AtomicUsize::new(args.checkins as usize));
    let body = check_in_body(0);
    let clock = Stopwatch::start();
    let mut workers = JoinSet::new();
    for worker in 0..args.connections as usize {
        let (left, clients, body) = (Arc::clone(&left), Arc::clone(clients), body.clone());
        let stride = args.connections as usize;
        workers.spawn(async move {
            let mut connection = Connection::open(server).await?;
            let mut times_ms = Vec::new();
            // Each worker has clients of its own: one checks in once at a time.
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

/// Whole cycles of check-in, assignment and update, with rounds that follow each other: updates per second.
async fn updates(args: &LoadArgs, server: SocketAddr, clients: &Arc<[HeaderValue]>) -> Result<f64, CliError> {
    let left = Arc::new(AtomicUsize::new(args.updates as usize));
    let clock = Stopwatch::start();
    let mut workers = JoinSet::new();
    for worker in 0..args.connections as usize {
        let (left, client) = (Arc::clone(&left), clients[worker].clone());
        workers.spawn(deliver(server, client, left));
    }
    // The first to end has delivered the last update; the others still wait for a round and are cut off.
    if let Some(worker) = workers.join_next().await {
        worker.map_err(|error| CliError::Internal(error.to_string()))??;
    }
    Ok(f64::from(args.updates) / clock.elapsed().as_secs_f64())
}

/// One client that delivers updates until all clients together have delivered enough.
async fn deliver(server: SocketAddr, client: HeaderValue, left: Arc<AtomicUsize>) -> Result<(), CliError> {
    let check_in = check_in_body(WORK_WAIT_MS);
    let mut connection = Connection::open(server).await?;
    let mut body: Option<(u32, Bytes)> = None;
    while left.load(Ordering::Relaxed) > 0 {
        let Some(assignment) = connection.check_in(&client, &check_in).await? else { continue };
        let version = assignment.model_version;
        let update = match body.take() {
            Some((of, update)) if of == version => update,
            _ => fleet::update(&assignment, version.into())?,
        };
        connection.put_update(&client, &assignment, update.clone()).await?;
        body = Some((version, update));
        fleet::take(&left);
    }
    Ok(())
}

/// Memory of the coordinator per held client, in bytes.
async fn held(
    args: &LoadArgs,
    database: &str,
    operator: &Secret,
    clients: &Arc<[HeaderValue]>,
) -> Result<Option<f64>, CliError> {
    let coordinator = CoordinatorProcess::start(database, operator).await?;
    let server = fleet::address(&coordinator)?;
    // What every process needs once is there before it is looked at.
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
        // The coordinator's answer sets the pace, as its retry windows do: what a storm of arrivals leaves in the allocator
        // is not what a held client costs.
        probe.check_in(prober, &check_in_body(0)).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let mut answered = 0;
    while let Some(worker) = waiting.try_join_next() {
        worker.map_err(|error| CliError::Internal(error.to_string()))??;
        answered += 1;
    }
    if answered > 0 {
        return Err(BenchError::NotHeld(answered).into());
    }
    let after = coordinator.resident_bytes().unwrap_or(before);
    Ok(Some(after.saturating_sub(before) as f64 / f64::from(args.held)))
}

/// The value below which such a share of the sorted times lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0.0)
}

fn text(measured: &Measured) -> String {
    let Measured { engine, connections, checkins_per_s, p50_ms, p99_ms, updates_per_s, params, held, .. } = measured;
    let memory =
        measured.kb_per_held_client.map_or_else(String::new, |kb| format!(", {kb:.1} kB per held client of {held}"));
    format!(
        "{engine}, {connections} connections: {checkins_per_s:.0} check-ins/s (p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms), \
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
    fn quantiles_are_of_the_sorted_times() {
        let times: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!((quantile(&times, 0.5), quantile(&times, 0.99), quantile(&[], 0.5)), (50.0, 99.0, 0.0));
    }
}
