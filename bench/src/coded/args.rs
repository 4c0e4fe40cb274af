//! What a coded benchmark plays.

use clap::Args;

/// Rounds before the measured ones, in which files grow and caches fill.
pub(super) const WARM_UP_ROUNDS: u32 = 1;
/// Longest time of a round and of the wait for its members, in seconds.
pub(super) const ROUND_S_MAX: u64 = 3600;

#[derive(Clone, Debug, Args)]
pub(crate) struct CodedArgs {
    /// Members, and parts of the data: a multiple of --stragglers + 1. With n + n^2 of them, such as 6, 12 and 20,
    /// there is a coded tree of n relays with n clients each and one beside, if n relays have a code for --stragglers.
    #[arg(long, default_value_t = 12, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(super) members: u16,
    /// Members without whose answers a coded round and an over-selected one end.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=31))]
    pub(super) stragglers: u16,
    /// Slow members, and by how many times: 1x10 is one that takes ten times as long. They are the first ones, which
    /// hold the same parts.
    #[arg(long, default_value = "1x10", value_name = "MEMBERSxTIMES", value_parser = parse_slow)]
    pub(super) slow: Slow,
    /// Parameters of the model.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(super) parameters: u32,
    /// Time in which a member that is not slow trains on a part, in milliseconds.
    #[arg(long, default_value_t = 1_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub(super) compute_ms: u64,
    /// Rounds to measure of each scheme, after one that is not measured.
    #[arg(long, default_value_t = 3, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
}

/// Members that take longer for the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    pub(super) members: u16,
    pub(super) times: u16,
}

fn parse_slow(text: &str) -> Result<Slow, String> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|number| (1..=1000).contains(number));
    let slow = text.split_once('x').and_then(|(members, times)| Some((number(members)?, number(times)?)));
    let (members, times) = slow.ok_or("members and how many times as long they take, such as 1x10")?;
    Ok(Slow { members, times })
}

/// The arguments of a command line.
#[cfg(test)]
pub(super) fn parsed(arguments: &[&str]) -> CodedArgs {
    <CommandLine as clap::Parser>::parse_from(["coded"].iter().chain(arguments)).args
}

#[cfg(test)]
#[derive(clap::Parser)]
struct CommandLine {
    #[command(flatten)]
    args: CodedArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_members_are_a_count_and_a_factor() {
        assert_eq!(parse_slow("1x10"), Ok(Slow { members: 1, times: 10 }));
        assert_eq!(parse_slow("12x1"), Ok(Slow { members: 12, times: 1 }));
        for text in ["", "1", "x10", "1x", "0x10", "1x0", "1x-1", "1x1.5", "1x2x3", "1x1001"] {
            parse_slow(text).unwrap_err();
        }
    }
}
