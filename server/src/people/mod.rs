//! People who sign in: their passwords, their failed attempts, and which refusals the audit log has already.

mod attempts;
mod passwords;
mod refusals;

pub(crate) use attempts::Attempts;
pub(crate) use passwords::{Passwords, PasswordsBusy};
pub(crate) use refusals::Refusals;

/// How callers reach the coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entrance {
    /// Whether its own listener speaks TLS.
    pub is_encrypted: bool,
    /// Whether a proxy is in front of it whose `X-Forwarded-For` and `X-Forwarded-Proto` are to be believed.
    pub is_behind_proxy: bool,
}

/// What one coordinator remembers about its callers. All of it may be lost in a restart.
#[derive(Debug, Default)]
pub struct People {
    pub entrance: Entrance,
    pub(crate) passwords: Passwords,
    pub(crate) attempts: Attempts,
    pub(crate) refusals: Refusals,
}

impl People {
    #[must_use]
    pub fn new(entrance: Entrance) -> Self {
        Self { entrance, ..Self::default() }
    }
}
