//! `tributary release`: the models that the apps of a population predict with.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use tributary_protocol::gate::Gate;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{CreateRelease, Release};
use tributary_protocol::release::Share;
use tributary_protocol::state::ReleaseState;

use crate::api::Api;
use crate::error::CliError;
use crate::format::{bytes, count, or_dash, relative};
use crate::job::args::JobArgs;
use crate::job::find::find_job;
use crate::output::Output;
use crate::population::check_population;
use crate::token::pair;

/// Without a command: releases a version, or lets its release reach a larger share.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ReleaseArgs {
    #[command(subcommand)]
    command: Option<ReleaseCommand>,
    /// The job's id or name.
    #[arg(value_name = "JOB", required = true)]
    job: Option<String>,
    /// The version of its model.
    #[arg(value_name = "VERSION", required = true)]
    version: Option<u32>,
    /// The population of the job, if its name is not enough.
    #[arg(long, value_name = "NAME")]
    population: Option<Name>,
    /// The channel that apps ask for.
    #[arg(long, default_value = "stable", value_name = "NAME")]
    channel: Name,
    /// The share of the clients that get it. A later call with a larger one lets it reach more; who has it keeps it.
    #[arg(long, default_value = "100%", value_name = "PERCENT")]
    share: Share,
    /// An attribute that a client must have to get it. Repeatable.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    attribute: Vec<(String, String)>,
    /// What an evaluation by the clients must show before it goes out, such as "accuracy >= 0.9 on evaluators".
    #[arg(long, value_name = "CONDITION")]
    gate: Option<Gate>,
    /// Gives clients the version's own bits. Without it, they get the release before plus 8-bit differences, a quarter
    /// of the bytes, where that has the same parameters.
    #[arg(long)]
    exact: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseCommand {
    /// Withdraws the newest release of a channel: its clients go back to the one before.
    Back {
        /// The population.
        #[arg(long, value_name = "NAME")]
        population: Name,
        /// The channel.
        #[arg(long, default_value = "stable", value_name = "NAME")]
        channel: Name,
    },
    /// Lists the releases of a population, the newest of each channel first, with the clients that have them.
    List {
        /// The population.
        #[arg(long, value_name = "NAME")]
        population: Name,
    },
}

pub(crate) async fn run(args: ReleaseArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    match (args.command, args.job, args.version) {
        (Some(ReleaseCommand::Back { population, channel }), ..) => back(&population, &channel, api, output).await,
        (Some(ReleaseCommand::List { population }), ..) => list(&population, api, output).await,
        (None, Some(job), Some(version)) => {
            let job = find_job(api, &JobArgs { job, population: args.population }).await?;
            let wanted = CreateRelease {
                job: job.head.id,
                version,
                channel: args.channel,
                share: args.share,
                attributes: args.attribute.into_iter().collect(),
                gate: args.gate,
                exact: args.exact,
            };
            release(&job.file.population, wanted, api, output).await
        }
        (None, ..) => Err(CliError::BadSetting("release needs JOB and VERSION".into())),
    }
}

/// Releases a version, or widens the release of it that is the channel's newest.
async fn release(population: &Name, wanted: CreateRelease, api: &Api, output: &Output) -> Result<(), CliError> {
    let releases = api.releases(population).await?.items;
    let newest = releases.iter().find(|release| release.channel == wanted.channel && stands(release));
    let is_same = |release: &&Release| {
        (release.job, release.version) == (wanted.job, wanted.version)
            && release.attributes == wanted.attributes
            && release.gate == wanted.gate
    };
    let release = match newest.filter(is_same) {
        Some(release) => api.widen_release(release.id, wanted.share).await?,
        None => api.create_release(&wanted).await?,
    };
    output.object(&release, || said(&release))
}

fn said(release: &Release) -> String {
    let Release { channel, number, job_name, version, share, state, .. } = release;
    let what = format!("release {number} of the channel {channel}: version {version} of {job_name}, for {share}");
    let whom = match release.attributes.is_empty() {
        true => " of the clients".to_owned(),
        false => format!(" of the clients with {}", pairs(&release.attributes)),
    };
    let how = match (release.base, release.difference_bytes) {
        (Some(base), Some(length)) => {
            format!("\ndownload: {} from release {base}, {} whole", bytes(length), bytes(release.bytes))
        }
        _ => format!("\ndownload: {}", bytes(release.bytes)),
    };
    let held = match (state, &release.gate, release.gate_job) {
        (ReleaseState::Held, Some(gate), Some(job)) => {
            format!("\nit is held until clients have evaluated it ({gate}): `tributary job watch {job}`")
        }
        _ => String::new(),
    };
    format!("{what}{whom}{how}{held}")
}

/// Whether a release is out, or will be.
fn stands(release: &Release) -> bool {
    matches!(release.state, ReleaseState::Out | ReleaseState::Held)
}

async fn back(population: &Name, channel: &Name, api: &Api, output: &Output) -> Result<(), CliError> {
    let releases = api.releases(population).await?.items;
    let mut standing = releases.iter().filter(|release| release.channel == *channel && stands(release));
    let Some(newest) = standing.next() else {
        check_population(population, api).await?;
        return Err(CliError::BadSetting(format!("the channel {channel} has no release to withdraw")));
    };
    let before = standing.next().map(|before| (before.number, before.version, before.job_name.clone()));
    let withdrawn = api.withdraw_release(newest.id).await?;
    output.object(&withdrawn, || {
        let number = withdrawn.number;
        match before {
            Some((before, version, job)) => format!(
                "withdrew release {number} of {channel}: its clients go back to release {before}, version {version} of \
                 {job}, when they ask next"
            ),
            None => format!("withdrew release {number} of {channel}: the channel has no other, so apps have no model"),
        }
    })
}

async fn list(population: &Name, api: &Api, output: &Output) -> Result<(), CliError> {
    let releases = api.releases(population).await?.items;
    if releases.is_empty() {
        check_population(population, api).await?;
    }
    let header =
        ["channel", "number", "job", "version", "state", "share", "clients", "for", "download", "made", "gate"];
    output.list(&releases, &header, |release| {
        vec![
            release.channel.to_string(),
            release.number.to_string(),
            release.job_name.to_string(),
            release.version.to_string(),
            release.state.to_string(),
            release.share.to_string(),
            count(release.clients),
            if release.attributes.is_empty() { "all".into() } else { pairs(&release.attributes) },
            bytes(release.difference_bytes.unwrap_or(release.bytes)),
            relative(release.created_at_ms, output.now_ms),
            match &release.verdict {
                Some(verdict) => verdict.clone(),
                None => or_dash(release.gate.as_ref(), Gate::to_string),
            },
        ]
    })
}

fn pairs(attributes: &BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(", ")
}
