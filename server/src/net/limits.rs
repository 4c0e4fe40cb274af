//! Limits of connections, and the limit of open files that they follow from.

/// Open files that connections never take: at least this many, and one in [`KEPT_SHARE`] of more. The database, bodies
/// that are being written and the object store need them.
const KEPT_MIN: u64 = 256;
/// A process that may open few files keeps at most this share of them back: one in two.
const KEPT_SHARE_MAX: u64 = 2;
const KEPT_SHARE: u64 = 8;
const KEPT_MAX: u64 = 4096;
/// Connections by default where files are not the limit. A held client takes 10 to 20 KB.
const CONNECTIONS_MAX_DEFAULT: usize = 1 << 17;
/// One address may have one in this many of all connections by default. It is a large share, because a proxy, a CDN or
/// a provider's NAT brings many clients from one address.
const ADDRESS_SHARE: usize = 2;

/// Limits as an operator sets them. `None`: derived from the limit of open files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections in all.
    pub max: Option<usize>,
    /// Connections from one address; one IPv6 network of 64 bits counts as an address. Loopback addresses are exempt.
    pub per_address: Option<usize>,
}

/// Limits that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) max: usize,
    pub(super) per_address: usize,
}

impl Limits {
    /// `open_files` is the process's limit; `None` where it has none.
    pub(super) fn new(wanted: ConnectionLimits, open_files: Option<u64>) -> Self {
        let max = wanted.max.unwrap_or_else(|| connections_within(open_files));
        let per_address = wanted.per_address.unwrap_or(max.div_ceil(ADDRESS_SHARE));
        Self { max, per_address }
    }
}

/// Connections by default for a process with this limit of open files.
fn connections_within(open_files: Option<u64>) -> usize {
    let Some(files) = open_files else { return CONNECTIONS_MAX_DEFAULT };
    let kept = (files / KEPT_SHARE).clamp(KEPT_MIN, KEPT_MAX).min(files / KEPT_SHARE_MAX);
    usize::try_from(files - kept).unwrap_or(usize::MAX).min(CONNECTIONS_MAX_DEFAULT)
}

/// The process's limit of open files; `None` where it has none.
#[cfg(unix)]
pub(super) fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
pub(super) fn open_files() -> Option<u64> {
    None
}

/// Raises the soft limit of open files to the hard one, for this process and those that it starts. The soft limit is
/// low by tradition (1,024), for programs that use `select`. Where the system refuses, the limit stays.
pub fn raise_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        /// The most that macOS allows where the hard limit says that there is none.
        const OPEN_MAX: u64 = 10_240;
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
            .or_else(|_| setrlimit(Resource::Nofile, Rlimit { current: Some(OPEN_MAX), maximum }));
        if let Err(error) = raised {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_back_for_the_database() {
        for (files, connections) in
            [(64, 32), (256, 128), (1_024, 768), (20_000, 17_500), (65_536, 61_440), (1 << 30, 1 << 17)]
        {
            assert_eq!(connections_within(Some(files)), connections, "{files}");
        }
        assert_eq!(connections_within(None), 1 << 17);
    }

    #[test]
    fn what_an_operator_sets_holds_and_one_address_gets_half_of_it() {
        let wanted = ConnectionLimits { max: Some(9), per_address: None };
        assert_eq!(Limits::new(wanted, Some(64)), Limits { max: 9, per_address: 5 });
        let wanted = ConnectionLimits { max: None, per_address: Some(3) };
        assert_eq!(Limits::new(wanted, Some(64)), Limits { max: 32, per_address: 3 });
    }

    #[cfg(unix)]
    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise_open_files();
        let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        assert_eq!(limits.current, limits.maximum);
        assert_eq!(open_files(), limits.current);
    }
}
