//! Clients that wait for work below relays, beside the same at one coordinator.
//!
//! There is a job that needs more clients than there are, so nobody is drawn: each client is held, and asks again when
//! that has ended. Memory and processor time of the root, of the busiest relay and of the flat coordinator, each a
//! process.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;
use tributary_protocol::id::Name;
use tributary_protocol::job_file::JobFile;
use tributary_server::net::raise_open_files;

use crate::device::{Connection, check_in_body};
use crate::error::BenchError;
use crate::fleet;
use crate::process::{CoordinatorProcess, Options, database_of, operator_token, population_name};
use crate::relays::branches;
use tributary::error::CliError;
use tributary::output::Output;

/// How long clients ask to be held.
const WAIT_MS: u32 = 60_000;
/// From the start of the last client until the measurement, in which relays tell their parent.
const SETTLE: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, Args)]
pub(crate) struct LobbyArgs {
    /// Clients that wait, spread over the relays.
    #[arg(long, default_value_t = 1_000, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: u32,
    /// Relays below the root.
    #[arg(long, default_value_t = 4, value_name = "RELAYS", value_parser = clap::value_parser!(u32).range(1..=16))]
    relays: u32,
    /// Time of the measurement, in seconds. Clients are held for 60 s at a time.
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    clients: u32,
    relays: u32,
    seconds: u64,
    flat: Cost,
    root: Cost,
    /// The largest of all relays, each figure by itself.
    relay_max: Cost,
}

/// What a process needs.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Cost {
    /// Resident memory before a client waits, and while all do.
    mb_before: f64,
    mb: f64,
    /// Processor time of the measurement, in seconds.
    cpu_s: f64,
}

/// Memory and processor time of a process at a moment.
#[derive(Clone, Copy)]
struct Seen {
    bytes: u64,
    cpu_s: f64,
}

impl Cost {
    fn of([before, began, ended]: [Seen; 3]) -> Self {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        Self { mb_before: mb(before.bytes), mb: mb(ended.bytes), cpu_s: ended.cpu_s - began.cpu_s }
    }

    fn max(self, other: Self) -> Self {
        Self {
            mb_before: self.mb_before.max(other.mb_before),
            mb: self.mb.max(other.mb),
            cpu_s: self.cpu_s.max(other.cpu_s),
        }
    }
}

pub(crate) async fn run(args: &LobbyArgs, output: &Output) -> Result<(), CliError> {
    raise_open_files();
    output.note("a coordinator with all clients");
    let (flat, _) = costs(args, false).await?;
    output.note("relays");
    let (root, relay_max) = costs(args, true).await?;
    let LobbyArgs { clients, relays, seconds } = *args;
    let measured = Measured { clients, relays, seconds, flat, root, relay_max };
    output.object(&measured, || text(&measured))
}

/// Of the coordinator, and the largest of its relays.
async fn costs(args: &LobbyArgs, has_relays: bool) -> Result<(Cost, Cost), CliError> {
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let database = database_of(None, folder.path());
    let options = Options { connections_max: Some(args.clients + 32), ..Options::default() };
    let root = CoordinatorProcess::start_with(&database, &operator_token()?, options).await?;
    let population = population_name()?;
    let of_relay = |number| args.clients / args.relays + u32::from(number < args.clients % args.relays);
    let clients: Vec<u32> = (0..args.relays).map(of_relay).collect();
    let branches = branches(&root, &population, folder.path(), (&clients, has_relays)).await?;
    root.api.create_job(job_file(args, &population)?).await?;
    let seen = || {
        let relays = branches.iter().filter_map(|branch| branch.relay.as_ref());
        let relays = relays.map(|relay| Ok(Seen { bytes: relay.resident_bytes().unwrap_or(0), cpu_s: relay.cpu_s()? }));
        let root = Seen { bytes: root.resident_bytes().unwrap_or(0), cpu_s: root.cpu_s()? };
        std::iter::once(Ok(root)).chain(relays).collect::<Result<Vec<Seen>, CliError>>()
    };
    let before = seen()?;
    let mut waiting = JoinSet::new();
    for branch in &branches {
        for client in &branch.clients {
            let (mut connection, client) = (Connection::open(&branch.server).await?, client.clone());
            waiting.spawn(async move {
                while connection.check_in(&client, &check_in_body(WAIT_MS)).await?.is_none() {}
                Ok::<_, BenchError>(())
            });
        }
    }
    tokio::time::sleep(SETTLE).await;
    let began = seen()?;
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    let ended = seen()?;
    if let Some(one) = waiting.try_join_next() {
        one.map_err(CliError::task)??;
        return Err(BenchError::NotHeld(1).into());
    }
    waiting.shutdown().await;
    let costs = before.into_iter().zip(began).zip(ended);
    let mut costs = costs.map(|((before, began), ended)| Cost::of([before, began, ended]));
    let root = costs.next().unwrap_or_default();
    Ok((root, costs.fold(Cost::default(), Cost::max)))
}

/// A job that needs one client more than there are.
fn job_file(args: &LobbyArgs, population: &Name) -> Result<JobFile, CliError> {
    let goal = args.clients + 1;
    fleet::job_file(&format!(
        "name = 'lobby'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [1000] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         round = {{ updates_goal = {goal}, updates_min = {goal}, over_selection = 1.0, \
         selection_timeout_ms = 86400000, deadline_ms = 3600000 }}\n"
    ))
}

fn text(measured: &Measured) -> String {
    let Measured { clients, relays, seconds, flat, root, relay_max } = measured;
    let line = |name: &str, cost: &Cost| {
        let Cost { mb_before, mb, cpu_s } = cost;
        format!("{name}: {mb:.1} MB of memory ({mb_before:.1} before), {cpu_s:.2} s of processor time")
    };
    format!(
        "{clients} clients that wait for {seconds} s:\n{}\n{}\n{}",
        line("one coordinator", flat),
        line(&format!("the root of {relays} relays"), root),
        line("the busiest relay", relay_max),
    )
}
