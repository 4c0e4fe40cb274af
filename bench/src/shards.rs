//! The cost of a round whose sum is cut into shards at several coordinators, beside that at one.
//!
//! Coordinators are processes on one PostgreSQL. Clients of the SDK, in this process, train nothing: they add values
//! from a table to the model. Every byte between clients and a coordinator goes through a tap that counts it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tributary_client::{
    AlwaysOn, Client, EvaluateTask, Evaluated, MemoryStore, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::job_file::{JobFile, Shards};
use tributary_protocol::sealed::Sealed;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{Phase, Task};
use tributary_protocol::update::Codec;

use crate::coded::committed;
use crate::error::BenchError;
use crate::fleet;
use crate::process::{CoordinatorProcess, Options, operator_token, population_name};
use tributary::api::collect;
use tributary::error::CliError;
use tributary::options::parse_codec;
use tributary::output::Output;

/// Rounds before the measured ones, in which files grow and caches fill.
const WARM_UP_ROUNDS: u32 = 1;
/// Values of the table from which updates are made.
const TABLE: usize = 1 << 16;
/// Bytes that a tap hands on at a time.
const TAP_BYTES: usize = 256 << 10;

#[derive(Clone, Debug, Args)]
pub(crate) struct ShardsArgs {
    /// Numbers of coordinators, each a run of its own; as many shards. With one, the sum is in one piece.
    #[arg(long, default_value = "1,3", value_delimiter = ',', value_name = "COUNTS", value_parser = clap::value_parser!(u16).range(1..=16))]
    coordinators: Vec<u16>,
    /// Clients; every round selects all of them.
    #[arg(long, default_value_t = 4, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    /// Parameters of the model.
    #[arg(long, default_value_t = 10_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=500_000_000))]
    parameters: u32,
    /// The codec of the updates: its name, or a JSON object with its settings.
    #[arg(long, default_value = "int8", value_name = "CODEC", value_parser = parse_codec)]
    codec: Codec,
    /// Rounds to measure.
    #[arg(long, default_value_t = 2, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// The database of all coordinators, postgres://USER@HOST/NAME.
    #[arg(long, value_name = "URL")]
    database: Sealed<String>,
    /// Where coordinators store bodies, as `serve --blobs` takes it [default: the database].
    #[arg(long, value_name = "PLACE")]
    blobs: Option<String>,
}

/// Programs rely on the names of its members. Seconds and bytes are per round; the maximum is over coordinators.
#[derive(Debug, Serialize)]
struct Measured {
    coordinators: u16,
    /// From the selection of the cohort to the end of the round.
    wall_s: f64,
    rss_max_mb: f64,
    cpu_s_max: f64,
    cpu_s_all: f64,
    /// To and from clients.
    bytes_max: u64,
    /// Of the last version.
    sha256: Sha256Hash,
}

pub(crate) async fn run(args: &ShardsArgs, output: &Output) -> Result<(), CliError> {
    let mut stream = Seed(1).stream();
    let table: Arc<Vec<f32>> = Arc::new((0..TABLE).map(|_| stream.uniform(-0.01, 0.01)).collect());
    for coordinators in &args.coordinators {
        output.note(&format!("{coordinators} coordinators"));
        let measured = measure(args, *coordinators, &table).await?;
        output.object(&measured, || text(&measured))?;
    }
    Ok(())
}

/// A coordinator with the tap in front of it.
struct Node {
    process: CoordinatorProcess,
    tap: Tap,
}

async fn measure(args: &ShardsArgs, coordinators: u16, table: &Arc<Vec<f32>>) -> Result<Measured, CliError> {
    let operator = operator_token()?;
    let mut nodes: Vec<Node> = Vec::new();
    for number in 0..coordinators {
        let (tap, target) = Tap::open().await?;
        let (name, url) = (format!("bench-{coordinators}-{number}"), format!("http://{}", tap.address));
        let options = Options {
            node: Some(&name),
            node_url: (coordinators > 1).then_some(url.as_str()),
            blobs: args.blobs.as_deref(),
            ..Options::default()
        };
        let process = CoordinatorProcess::start_with(&args.database, &operator, options).await?;
        let address = process.url.socket_addrs(|| None).ok().and_then(|addresses| addresses.into_iter().next());
        let lacks = || BenchError::Start(format!("a coordinator serves at {}", process.url));
        let _ = target.send(Some(address.ok_or_else(lacks)?));
        nodes.push(Node { process, tap });
    }
    let population = population_name()?;
    let token = nodes[0].process.population(&population).await?;
    let (mut clients, ended) = (JoinSet::new(), CancellationToken::new());
    for number in 0..args.clients {
        let url = format!("http://{}", nodes[number as usize % nodes.len()].tap.address);
        let client = Client::builder(url, &*token.expose()).store(Arc::new(MemoryStore::new())).build()?;
        client.enrol().await?;
        let (mut adds, ended) = (Adds { client: number, table: Arc::clone(table) }, ended.clone());
        clients.spawn(async move { client.run(&mut adds, &AlwaysOn, ended.cancelled()).await });
    }
    let played = play(args, coordinators, &nodes, &population).await;
    ended.cancel();
    clients.shutdown().await;
    // One that is killed counts as alive for its lease, and the next run would wait for it.
    for node in nodes {
        node.process.stopped().await?;
    }
    played
}

async fn play(args: &ShardsArgs, coordinators: u16, nodes: &[Node], population: &Name) -> Result<Measured, CliError> {
    let api = &nodes[0].process.api;
    let job = api.create_job(job_file(args, coordinators, population)?).await?.head.id;
    committed(&nodes[0].process, job, WARM_UP_ROUNDS).await?;
    let cpu = || nodes.iter().map(|node| node.process.cpu_s()).collect::<Result<Vec<_>, _>>();
    let bytes = || nodes.iter().map(|node| node.tap.bytes.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let (cpu_before, bytes_before) = (cpu()?, bytes());
    committed(&nodes[0].process, job, WARM_UP_ROUNDS + args.rounds).await?;
    let each = f64::from(args.rounds);
    let cpu: Vec<f64> = cpu()?.iter().zip(&cpu_before).map(|(after, before)| (after - before) / each).collect();
    let bytes = bytes().into_iter().zip(bytes_before).map(|(after, before)| (after - before) / u64::from(args.rounds));
    let peaks = nodes.iter().filter_map(|node| node.process.peak_resident_bytes());
    let mut rounds = collect(None, async |page| api.rounds(job, Task::Train, page).await).await?.items;
    rounds.retain(|round| round.phase == Phase::Committed && round.number > WARM_UP_ROUNDS);
    let times_ms = rounds.iter().filter_map(|round| Some(round.ended_at_ms? - round.selected_at_ms?));
    let versions = collect(None, async |page| api.model_versions(job, page).await).await?.items;
    let last = versions.iter().max_by_key(|version| version.version);
    Ok(Measured {
        coordinators,
        wall_s: times_ms.sum::<i64>() as f64 / 1e3 / each,
        rss_max_mb: peaks.max().unwrap_or(0) as f64 / 1e6,
        cpu_s_max: cpu.iter().copied().fold(0.0, f64::max),
        cpu_s_all: cpu.iter().sum(),
        bytes_max: bytes.max().unwrap_or(0),
        sha256: last.ok_or_else(|| BenchError::Start("it made no model".into()))?.sha256,
    })
}

fn job_file(args: &ShardsArgs, coordinators: u16, population: &Name) -> Result<JobFile, CliError> {
    let (clients, parameters, rounds) = (args.clients, args.parameters, args.rounds + WARM_UP_ROUNDS);
    let mut file = fleet::job_file(&format!(
        "name = 'shards'\npopulation = '{population}'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [{parameters}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         round = {{ updates_goal = {clients}, updates_min = {clients}, over_selection = 1.0, deadline_ms = 3600000 }}\n\
         stop = {{ rounds = {rounds} }}\n"
    ))?;
    file.update.codec = args.codec;
    file.aggregation.shards = (coordinators > 1).then_some(Shards::Count(coordinators));
    Ok(file)
}

/// A client that adds values from a table, in an order of its own.
struct Adds {
    client: u32,
    table: Arc<Vec<f32>>,
}

impl Trainer for Adds {
    fn examples(&self) -> u64 {
        1 + u64::from(self.client)
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let (end, begin) = self.table.split_at(self.client as usize * 997 % self.table.len());
        let changes = begin.iter().chain(end).cycle();
        let values = task.model.values().iter().zip(changes).map(|(value, change)| value + change).collect();
        Ok(Trained::new(values, self.examples(), 1, 0.5))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

/// A relay of connections that counts their bytes.
struct Tap {
    address: SocketAddr,
    bytes: Arc<AtomicU64>,
}

impl Tap {
    /// Opens a tap. Its connections wait until the sender has an address for them.
    async fn open() -> Result<(Self, watch::Sender<Option<SocketAddr>>), CliError> {
        let failed = |error: std::io::Error| BenchError::Connection(error.to_string());
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let (address, bytes) = (listener.local_addr().map_err(failed)?, Arc::<AtomicU64>::default());
        let (sender, target) = watch::channel(None);
        let counted = Arc::clone(&bytes);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(hand_on(near, target.clone(), Arc::clone(&counted)));
            }
        });
        Ok((Self { address, bytes }, sender))
    }
}

async fn hand_on(near: TcpStream, mut target: watch::Receiver<Option<SocketAddr>>, bytes: Arc<AtomicU64>) {
    let Some(address) = target.wait_for(Option::is_some).await.ok().and_then(|address| *address) else { return };
    let Ok(far) = TcpStream::connect(address).await else { return };
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    tokio::join!(pump(near_in, far_out, &bytes), pump(far_in, near_out, &bytes));
}

/// Copies until an end is closed, and closes the other one.
async fn pump(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, bytes: &AtomicU64) {
    let mut buffer = vec![0; TAP_BYTES];
    while let Ok(count) = from.read(&mut buffer).await {
        bytes.fetch_add(count as u64, Ordering::Relaxed);
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

fn text(measured: &Measured) -> String {
    let Measured { coordinators, wall_s, rss_max_mb, cpu_s_max, cpu_s_all, bytes_max, sha256 } = measured;
    let megabytes = *bytes_max as f64 / 1e6;
    format!(
        "{coordinators} coordinators: {wall_s:.2} s a round\n\
         the busiest: {rss_max_mb:.0} MB of memory, {cpu_s_max:.2} s of processor time, {megabytes:.1} MB; \
         all: {cpu_s_all:.2} s\n\
         model {sha256}"
    )
}
