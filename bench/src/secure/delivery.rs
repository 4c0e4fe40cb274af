//! How long the members of a group need over slow lines, beside plain uploads of as many bytes.
//!
//! Each client has a line of its own to a coordinator in a separate process. Nobody trains: time counts from when the
//! last client has its model until the last one knows that its update counts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tributary::api::collect;
use tributary::error::CliError;
use tributary::output::Output;
use tributary_client::{
    AlwaysOn, Client, EvaluateTask, Evaluated, MemoryStore, Outcome, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::Task;

use crate::aggregate::committed;
use crate::error::BenchError;
use crate::fleet;
use crate::line::{Line, Shape};
use crate::process::{CoordinatorProcess, cpu_s, database_of, operator_token, population_name};

/// How long the clients of a group may take for all.
const LIMIT_S: u64 = 600;
/// Largest change of a value.
const CHANGE: f32 = 1e-3;

#[derive(Clone, Debug, Args)]
pub(crate) struct SecureLineArgs {
    /// Members of the group.
    #[arg(long, default_value_t = 128, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(3..=256))]
    members: u32,
    /// Parameters of the model.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    parameters: u32,
    /// Time to the coordinator and back, in milliseconds.
    #[arg(long, default_value_t = 80, value_name = "MILLISECONDS")]
    rtt: u64,
    /// Megabits a second of each client's line, in each direction.
    #[arg(long, default_value_t = 10.0, value_name = "NUMBER")]
    mbit: f64,
}

/// Programs rely on the names of its members. Bytes are those of one member.
#[derive(Debug, Serialize)]
struct Measured {
    members: u32,
    parameters: u32,
    rtt_ms: u64,
    mbit_s: f64,
    bytes_up: u64,
    masked_s: f64,
    /// Processor time of all clients together, which share this machine.
    masked_clients_cpu_s: f64,
    /// Peak memory of the coordinator.
    masked_peak_mb: f64,
    plain_bytes_up: u64,
    plain_s: f64,
    plain_clients_cpu_s: f64,
    plain_peak_mb: f64,
}

/// What the delivery of all updates of a round came to.
struct Delivered {
    /// Of one client.
    bytes_up: u64,
    took_s: f64,
    cpu_s: f64,
    peak_mb: f64,
}

pub(crate) async fn run(args: &SecureLineArgs, output: &Output) -> Result<(), CliError> {
    output.note("a group whose updates are masked");
    let masked = delivered(args, args.parameters, true).await?;
    output.note("plain updates");
    // Of four bytes a parameter.
    let parameters = u32::try_from(masked.bytes_up / 4).unwrap_or(u32::MAX);
    let plain = delivered(args, parameters, false).await?;
    let measured = Measured {
        members: args.members,
        parameters: args.parameters,
        rtt_ms: args.rtt,
        mbit_s: args.mbit,
        bytes_up: masked.bytes_up,
        masked_s: masked.took_s,
        masked_clients_cpu_s: masked.cpu_s,
        masked_peak_mb: masked.peak_mb,
        plain_bytes_up: plain.bytes_up,
        plain_s: plain.took_s,
        plain_clients_cpu_s: plain.cpu_s,
        plain_peak_mb: plain.peak_mb,
    };
    output.object(&measured, || text(&measured))
}

async fn delivered(args: &SecureLineArgs, parameters: u32, is_masked: bool) -> Result<Delivered, CliError> {
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let coordinator = CoordinatorProcess::start(&database_of(None, folder.path()), &operator_token()?).await?;
    let population = population_name()?;
    let enrolment = coordinator.population(&population).await?;
    let address = coordinator.url.socket_addrs(|| None).ok().and_then(|addresses| addresses.first().copied());
    let address: SocketAddr = address.ok_or_else(|| BenchError::Start("its address is none".into()))?;
    let shape = Shape { bytes_per_s: args.mbit * 1e6 / 8.0, delay: Duration::from_millis(args.rtt / 2) };
    let (mut lines, mut clients) = (Vec::new(), Vec::new());
    for _ in 0..args.members {
        let line = Line::to(address, shape).await?;
        let client = Client::builder(format!("http://{}", line.address), enrolment.expose());
        clients.push(client.store(Arc::new(MemoryStore::new())).build()?);
        lines.push(line);
    }
    let mut enrolled = JoinSet::new();
    for client in clients {
        enrolled.spawn(async move { client.enrol().await.map(|_| client) });
    }
    let clients = enrolled.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let form = if is_masked { "secure_aggregation = { clip = 1.0 }" } else { "update = { codec = 'f32' }" };
    let (members, began) = (args.members, cpu_s(std::process::id())?);
    let job = coordinator.api.create_job(fleet::job_file(&format!(
        "name = 'line'\npopulation = '{population}'\nseed = 1\n{form}\n\
         model = {{ parameters = [{{ name = 'w', shape = [{parameters}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         aggregation = {{ combine = 'uniform_mean' }}\n\
         round = {{ updates_goal = {members}, updates_min = {members}, over_selection = 1.0 }}\n\
         stop = {{ rounds = 1 }}\n"
    ))?);
    let job = job.await?.head.id;
    let mut sessions = JoinSet::new();
    for (seed, client) in (0..).zip(clients) {
        sessions.spawn(async move {
            let mut trainer = Random { seed, ended_at: Instant::now() };
            while !matches!(client.run_once(&mut trainer, &AlwaysOn).await?, Outcome::Contributed { .. }) {}
            Ok::<_, tributary_client::ClientError>((trainer.ended_at, Instant::now()))
        });
    }
    let sessions = tokio::time::timeout(Duration::from_secs(LIMIT_S), sessions.join_all()).await;
    let sessions =
        sessions.map_err(|_| BenchError::TooSlow { what: "the delivery of all updates", limit_s: LIMIT_S })?;
    let times = sessions.into_iter().collect::<Result<Vec<_>, _>>()?;
    let last = |of: fn(&(Instant, Instant)) -> Instant| times.iter().map(of).max();
    let took = last(|times| times.1).zip(last(|times| times.0)).map(|(told, trained)| told - trained);
    committed(&coordinator, job, 1).await?;
    let rounds = collect(None, async |page| coordinator.api.rounds(job, Task::Train, page).await).await?.items;
    let bytes_up = rounds.first().map_or(0, |round| round.traffic.bytes_up);
    Ok(Delivered {
        bytes_up: bytes_up / u64::from(members),
        took_s: took.unwrap_or_default().as_secs_f64(),
        cpu_s: cpu_s(std::process::id())? - began,
        peak_mb: coordinator.peak_resident_bytes().map_or(0.0, |bytes| bytes as f64 / 1e6),
    })
}

fn text(measured: &Measured) -> String {
    let Measured { members, rtt_ms, mbit_s, bytes_up, masked_s, masked_clients_cpu_s, plain_bytes_up, plain_s, .. } =
        measured;
    format!(
        "{members} members over lines of {rtt_ms} ms and {mbit_s} Mbit/s: {masked_s:.1} s for {bytes_up} masked bytes \
         ({masked_clients_cpu_s:.1} s of all clients' processors), {plain_s:.1} s for {plain_bytes_up} plain bytes"
    )
}

/// Changes the model at random: bodies of zeros would be packed.
struct Random {
    seed: u64,
    ended_at: Instant,
}

impl Trainer for Random {
    fn examples(&self) -> u64 {
        1
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let mut stream = Seed(self.seed).stream();
        let values = task.model.values().iter().map(|value| value + stream.uniform(-CHANGE, CHANGE)).collect();
        self.ended_at = Instant::now();
        Ok(Trained::new(values, 1, 1, 0.0))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}
