//! What a group that adds up among itself costs: each member is as in the SDK, with its own key, its own listener and
//! links over the loopback address, and all of them are in this process.
//!
//! | file | content |
//! |---|---|
//! | [`updates`] | the updates of the members, and their direct sum |
//! | [`links`] | how members reach each other: with TLS or without, over a line of some bandwidth or without |
//! | [`group`] | the members' work, from the links to the SHA-256 of the sum |
//! | [`calls`] | bytes that go through the coordinator |
//!
//! Nobody trains. Time counts from when all members know each other until the last one has the body of the sum and its
//! SHA-256. Every sum is compared with a direct one of the engine.

mod calls;
mod group;
mod links;
#[cfg(test)]
mod tests;
mod updates;

use std::time::Duration;

use clap::Args;
use serde::{Serialize, Serializer};
use tributary::error::CliError;
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;
use tributary::units::{Bandwidth, BandwidthError};

use crate::line::Shape;
use crate::process::cpu_s;
use links::Members;
use updates::{Adds, Updates};

/// Lowest bandwidth in bits a second.
const BITS_MIN: f64 = 1e5;

#[derive(Clone, Debug, Args)]
pub(crate) struct RingArgs {
    /// Members of the group.
    #[arg(long, value_delimiter = ',', default_value = "2,4,8", value_name = "COUNTS", value_parser = clap::value_parser!(u16).range(2..=256))]
    members: Vec<u16>,
    /// Parameters of the updates.
    #[arg(long, value_delimiter = ',', default_value = "1000000,10000000", value_name = "COUNTS", value_parser = clap::value_parser!(u32).range(1..=500_000_000))]
    parameters: Vec<u32>,
    /// The codecs of the updates, whose decoded values are added up; or grid: f32 on a grid of 8 bits.
    #[arg(long, value_delimiter = ',', default_value = "f32,int8,grid", value_name = "CODECS")]
    codec: Vec<Adds>,
    /// Links without TLS.
    #[arg(long)]
    plain: bool,
    /// The bandwidth of each link in each direction, such as 100mbit [default: that of the loopback address].
    #[arg(long, value_name = "RATE", value_parser = parse_bandwidth)]
    bandwidth: Option<Bandwidth>,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    members: u16,
    parameters: u32,
    codec: Adds,
    plain: bool,
    #[serde(serialize_with = "as_text")]
    bandwidth: Option<Bandwidth>,
    wall_s: f64,
    /// Of `wall_s`, until the last member had the sum: without the making and hashing of bodies.
    ring_s: f64,
    /// Of this process: all members, and the lines if links have a bandwidth.
    cpu_s_all: f64,
    /// Of the body of the sum.
    sum_bytes: u64,
    /// The mean of the members: frames with their headers, without those of TLS.
    bytes_sent_per_member: u64,
    /// The sum once, and the JSON of the members' calls, without that of HTTP. The next model is not in it.
    bytes_through_coordinator: u64,
    /// All updates as bodies, and a model in f32 for each member.
    star_bytes_through_coordinator: u64,
    /// Whether all members have the direct sum, bit for bit.
    sha256_equal: bool,
}

pub(crate) async fn run(args: &RingArgs, output: &Output) -> Result<(), CliError> {
    let mut rows = Vec::new();
    for &parameters in &args.parameters {
        for &codec in &args.codec {
            for &members in &args.members {
                output.note(&format!("{members} members, {parameters} parameters, {codec}"));
                let measured = measured(args, members, parameters, codec).await?;
                // Programs need not wait for the last row.
                match output.json {
                    true => print(&[measured], output)?,
                    false => rows.push(measured),
                }
            }
        }
    }
    if output.json { Ok(()) } else { print(&rows, output) }
}

async fn measured(args: &RingArgs, members: u16, parameters: u32, codec: Adds) -> Result<Measured, CliError> {
    let updates = Updates::new(members, parameters, codec).await?;
    let group = Members::new(members, args.plain, args.bandwidth.map(shape)).await?;
    let (roster, cpu_began_s, began) = (group.roster(), cpu_s(std::process::id())?, Stopwatch::start());
    let sums = group::add_up(group, &updates).await?;
    let (wall_s, cpu_s_all) = (began.elapsed().as_secs_f64(), cpu_s(std::process::id())? - cpu_began_s);
    let sent: u64 = sums.iter().map(|sum| sum.sent_bytes).sum();
    Ok(Measured {
        members,
        parameters,
        codec,
        plain: args.plain,
        bandwidth: args.bandwidth,
        wall_s,
        ring_s: sums.iter().map(|sum| sum.ring_s).fold(0.0, f64::max),
        cpu_s_all,
        sum_bytes: updates.sum_bytes,
        bytes_sent_per_member: sent / u64::from(members),
        bytes_through_coordinator: updates.sum_bytes + calls::bytes(&roster, &updates, &sums),
        star_bytes_through_coordinator: updates.body_bytes() + 4 * u64::from(parameters) * u64::from(members),
        sha256_equal: sums.iter().all(|sum| sum.sha256 == updates.sha256),
    })
}

fn parse_bandwidth(text: &str) -> Result<Bandwidth, String> {
    let bandwidth: Bandwidth = text.parse().map_err(|error: BandwidthError| error.to_string())?;
    match bandwidth.bits_per_s() >= BITS_MIN {
        true => Ok(bandwidth),
        false => Err("a link has at least 100kbit".into()),
    }
}

/// A line with this bandwidth and no delay of its own.
fn shape(bandwidth: Bandwidth) -> Shape {
    Shape { bytes_per_s: bandwidth.bits_per_s() / 8.0, delay: Duration::ZERO }
}

fn as_text<S: Serializer>(bandwidth: &Option<Bandwidth>, serializer: S) -> Result<S::Ok, S::Error> {
    bandwidth.map(|bandwidth| bandwidth.to_string()).serialize(serializer)
}

impl Measured {
    /// Bytes that a member has to send if no sum on the way were narrower than the last one.
    fn ring_bytes(&self) -> f64 {
        2.0 * f64::from(self.members - 1) / f64::from(self.members) * self.sum_bytes as f64
    }
}

fn print(rows: &[Measured], output: &Output) -> Result<(), CliError> {
    let megabytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1e6);
    let header = [
        "members",
        "parameters",
        "codec",
        "links",
        "wall s",
        "ring s",
        "cpu s",
        "sum MB",
        "sent MB",
        "of 2(m-1)/m",
        "of line",
        "coordinator MB",
        "star MB",
        "equal",
    ];
    output.list(rows, &header, |row| {
        let line_s = row.bandwidth.map(|bandwidth| row.ring_bytes() / shape(bandwidth).bytes_per_s);
        let link = if row.plain { "plain" } else { "tls" };
        vec![
            row.members.to_string(),
            row.parameters.to_string(),
            row.codec.to_string(),
            row.bandwidth.map_or_else(|| link.to_owned(), |bandwidth| format!("{link},{bandwidth}")),
            format!("{:.3}", row.wall_s),
            format!("{:.3}", row.ring_s),
            format!("{:.2}", row.cpu_s_all),
            megabytes(row.sum_bytes),
            megabytes(row.bytes_sent_per_member),
            format!("{:.3}", row.bytes_sent_per_member as f64 / row.ring_bytes()),
            line_s.map_or_else(|| "-".to_owned(), |line_s| format!("{:.3}", row.ring_s / line_s)),
            megabytes(row.bytes_through_coordinator),
            megabytes(row.star_bytes_through_coordinator),
            row.sha256_equal.to_string(),
        ]
    })
}
