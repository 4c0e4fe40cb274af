//! A release that reaches a fleet step by step: who has it, and what it costs.
//!
//! The coordinator is a separate process. Devices that never train ask it for a release, download the release, and
//! confirm it. Version 1 goes to all of them, version 2 to a growing share, and back. The benchmark does not wait until
//! devices may ask again. It counts how many of them would ask in each second.

use std::sync::Arc;

use clap::Args;
use hyper::header::HeaderValue;
use serde::Serialize;
use tokio::task::JoinSet;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{JobId, Name, Secret};
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::{CreateRelease, Release};
use tributary_protocol::release::{Released, Share};
use tributary_protocol::update::Codec;

use crate::aggregate::committed;
use crate::device::{Asked, Connection, Server, check_in_body};
use crate::error::BenchError;
use crate::fleet;
use crate::process::{CoordinatorProcess, database_of, operator_token, population_name};
use tributary::error::CliError;
use tributary::output::Output;

const CHANNEL: &str = "stable";
/// The shares of the second release, in millionths.
const SHARES: [u32; 3] = [50_000, 500_000, 1_000_000];
/// How long the client that trains waits for its assignment.
const WAIT_MS: u32 = 60_000;
/// Connections over which the devices ask.
const CONNECTIONS: usize = 16;

#[derive(Clone, Debug, Args)]
pub(crate) struct RolloutArgs {
    /// Devices that follow the channel.
    #[arg(long, default_value_t = 10_000, value_name = "DEVICES", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    devices: u32,
    /// Parameters of the model.
    #[arg(long, default_value_t = 20_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    parameters: u32,
}

/// A step of the rollout. Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    step: String,
    devices: u32,
    /// The share of the devices that the newest release is for, in percent.
    share: f64,
    /// The share that has it, in percent.
    has: f64,
    /// Devices that had it before this step, and have it no more.
    lost: u32,
    /// Bytes of bodies that the devices downloaded.
    bytes_down: u64,
    /// Bytes of the same downloads, had each been the whole file.
    bytes_whole: u64,
    /// Questions per second from now on, by the times at which devices were told to ask again: the sum of all devices'
    /// rates, and the busiest second.
    asks_per_s: f64,
    asks_per_s_max: u32,
}

/// A device: its credential, and the file that it has.
#[derive(Clone)]
struct Device {
    secret: HeaderValue,
    has: Option<Sha256Hash>,
}

/// What one device's turn came to.
#[derive(Clone, Copy, Default)]
struct Turn {
    bytes_down: u64,
    bytes_whole: u64,
    ask_after_ms: u64,
}

pub(crate) async fn run(args: &RolloutArgs, output: &Output) -> Result<(), CliError> {
    let folder = tempfile::tempdir().map_err(CliError::file("create", std::env::temp_dir()))?;
    let database = database_of(None, folder.path());
    let coordinator = CoordinatorProcess::start(&database, &operator_token()?).await?;
    let population = population_name()?;
    let token = coordinator.population(&population).await?;
    let server = fleet::server(&coordinator)?;
    let job = train(args, &coordinator, &server, (&population, &token)).await?;
    output.note(&format!("enrolling {} devices", args.devices));
    let devices = fleet::enrol(&server, &token, args.devices).await?;
    let mut devices: Vec<_> = devices.into_iter().map(|secret| Device { secret, has: None }).collect();

    let first = release(&coordinator, job, 1, Share::ALL).await?;
    report(output, &step(&server, &mut devices, "version 1", &first).await?)?;
    let mut second = None;
    for share in SHARES {
        let share = Share::try_from(share).map_err(|error| CliError::Internal(error.to_string()))?;
        let made = match &second {
            None => release(&coordinator, job, 2, share).await?,
            Some(Release { id, .. }) => coordinator.api.widen_release(*id, share).await?,
        };
        let name = format!("version 2 to {share}");
        report(output, &step(&server, &mut devices, &name, &made).await?)?;
        second = Some(made);
    }
    if let Some(Release { id, .. }) = second {
        coordinator.api.withdraw_release(id).await?;
    }
    report(output, &step(&server, &mut devices, "back", &first).await?)
}

/// A job with two versions.
async fn train(
    args: &RolloutArgs,
    coordinator: &CoordinatorProcess,
    server: &Server,
    (population, token): (&Name, &Secret),
) -> Result<JobId, CliError> {
    let client = &fleet::enrol(server, token, 1).await?[0];
    let job = coordinator.api.create_job(job_file(args, population)?).await?.head.id;
    let mut connection = Connection::open(server).await?;
    for round in [1, 2] {
        let assignment = connection.check_in(client, &check_in_body(WAIT_MS)).await?;
        let assignment = assignment
            .ok_or(BenchError::TooSlow { what: "the drawing of a cohort", limit_s: u64::from(WAIT_MS) / 1000 })?;
        let update = fleet::update(&assignment, round.into())?;
        connection.put_update(client, &assignment, update).await?;
        committed(coordinator, job, round).await?;
    }
    Ok(job)
}

fn job_file(args: &RolloutArgs, population: &Name) -> Result<JobFile, CliError> {
    let (outputs, inputs) = (10, (args.parameters / 10).max(2) - 1);
    let mut file = fleet::job_file(&format!(
        "name = 'rollout'\npopulation = '{population}'\nseed = 1\n\
         model = {{ input = [{inputs}], layers = [{{ kind = 'linear', out_features = {outputs} }}] }}\n\
         training = {{ steps = 1, optimizer = {{ kind = 'sgd', learning_rate = 1.0 }} }}\n\
         round = {{ updates_goal = 1, updates_min = 1, over_selection = 1.0 }}\n\
         stop = {{ rounds = 2 }}\n"
    ))?;
    file.update.codec = Codec::F32;
    Ok(file)
}

async fn release(
    coordinator: &CoordinatorProcess,
    job: JobId,
    version: u32,
    share: Share,
) -> Result<Release, CliError> {
    let channel = CHANNEL.parse().map_err(|_| CliError::Internal(format!("{CHANNEL} is no name")))?;
    let wanted =
        CreateRelease { job, version, channel, share, attributes: Default::default(), gate: None, exact: false };
    Ok(coordinator.api.create_release(&wanted).await?)
}

/// All devices ask for the release, download it, and confirm it.
async fn step(server: &Server, devices: &mut Vec<Device>, name: &str, release: &Release) -> Result<Measured, CliError> {
    let wanted = release.sha256;
    let had: Vec<bool> = devices.iter().map(|device| device.has == Some(wanted)).collect();
    let shared: Arc<[Device]> = std::mem::take(devices).into();
    let mut asking = JoinSet::new();
    for worker in 0..CONNECTIONS {
        let (server, shared) = (server.clone(), Arc::clone(&shared));
        asking.spawn(async move {
            let mut connection = Connection::open(&server).await?;
            let mut turns = Vec::new();
            for number in (worker..shared.len()).step_by(CONNECTIONS) {
                let mut device = shared[number].clone();
                let turn = turn(&mut connection, &mut device).await?;
                turns.push((number, device, turn));
            }
            Ok::<_, BenchError>(turns)
        });
    }
    let mut turns = Vec::with_capacity(shared.len());
    for worker in asking.join_all().await {
        turns.extend(worker?);
    }
    turns.sort_by_key(|(number, ..)| *number);
    let all: Vec<Turn> = turns.iter().map(|(.., turn)| *turn).collect();
    devices.extend(turns.into_iter().map(|(_, device, _)| device));
    let has = devices.iter().filter(|device| device.has == Some(wanted)).count();
    let lost = devices.iter().zip(had).filter(|(device, had)| *had && device.has != Some(wanted)).count();
    let (asks_per_s, asks_per_s_max) = asks_per_s(&all);
    Ok(Measured {
        step: name.to_owned(),
        devices: devices.len() as u32,
        share: f64::from(release.share.millionths()) / 1e4,
        has: 100.0 * has as f64 / devices.len() as f64,
        lost: lost as u32,
        bytes_down: all.iter().map(|turn| turn.bytes_down).sum(),
        bytes_whole: all.iter().map(|turn| turn.bytes_whole).sum(),
        asks_per_s,
        asks_per_s_max,
    })
}

/// A device asks, and downloads.
async fn turn(connection: &mut Connection, device: &mut Device) -> Result<Turn, BenchError> {
    let Device { secret, has } = device;
    let Asked { release, ask_after_ms } = connection.ask_release(secret, CHANNEL, *has).await?;
    let Some(release) = release else { return Ok(Turn { ask_after_ms, ..Turn::default() }) };
    let mut bytes_down = 0;
    for (path, sha256) in files(&release, *has) {
        let body = connection.fetch(&path, secret).await?;
        bytes_down += body.len() as u64;
        if Sha256Hash::of(&body) != sha256 {
            return Err(BenchError::Figure { command: path, place: "bytes with the hash that it was told" });
        }
    }
    *has = Some(release.sha256);
    // It says what it has now.
    let Asked { ask_after_ms, .. } = connection.ask_release(secret, CHANNEL, *has).await?;
    Ok(Turn { bytes_down, bytes_whole: release.bytes, ask_after_ms })
}

/// What the SDK would download: the differences from what is here, if they lead to the release.
fn files(release: &Released, has: Option<Sha256Hash>) -> Vec<(String, Sha256Hash)> {
    let place = release.differences.iter().position(|difference| Some(difference.base_sha256) == has);
    match place {
        None => vec![(format!("/device/v1/releases/{}/model", release.id), release.sha256)],
        Some(place) => {
            let path = |id| format!("/device/v1/releases/{id}/difference");
            release.differences[place..].iter().map(|step| (path(step.release), step.sha256)).collect()
        }
    }
}

/// The sum of all devices' rates of questions per second, and the most questions in one second.
fn asks_per_s(turns: &[Turn]) -> (f64, u32) {
    let seconds: Vec<u64> = turns.iter().map(|turn| turn.ask_after_ms / 1000).collect();
    let mut counts = std::collections::BTreeMap::<u64, u32>::new();
    for second in &seconds {
        *counts.entry(*second).or_default() += 1;
    }
    let mean = turns.iter().map(|turn| 1000.0 / turn.ask_after_ms.max(1) as f64).sum();
    (mean, counts.values().copied().max().unwrap_or(0))
}

fn report(output: &Output, measured: &Measured) -> Result<(), CliError> {
    output.object(measured, || {
        let Measured { step, share, has, lost, bytes_down, bytes_whole, asks_per_s, asks_per_s_max, .. } = measured;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        format!(
            "{step}: for {share} %, {has:.2} % have it, {lost} lost it; {:.1} MB of {:.1} MB in whole files; then {asks_per_s:.1} questions a second, at most {asks_per_s_max}",
            megabytes(*bytes_down),
            megabytes(*bytes_whole),
        )
    })
}
