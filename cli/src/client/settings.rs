//! The settings of `tributary client run`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Deserializer};
use tributary_protocol::id::{IdError, Name};
use tributary_protocol::sealed::Sealed;

use super::compute::Wanted;
use super::conditions::ConditionArgs;
use super::examples::{ExampleArgs, ExamplesError};
use super::fleet::FleetArgs;
use super::pairs::{attribute_table, parse_attribute};
use super::schema;
use crate::options::{GlobalArgs, ServerUrl};

#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ClientSettings {
    /// The global --server.
    #[arg(skip)]
    pub(super) server: Option<ServerUrl>,
    /// The global --token: an enrolment token.
    #[arg(skip)]
    pub(super) token: Option<Sealed<String>>,
    /// The global --ca.
    #[arg(skip)]
    pub(super) ca: Option<PathBuf>,
    /// Where the client keeps its identity and its unfinished work; one folder per client [default for a fleet:
    /// tributary-fleet].
    #[arg(long, env = "TRIBUTARY_STATE_DIR", value_name = "FOLDER")]
    pub(super) state_dir: Option<PathBuf>,
    /// A property of the client that jobs may require, for example platform=linux; may be repeated. In the file:
    /// the table `attributes`.
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = parse_attribute)]
    #[serde(deserialize_with = "attribute_table")]
    pub(super) attributes: Vec<(String, String)>,
    /// What trains: the processor, a GPU, or a GPU if there is one. Small networks train faster on the processor
    /// [default: cpu].
    #[arg(long, value_name = "DEVICE", value_enum)]
    pub(super) device: Option<Wanted>,
    /// How many rows a count must speak of before this client tells it, where a job standardises its columns over all
    /// clients [default: 5].
    #[arg(long, value_name = "ROWS")]
    pub(super) describe_floor: Option<u64>,
    /// Takes part only in jobs whose updates are masked, so that the coordinator cannot read them.
    #[arg(long)]
    pub(super) require_secure: bool,
    /// How many members whose updates are in a sum with this client's there must be; with --require-secure.
    #[arg(long, value_name = "MEMBERS", requires = "require_secure")]
    pub(super) survivors_min: Option<u16>,
    /// Takes part only in jobs whose updates are masked and where the members of a group sign who they are and who has
    /// survived.
    #[arg(long)]
    pub(super) require_signed: bool,
    /// The largest epsilon that this client spends in a job, against the coordinator, but for a chance of 1e-6: it
    /// counts its own updates, and takes part only where the members of its groups add noise.
    #[arg(long, value_name = "EPSILON")]
    pub(super) epsilon_max: Option<f64>,
    /// The largest norm to which updates are clipped, where they are masked.
    #[arg(long, value_name = "NORM")]
    pub(super) clip_max: Option<f64>,
    /// A PEM file with the CAs that members of groups must have their certificates from, in the place of the
    /// coordinator's own; implies --require-signed.
    #[arg(long, value_name = "FILE")]
    pub(super) peers_ca: Option<PathBuf>,
    /// A PEM file with the certificate that one of these CAs issued for this client's key (`tributary client request`).
    #[arg(long, value_name = "FILE", conflicts_with = "fleet")]
    pub(super) peers_certificate: Option<PathBuf>,
    /// Takes part in groups whose members add up among themselves: where others may connect, for example 0.0.0.0:7400.
    /// Each client of a fleet needs a port of its own: 127.0.0.1:0.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<String>,
    /// Where others reach this client, if not at the address that the coordinator sees; its token must grant it.
    #[arg(long, value_name = "HOST:PORT", requires = "listen", conflicts_with = "fleet")]
    pub(super) advertise: Option<String>,
    #[command(flatten)]
    pub(super) examples: ExampleArgs,
    /// A named example set, for jobs whose file has this name in `data`, or as a part in `[coded]`: a CSV file, or a
    /// Parquet file whose name ends in .parquet; may be repeated. In the file: the table `sets`, with the settings of
    /// `examples` for each name.
    #[arg(long = "set", visible_alias = "part", value_name = "NAME=FILE", value_parser = parse_set, conflicts_with = "fleet")]
    #[serde(deserialize_with = "set_table")]
    pub(super) sets: Vec<(Name, ExampleArgs)>,
    #[command(flatten)]
    pub(super) fleet: FleetArgs,
    #[command(flatten)]
    pub(super) conditions: ConditionArgs,
}

impl ClientSettings {
    /// Flags and variables, and the file for what they leave open.
    pub(super) fn over(self, file: Self, global: &GlobalArgs) -> Self {
        Self {
            server: global.server.clone().or(file.server),
            token: global.token.clone().or(file.token),
            ca: global.ca.clone().or(file.ca),
            state_dir: self.state_dir.or(file.state_dir),
            // The last one of a name counts.
            attributes: [file.attributes, self.attributes].concat(),
            describe_floor: self.describe_floor.or(file.describe_floor),
            require_secure: self.require_secure || file.require_secure,
            survivors_min: self.survivors_min.or(file.survivors_min),
            require_signed: self.require_signed || file.require_signed,
            epsilon_max: self.epsilon_max.or(file.epsilon_max),
            clip_max: self.clip_max.or(file.clip_max),
            peers_ca: self.peers_ca.or(file.peers_ca),
            peers_certificate: self.peers_certificate.or(file.peers_certificate),
            listen: self.listen.or(file.listen),
            advertise: self.advertise.or(file.advertise),
            device: self.device.or(file.device),
            examples: self.examples.over(file.examples),
            // By name; the last one of a name counts.
            sets: file.sets.into_iter().chain(self.sets).collect::<BTreeMap<_, _>>().into_iter().collect(),
            fleet: self.fleet.over(file.fleet),
            conditions: self.conditions.over(file.conditions),
        }
    }

    /// The table of the examples without a name, where they are one.
    pub(super) fn table(&self) -> Result<Option<schema::Table<'_>>, ExamplesError> {
        match self.sets.is_empty() || self.examples.are_given() {
            true => self.examples.table(),
            false => Ok(None),
        }
    }
}

/// `NAME=FILE`.
fn parse_set(text: &str) -> Result<(Name, ExampleArgs), String> {
    let (name, file) = text.split_once('=').filter(|(_, file)| !file.is_empty()).ok_or("it must be NAME=FILE")?;
    let name = name.parse().map_err(|error: IdError| error.to_string())?;
    Ok((name, ExampleArgs::of_table(file.into())))
}

fn set_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Name, ExampleArgs)>, D::Error> {
    Ok(BTreeMap::<Name, ExampleArgs>::deserialize(deserializer)?.into_iter().collect())
}
