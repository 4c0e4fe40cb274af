//! People who sign in: their passwords, their identity provider, their failed attempts, and which refusals the audit
//! log has already.

mod attempts;
mod oidc;
mod passwords;
mod refusals;

pub(crate) use attempts::Attempts;
pub use oidc::{GroupRole, OidcSettings};
pub(crate) use oidc::{Oidc, OidcError, Returned};
pub(crate) use passwords::{Passwords, PasswordsBusy};
pub(crate) use refusals::{Noted, Refusals};

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
    pub(crate) oidc: Option<Oidc>,
}

impl People {
    /// Fails when no HTTP client can be made for the identity provider.
    pub fn new(entrance: Entrance, oidc: Option<OidcSettings>) -> Result<Self, reqwest::Error> {
        Ok(Self { entrance, oidc: oidc.map(Oidc::new).transpose()?, ..Self::default() })
    }
}
