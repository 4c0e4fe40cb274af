//! The cost of a round at the root of a tree, beside that of a coordinator with the same clients.
//!
//! Clients train nothing: each downloads the model and sends an update of random values, the same in both. The root and
//! its relays are processes. Bytes are those that the root counts in its rounds; processor time is that of its process,
//! from the first check-in to the commit.

use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::state::Task;
use tributary_protocol::update::Codec;

use crate::aggregate::committed;
use crate::device::{Connection, check_in_body};
use crate::error::BenchError;
use crate::fleet;
use crate::process::{CoordinatorProcess, database_of, operator_token, population_name};
use crate::relays::{Branch, branches};
use tributary::api::collect;
use tributary::error::CliError;
use tributary::options::parse_codec;
use tributary::output::Output;

/// How long clients wait for their assignments.
const WAIT_MS: u32 = 60_000;
/// Rounds before the measured ones, in which files grow and caches fill.
const WARM_UP_ROUNDS: u32 = 1;

#[derive(Clone, Debug, Args)]
pub(crate) struct TreeArgs {
    /// Relays below the root.
    #[arg(long, default_value_t = 3, value_name = "RELAYS", value_parser = clap::value_parser!(u32).range(1..=16))]
    relays: u32,
    /// Clients of each relay.
    #[arg(long, default_value_t = 4, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=64))]
    children: u32,
    /// Parameters of the model.
    #[arg(long, default_value_t = 10_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    parameters: u32,
    /// The codec of the updates: its name, or a JSON object with its settings.
    #[arg(long, default_value = "f32", value_name = "CODEC", value_parser = parse_codec)]
    codec: Codec,
    /// Rounds to measure.
    #[arg(long, default_value_t = 3, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

/// Programs rely on the names of its members. Bytes and seconds are per round.
#[derive(Debug, Serialize)]
struct Measured {
    relays: u32,
    children: u32,
    parameters: u32,
    codec: Codec,
    root_bytes_in: u64,
    root_bytes_out: u64,
    flat_bytes_in: u64,
    flat_bytes_out: u64,
    root_cpu_s: f64,
    flat_cpu_s: f64,
    /// Whether the last versions of both are the same, bit for bit. Codecs that draw numbers draw by the client's seed,
    /// which a relay derives from its own.
    sha256_equal: bool,
}

/// What rounds cost a coordinator, each.
struct Cost {
    bytes_in: u64,
    bytes_out: u64,
    cpu_s: f64,
    sha256: Sha256Hash,
}

pub(crate) async fn run(args: &TreeArgs, output: &Output) -> Result<(), CliError> {
    output.note("a coordinator with all clients");
    let flat = cost(args, false).await?;
    output.note("the root of a tree");
    let root = cost(args, true).await?;
    let measured = Measured {
        relays: args.relays,
        children: args.children,
        parameters: args.parameters,
        codec: args.codec,
        root_bytes_in: root.bytes_in,
        root_bytes_out: root.bytes_out,
        flat_bytes_in: flat.bytes_in,
        flat_bytes_out: flat.bytes_out,
        root_cpu_s: root.cpu_s,
        flat_cpu_s: flat.cpu_s,
        sha256_equal: root.sha256 == flat.sha256,
    };
    output.object(&measured, || text(&measured))
}

async fn cost(args: &TreeArgs, has_relays: bool) -> Result<Cost, CliError> {
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let database = database_of(None, folder.path());
    let root = CoordinatorProcess::start(&database, &operator_token()?).await?;
    let population = population_name()?;
    let clients = vec![args.children; args.relays as usize];
    let branches = branches(&root, &population, folder.path(), (&clients, has_relays)).await?;
    let job = root.api.create_job(job_file(args, &population)?).await?.head.id;
    for round in 0..WARM_UP_ROUNDS {
        play(&branches, round).await?;
        committed(&root, job, round + 1).await?;
    }
    let began = root.cpu_s()?;
    for round in WARM_UP_ROUNDS..WARM_UP_ROUNDS + args.rounds {
        play(&branches, round).await?;
        committed(&root, job, round + 1).await?;
    }
    let cpu_s = (root.cpu_s()? - began) / f64::from(args.rounds);
    let rounds = collect(None, async |page| root.api.rounds(job, Task::Train, page).await).await?.items;
    let measured: Vec<_> = rounds.iter().filter(|round| round.number > WARM_UP_ROUNDS).collect();
    let each = |sum: u64| sum / u64::from(args.rounds);
    let versions = collect(None, async |page| root.api.model_versions(job, page).await).await?.items;
    let last = versions.iter().max_by_key(|version| version.version);
    let last = last.ok_or_else(|| BenchError::Start("it made no model".into()))?;
    Ok(Cost {
        bytes_in: each(measured.iter().map(|round| round.traffic.bytes_up).sum()),
        bytes_out: each(measured.iter().map(|round| round.traffic.bytes_down).sum()),
        cpu_s,
        sha256: last.sha256,
    })
}

/// Plays a round with all clients.
async fn play(branches: &[Branch], round: u32) -> Result<(), CliError> {
    let mut working = JoinSet::new();
    let all = branches.iter().flat_map(|branch| branch.clients.iter().map(|client| (branch.server.clone(), client)));
    for (number, (server, client)) in all.enumerate() {
        let client = client.clone();
        working.spawn(async move {
            let mut connection = Connection::open(&server).await?;
            let limit_s = u64::from(WAIT_MS) / 1000;
            let assignment = connection.check_in(&client, &check_in_body(WAIT_MS)).await?;
            let assignment = assignment.ok_or(BenchError::TooSlow { what: "the drawing of a cohort", limit_s })?;
            connection.fetch_model(&client, &assignment).await?;
            let seed = u64::from(round) << 32 | number as u64;
            let made = assignment.clone();
            let body =
                tokio::task::spawn_blocking(move || fleet::update(&made, seed)).await.map_err(CliError::task)??;
            Ok::<_, CliError>(connection.put_update(&client, &assignment, body).await?)
        });
    }
    while let Some(sent) = working.join_next().await {
        sent.map_err(CliError::task)??;
    }
    Ok(())
}

fn job_file(args: &TreeArgs, population: &Name) -> Result<JobFile, CliError> {
    let (clients, rounds) = (args.relays * args.children, args.rounds + WARM_UP_ROUNDS);
    let parameters = args.parameters;
    let mut file = fleet::job_file(&format!(
        "name = 'tree'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [{parameters}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         round = {{ updates_goal = {clients}, updates_min = {clients}, over_selection = 1.0, deadline_ms = 3600000 }}\n\
         stop = {{ rounds = {rounds} }}\n"
    ))?;
    file.update.codec = args.codec;
    Ok(file)
}

fn text(measured: &Measured) -> String {
    let Measured { relays, children, .. } = measured;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    format!(
        "{relays} relays of {children} clients, a round:\n\
         root: {:.1} MB in, {:.1} MB out, {:.2} s of processor time\n\
         flat: {:.1} MB in, {:.1} MB out, {:.2} s of processor time\n\
         the same model: {}",
        megabytes(measured.root_bytes_in),
        megabytes(measured.root_bytes_out),
        measured.root_cpu_s,
        megabytes(measured.flat_bytes_in),
        megabytes(measured.flat_bytes_out),
        measured.flat_cpu_s,
        measured.sha256_equal,
    )
}
