//! A soak: days of a fleet in minutes, on a network with faults, with a failover and an upgrade in each day.
//!
//! | file | content |
//! |---|---|
//! | `rhythm`, `fate` | what is drawn from the seed: who is awake when, how work ends, faults |
//! | `network` | the proxy between devices and coordinators |
//! | `device`, `tally` | the life of a device, and what devices see |
//! | `cluster`, `disturb` | the coordinators' processes, and what happens to them |
//! | `sample`, `promises` | figures every few seconds, and what must hold at the end |

mod cluster;
mod device;
mod disturb;
mod fate;
mod network;
mod promises;
mod rhythm;
mod sample;
mod tally;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};
use tributary_protocol::id::{JobId, Name, Secret};
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::CreateToken;
use tributary_protocol::sealed::Sealed;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::Task;
use tributary_server::net::raise_open_files;

use crate::device::Server;
use crate::error::BenchError;
use crate::fleet;
use crate::load::waiting_job;
use crate::process::{database_of, engine, operator_token, population_name};
use cluster::Cluster;
use device::{Device, World};
use disturb::{Disturbance, disturb, plan};
use network::Network;
use promises::{Growth, Ledger, growth, judge, stored};
use rhythm::Rhythm;
use sample::{Sample, Sampler};
use tally::{Count, Tally};
use tributary::api::{Api, JobChange};
use tributary::error::CliError;
use tributary::output::Output;
use tributary::serve::stop_signal;

/// Connections beside those of devices: probes, and the operator.
const OTHER_CONNECTIONS: u32 = 64;
const SELECTION_TIMEOUT_S: u64 = 30;
const DEADLINE_S: u64 = 30;
/// How long the last round and the last updates may take.
const END_S_MAX: u64 = SELECTION_TIMEOUT_S + DEADLINE_S + 90;
/// Broken promises that the error shows.
const SHOWN_MAX: usize = 5;

#[derive(Clone, Debug, Args)]
pub(crate) struct SoakArgs {
    /// Devices, all of one population.
    #[arg(long, default_value_t = 10_000, value_name = "DEVICES", value_parser = clap::value_parser!(u32).range(10..=50_000))]
    devices: u32,
    /// Simulated days.
    #[arg(long, default_value_t = 3.0, value_name = "DAYS")]
    days: f64,
    /// Seconds that a simulated day lasts.
    #[arg(long, default_value_t = 600, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(30..=86_400))]
    day_s: u32,
    /// Coordinators. More than one need PostgreSQL.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=8))]
    coordinators: u32,
    /// The database, for example postgres://USER@HOST/NAME [default: a SQLite file in an empty folder].
    #[arg(long, value_name = "URL")]
    database: Option<Sealed<String>>,
    /// Parameters of the model.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    params: u32,
    /// Updates with which a round closes. A third more devices are drawn.
    #[arg(long, default_value_t = 60, value_name = "UPDATES", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    goal: u32,
    /// Seconds between two samples.
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=600))]
    sample_s: u32,
    /// The release that upgrades install: a file of tributary or tributary-bench [default: this program].
    #[arg(long, value_name = "FILE")]
    next_binary: Option<PathBuf>,
    /// Seed of the fleet and of all faults.
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    seed: u64,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    engine: &'static str,
    coordinators: u32,
    devices: u32,
    days: f64,
    day_s: u32,
    params: u32,
    goal: u32,
    seed: u64,
    ledger: Ledger,
    /// What the devices counted.
    seen: BTreeMap<Count, u64>,
    unexpected_answers: Vec<String>,
    /// Of each coordinator, in MB.
    memory_mb: Vec<Option<Growth>>,
    database_mb: Option<Growth>,
    /// The disk's growth divided by the assignments: what a day's history takes.
    kb_per_assignment: Option<f64>,
    /// Of the samples' own percentiles: the median, and the largest.
    checkin_ms_p99_median: Option<f64>,
    checkin_ms_p99_max: Option<f64>,
    update_ms_p99_median: Option<f64>,
    update_ms_p99_max: Option<f64>,
    disturbances: Vec<Disturbance>,
    samples: Vec<Sample>,
}

/// A signal ends it, and the coordinators with it.
pub(crate) async fn run(args: &SoakArgs, output: &Output) -> Result<(), CliError> {
    tokio::select! {
        played = play(args, output) => played,
        () = stop_signal() => Err(BenchError::Stopped.into()),
    }
}

async fn play(args: &SoakArgs, output: &Output) -> Result<(), CliError> {
    raise_open_files();
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let database = database_of(args.database.as_ref(), folder.path());
    let engine = engine(database.expose());
    if args.coordinators > 1 && engine == "sqlite" {
        return Err(CliError::BadSetting("several --coordinators need a --database of PostgreSQL".into()));
    }
    let sizes = (args.coordinators, args.devices + OTHER_CONNECTIONS);
    let cluster = Cluster::start(database, operator_token()?, sizes, args.next_binary.clone()).await?;
    let cluster = Arc::new(cluster);
    let api = living(&cluster)?;
    let server = server(&cluster)?;

    output.note(&format!("enrolling {} devices", args.devices));
    let population = population_name()?;
    let clients = fleet::enrol(&server, &population_token(&api, &population).await?, args.devices).await?;
    let probes = population_name()?;
    let prober = fleet::enrol(&server, &population_token(&api, &probes).await?, 1).await?.remove(0);
    api.create_job(waiting_job(&probes)?).await?;
    let job = api.create_job(job_file(args, &population)?).await?.head.id;

    let tally = Arc::new(Tally::default());
    let world = Arc::new(World {
        network: Network { cluster, tally: Arc::clone(&tally) },
        tally,
        day: Duration::from_secs(args.day_s.into()),
        began: Instant::now(),
        model_bytes: 4 * u64::from(args.params),
        ending: watch::Sender::new(false),
    });
    let mut devices = JoinSet::new();
    for (number, secret) in clients.into_iter().enumerate() {
        let mut stream = Seed(args.seed).derive("device", number as u64).stream();
        let rhythm = Rhythm::draw(&mut stream);
        let node = number % args.coordinators as usize;
        let device = Device { secret, rhythm, stream, node, connection: None, has: None, failed: 0 };
        devices.spawn(device.live(Arc::clone(&world)));
    }
    output.note(&format!("{} simulated days of {} s", args.days, args.day_s));
    let disturbing = tokio::spawn(disturbances(Arc::clone(&world), job, args.days, output.clone()));
    let every = Duration::from_secs(args.sample_s.into());
    let rounds = BTreeMap::new();
    let mut sampler =
        Sampler { world: Arc::clone(&world), job, prober, every, rounds, checkin_ms: Vec::new(), samples: Vec::new() };
    while world.now_days() < args.days {
        sampler.step().await;
    }
    let disturbances = disturbing.await.map_err(CliError::task)??;
    let samples = sampler.samples;

    output.note("ending: the last round, and the last updates");
    let mut ledger = ended(&world, job, &mut devices).await?;
    for one in disturbances.iter().filter(|one| one.lacked_driver(args.coordinators)) {
        ledger.broken.push(format!("nobody took the job over on day {:.1}", one.day));
    }
    let measured = measured(args, engine, (ledger, disturbances, samples), &world.tally);
    output.object(&measured, || text(&measured))?;
    match measured.ledger.broken.as_slice() {
        [] => Ok(()),
        broken => Err(BenchError::Promises(broken[..broken.len().min(SHOWN_MAX)].join("; ")).into()),
    }
}

/// Lets the last round and all devices come to an end, and compares what was acknowledged with what is stored.
async fn ended(world: &World, job: JobId, devices: &mut JoinSet<()>) -> Result<Ledger, CliError> {
    let api = living(&world.network.cluster)?;
    api.change_job(job, JobChange::Pause).await?;
    let is_stuck = !last_round_ended(&api, job).await?;
    world.ending.send_replace(true);
    let late = timeout(Duration::from_secs(END_S_MAX), async { while devices.join_next().await.is_some() {} }).await;
    let mut ledger = judge(&stored(&api, job).await?, &world.tally.sent());
    if is_stuck {
        ledger.broken.push("a round was stuck".into());
    }
    if late.is_err() {
        ledger.broken.push(format!("{} devices did not come to an end", devices.len()));
    }
    Ok(ledger)
}

fn living(cluster: &Cluster) -> Result<Api, BenchError> {
    cluster.api().ok_or_else(|| BenchError::Start("no coordinator runs".into()))
}

fn server(cluster: &Cluster) -> Result<Server, CliError> {
    let address = cluster.address(0).ok_or_else(|| BenchError::Start("no coordinator runs".into()))?;
    Server::new(address, None).map_err(CliError::http)
}

async fn population_token(api: &Api, population: &Name) -> Result<Secret, CliError> {
    api.create_population(population.clone(), None).await?;
    let wanted = CreateToken::enrolment(population.clone(), "bench");
    Ok(api.create_token(&wanted).await?.secret.secret().clone())
}

/// With the retention that operations.md recommends.
fn job_file(args: &SoakArgs, population: &Name) -> Result<JobFile, CliError> {
    let (params, goal, minimum) = (args.params, args.goal, args.goal / 2);
    let (selection_ms, deadline_ms) = (SELECTION_TIMEOUT_S * 1000, DEADLINE_S * 1000);
    fleet::job_file(&format!(
        "name = 'soak'\npopulation = '{population}'\nseed = {}\n\
         model = {{ parameters = [{{ name = 'w', shape = [{params}] }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         round = {{ updates_goal = {goal}, updates_min = {minimum}, over_selection = 1.33, \
         selection_timeout_ms = {selection_ms}, deadline_ms = {deadline_ms} }}\n\
         retention = {{ models = {{ last = 10 }}, history_days = 1 }}\n",
        args.seed
    ))
}

/// Performs all disturbances, each at its time.
async fn disturbances(world: Arc<World>, job: JobId, days: f64, output: Output) -> Result<Vec<Disturbance>, CliError> {
    let mut all = Vec::new();
    for (at, kind) in plan(days) {
        sleep_until(world.began + world.day.mul_f64(at)).await;
        let one = disturb(&world, job, kind).await?;
        output.note(&format!("day {:.2}: {:?}, {} s of silence", one.day, kind, seconds(one.silence_s)));
        all.push(one);
    }
    Ok(all)
}

/// Whether the newest round of a paused job ends in time.
async fn last_round_ended(api: &Api, job: JobId) -> Result<bool, CliError> {
    for _ in 0..END_S_MAX {
        let rounds = api.latest_rounds(job, Task::Train, 1).await?;
        if rounds.first().is_none_or(|round| round.ended_at_ms.is_some()) {
            return Ok(true);
        }
        sleep(Duration::from_secs(1)).await;
    }
    Ok(false)
}

fn measured(
    args: &SoakArgs,
    engine: &'static str,
    (ledger, disturbances, samples): (Ledger, Vec<Disturbance>, Vec<Sample>),
    tally: &Tally,
) -> Measured {
    let all = |figure: fn(&Sample) -> Option<f64>| {
        let mut values: Vec<f64> = samples.iter().filter_map(figure).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let median = |figure| all(figure).get(all(figure).len() / 2).copied();
    let checkin: fn(&Sample) -> Option<f64> = |sample| sample.checkin_ms_p99;
    let update: fn(&Sample) -> Option<f64> = |sample| sample.update_ms_p99;
    let database_mb = growth(&samples, |sample| sample.database_mb);
    let grown = database_mb.map(|growth| growth.end - growth.start);
    Measured {
        engine,
        coordinators: args.coordinators,
        devices: args.devices,
        days: args.days,
        day_s: args.day_s,
        params: args.params,
        goal: args.goal,
        seed: args.seed,
        seen: tally.counts(),
        unexpected_answers: tally.unexpected_answers(),
        memory_mb: (0..args.coordinators as usize)
            .map(|node| growth(&samples, |sample| *sample.resident_mb.get(node)?))
            .collect(),
        kb_per_assignment: grown.filter(|_| ledger.assigned > 0).map(|grown| grown * 1000.0 / ledger.assigned as f64),
        database_mb,
        checkin_ms_p99_median: median(checkin),
        checkin_ms_p99_max: all(checkin).last().copied(),
        update_ms_p99_median: median(update),
        update_ms_p99_max: all(update).last().copied(),
        ledger,
        disturbances,
        samples,
    }
}

fn seconds(time: Option<f64>) -> String {
    time.map_or_else(|| "?".into(), |time| format!("{time:.1}"))
}

fn text(measured: &Measured) -> String {
    let Measured { engine, coordinators, devices, days, ledger, .. } = measured;
    let figure = |growth: Option<&Growth>| {
        growth.map_or_else(
            || "?".into(),
            |growth| format!("{:.0} to {:.0} MB, {:+.1} MB a day", growth.start, growth.end, growth.per_day),
        )
    };
    let memory: Vec<String> = measured.memory_mb.iter().map(|growth| figure(growth.as_ref())).collect();
    format!(
        "{engine}, {coordinators} coordinators, {devices} devices, {days} days: {} rounds committed, {} abandoned\n\
         {} updates acknowledged, {} counted, {} in abandoned rounds\n\
         {} lost, {} spare, {} late, {} failed, {} rejected\n\
         memory: {}; database: {}\n\
         check-in p99 {} ms; update p99 {} ms (medians of the samples)\n\
         {} broken promises",
        ledger.committed,
        ledger.abandoned,
        ledger.acknowledged,
        ledger.counted,
        ledger.in_abandoned,
        ledger.lost,
        ledger.spare,
        ledger.late,
        ledger.failed,
        ledger.rejected,
        memory.join("; "),
        figure(measured.database_mb.as_ref()),
        seconds(measured.checkin_ms_p99_median),
        seconds(measured.update_ms_p99_median),
        ledger.broken.len(),
    )
}
