//! Wall time of a round, from its opening to the opening of the next.
//!
//! The clients share the machine with the coordinator, so they do no more than they must: they train nothing and keep
//! their state in memory.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;
use tributary_client::{
    AlwaysOn, Client, EvaluateTask, Evaluated, MemoryStore, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::id::Name;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::Round;
use tributary_protocol::state::Task;

use crate::fleet;
use tributary::api::collect;
use tributary::error::CliError;
use tributary::local::LocalCoordinator;
use tributary::output::Output;

/// How often the benchmark looks whether the job has ended.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Args)]
pub(crate) struct RoundArgs {
    /// Clients; every round selects all of them.
    #[arg(long, default_value_t = 8, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Parameters of the model.
    #[arg(long, default_value_t = 1000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    params: u32,
    /// Rounds to measure.
    #[arg(long, default_value_t = 100, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    rounds: u32,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    clients: u32,
    params: u32,
    rounds: u32,
    round_ms_p50: f64,
    round_ms_p99: f64,
    round_ms_max: f64,
    bytes_up_per_round: u64,
}

pub(crate) async fn run(args: &RoundArgs, output: &Output) -> Result<(), CliError> {
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let listen = ([127, 0, 0, 1], 0).into();
    let coordinator = LocalCoordinator::start(listen, &folder.path().join("tributary.db")).await?;
    let population: Name = "bench".parse().expect("a valid name");
    let enrolment = coordinator.population(&population).await?;
    let mut clients = JoinSet::new();
    for _ in 0..args.clients {
        let client =
            Client::builder(coordinator.address(), enrolment.expose()).store(Arc::new(MemoryStore::new())).build()?;
        client.enrol().await?;
        clients.spawn(async move { client.run(&mut NoTraining, &AlwaysOn, std::future::pending()).await });
    }
    let job = coordinator.api.create_job(job_file(args)?).await?;
    // A watcher who reads the lists after each event would take as much time as a client.
    while !coordinator.api.job(job.head.id).await?.head.state.is_final() {
        tokio::time::sleep(LOOK).await;
    }
    clients.shutdown().await;
    let rounds = collect(None, async |page| coordinator.api.rounds(job.head.id, Task::Train, page).await).await?.items;
    coordinator.stop().await?;
    let measured = measure(args, &rounds);
    output.object(&measured, || text(&measured))
}

fn job_file(args: &RoundArgs) -> Result<JobFile, CliError> {
    let RoundArgs { clients, params, rounds } = args;
    fleet::job_file(&format!(
        "name = 'round'\npopulation = 'bench'\nseed = 1\n\
         model = {{ parameters = [{{ name = 'w', shape = [{params}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         round = {{ updates_goal = {clients}, updates_min = {clients}, over_selection = 1.0 }}\n\
         stop = {{ rounds = {rounds} }}\n"
    ))
}

fn measure(args: &RoundArgs, rounds: &[Round]) -> Measured {
    let mut times: Vec<f64> =
        rounds.windows(2).map(|pair| (pair[1].opened_at_ms - pair[0].opened_at_ms) as f64).collect();
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    Measured {
        clients: args.clients,
        params: args.params,
        rounds: args.rounds,
        round_ms_p50: quantile(0.5).copied().unwrap_or(0.0),
        round_ms_p99: quantile(0.99).copied().unwrap_or(0.0),
        round_ms_max: quantile(1.0).copied().unwrap_or(0.0),
        bytes_up_per_round: rounds.last().map_or(0, |round| round.traffic.bytes_up),
    }
}

fn text(measured: &Measured) -> String {
    let Measured { clients, params, rounds, round_ms_p50, round_ms_p99, round_ms_max, .. } = measured;
    format!(
        "{rounds} rounds of {clients} clients, {params} parameters: \
         p50 {round_ms_p50} ms, p99 {round_ms_p99} ms, longest {round_ms_max} ms"
    )
}

/// Returns the model unchanged.
struct NoTraining;

impl Trainer for NoTraining {
    fn examples(&self) -> u64 {
        1
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        Ok(Trained::new(task.model.values().to_vec(), 1, 1, 0.0))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}
