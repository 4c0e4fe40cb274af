//! The cost of a group whose updates are masked: bytes of a member, its computation, that of the coordinator.
//!
//! Nothing travels, so bytes and computation are measured alone. The opened sum is compared with that of the integers.

use clap::Args;
use serde::Serialize;
use tributary_engine::round::masking::MaskingPolicy;
use tributary_protocol::plan::{GroupNoise, GroupTrust, Masking};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::seed::{SecretStream, Seed};

use super::group::{Group, Seat};
use crate::error::BenchError;
use crate::simulated::failed;
use tributary::error::CliError;
use tributary::output::Output;

/// Requests of a member: join, shares, update, survivors, unmask.
const EXCHANGES: u32 = 5;
/// Steps of a value: the default of a job.
const LEVELS: u32 = 8;

#[derive(Clone, Debug, Args)]
pub(crate) struct SecureArgs {
    /// Members of the group; may be repeated, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "32,128", value_name = "COUNT", value_parser = clap::value_parser!(u16).range(3..=1000))]
    members: Vec<u16>,
    /// Parameters of the model.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    parameters: u32,
    /// Share of the members that are lost after they have shared their secrets; may be repeated.
    #[arg(long, value_delimiter = ',', default_value = "0.05", value_name = "SHARE")]
    lost: Vec<f64>,
    /// Share of the values that are sent.
    #[arg(long, default_value_t = 1.0, value_name = "SHARE")]
    keep: f64,
    /// Standard deviation, in clips, of the noise that the members add to the sum [default: none].
    #[arg(long, value_name = "CLIPS")]
    noise: Option<f64>,
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    members: u16,
    degree: u32,
    threshold: u32,
    bits: u8,
    lost: f64,
    noise: Option<f64>,
    /// Bytes that a member sends, its masked update among them, and receives.
    bytes_up: usize,
    bytes_down: usize,
    /// Bytes of the same update as a plain f32 file.
    plain_bytes_up: u64,
    /// Computation of a member: the mean over the survivors.
    client_ms: f64,
    /// Computation of the coordinator: adding the bodies up, and taking the masks off on all cores.
    server_ms: f64,
    exchanges: u32,
    /// Both together, without the network.
    group_s: f64,
}

pub(crate) async fn run(args: &SecureArgs, output: &Output) -> Result<(), CliError> {
    for members in &args.members {
        for lost in &args.lost {
            let (args, members, lost) = (args.clone(), *members, *lost);
            // The computation takes seconds and would block other tasks.
            let measured = tokio::task::spawn_blocking(move || measure(&args, members, lost));
            let measured = measured.await.map_err(CliError::task)??;
            output.object(&measured, || text(&measured))?;
        }
    }
    Ok(())
}

fn measure(args: &SecureArgs, count: u16, lost: f64) -> Result<Measured, BenchError> {
    let policy = MaskingPolicy { group: count.into(), group_min: 3, is_signed: false, ..MaskingPolicy::default() };
    let quantiser = Quantiser::new(args.parameters as usize, 1.0, LEVELS, args.keep).map_err(failed)?;
    let noise = args.noise.map(|values| GroupNoise { values, count: None });
    let masking = Masking {
        group_min: policy.group_min,
        corrupt: policy.corrupt,
        dropouts: policy.dropouts,
        levels: LEVELS,
        keep: args.keep,
        clip: 1.0,
        trust: GroupTrust::Honest,
        any_version: false,
        noise,
    };
    let noise = masking.member_noise(&quantiser, count).map_err(failed)?;
    let bits = masking.value_bits(&quantiser, count).ok_or_else(|| failed("too many bits"))?;
    let mut group = Group::join(count, &policy, &quantiser, bits)?;
    group.share()?;
    let gone = (lost * f64::from(count)) as usize;
    group.seats.truncate(usize::from(count) - gone);
    let update = |index: u16| (delta(index, args.parameters), SecretStream::of([index as u8; 32]));
    let server_ms = group.sum((&quantiser, noise), update)?;
    let mean = |of: fn(&Seat) -> f64| group.seats.iter().map(of).sum::<f64>() / group.seats.len() as f64;
    let client_ms = mean(|seat| seat.ms);
    Ok(Measured {
        members: count,
        degree: group.context.degree.into(),
        threshold: group.context.threshold.into(),
        bits: group.context.bits,
        lost,
        noise: args.noise,
        bytes_up: mean(|seat| seat.up as f64) as usize,
        bytes_down: mean(|seat| seat.down as f64) as usize,
        plain_bytes_up: 4 * u64::from(args.parameters),
        client_ms,
        server_ms,
        exchanges: EXCHANGES,
        group_s: (client_ms + server_ms) / 1e3,
    })
}

/// A random update of a member, shorter than the clip.
fn delta(index: u16, parameters: u32) -> Vec<f32> {
    let mut stream = Seed(u64::from(index)).stream();
    let scale = 0.5 / f64::from(parameters).sqrt();
    (0..parameters).map(|_| stream.uniform(-1.0, 1.0) * scale as f32).collect()
}

fn text(measured: &Measured) -> String {
    let Measured { members, degree, threshold, bits, lost, bytes_up, bytes_down, plain_bytes_up, .. } = measured;
    format!(
        "{members} members, {degree} neighbours, {threshold} shares, {bits} bits, {:.0} % lost: {bytes_up} bytes up \
         ({plain_bytes_up} plain), {bytes_down} down; client {:.0} ms, coordinator {:.0} ms",
        lost * 100.0,
        measured.client_ms,
        measured.server_ms
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_loses_members_opens_the_sum_of_the_others_and_says_what_it_costs() {
        let args = SecureArgs { members: vec![8], parameters: 1_000, lost: vec![0.3], keep: 0.5, noise: Some(1.0) };
        let measured = measure(&args, 8, 0.3).unwrap();
        assert_eq!((measured.degree, measured.exchanges), (7, EXCHANGES));
        assert!(measured.bytes_up < 1_000 * usize::from(measured.bits) / 8 + 1_500, "{measured:?}");
        assert!(measured.client_ms > 0.0 && measured.server_ms > 0.0);
    }
}
