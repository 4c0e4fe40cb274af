//! Settings of a client as data, as the facades of other languages and files have them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
#[cfg(feature = "native")]
use std::path::PathBuf;

use serde::Deserialize;
use tributary_protocol::device::Consent;

use crate::floor::PrivacyFloor;

/// What a client is made from, as text: `Builder::from` makes a [`Builder`](super::Builder) of it. What is `None` has
/// the default of the builder. In JSON its names may also be written as JavaScript writes them, such as `waitMs`.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// URL of the coordinator.
    pub server: String,
    /// The enrolment token, which admits the client to a population.
    pub token: String,
    /// Describes the device, as [`Builder::attribute`](super::Builder::attribute).
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    /// The consent with which the client takes part, as [`Builder::consent`](super::Builder::consent).
    #[serde(default)]
    pub consent: Option<Consent>,
    /// The channels whose releases the app follows, as [`Builder::channel`](super::Builder::channel).
    #[serde(default)]
    pub channels: BTreeSet<String>,
    /// The kind of this client, as [`Builder::sdk`](super::Builder::sdk).
    #[serde(default)]
    pub sdk: Option<String>,
    /// How many milliseconds the coordinator may hold a check-in, as [`Builder::wait`](super::Builder::wait).
    #[serde(default, alias = "waitMs")]
    pub wait_ms: Option<u32>,
    /// How many seconds lie between two checkpoints of a training, as
    /// [`Builder::checkpoint_every`](super::Builder::checkpoint_every); 0 for none.
    #[serde(default, alias = "checkpointEveryS")]
    pub checkpoint_every_s: Option<u32>,
    /// Rows that a count must speak of, as [`Builder::describe_floor`](super::Builder::describe_floor).
    #[serde(default, alias = "describeFloor")]
    pub describe_floor: Option<u64>,
    /// The least privacy with which the client takes part, as
    /// [`Builder::privacy_floor`](super::Builder::privacy_floor).
    #[serde(default, alias = "privacyFloor")]
    pub privacy_floor: PrivacyFloor,
    /// The CAs of members of groups in PEM, as [`Builder::peers_ca`](super::Builder::peers_ca).
    #[serde(default, alias = "peersCa")]
    pub peers_ca: Option<String>,
    /// The device's certificate in PEM, as [`Builder::peers_certificate`](super::Builder::peers_certificate).
    #[serde(default, alias = "peersCertificate")]
    pub peers_certificate: Option<String>,
    /// Allows `http://` to other machines, as [`Builder::allow_plaintext`](super::Builder::allow_plaintext).
    #[serde(default, alias = "allowPlaintext")]
    pub allow_plaintext: bool,
    /// A folder for identity, model cache and undelivered work, as [`Builder::state_dir`](super::Builder::state_dir).
    #[cfg(feature = "native")]
    #[serde(default, alias = "stateDir")]
    pub state_dir: Option<PathBuf>,
    /// The CAs to trust in PEM, as [`Builder::ca_pem`](super::Builder::ca_pem).
    #[cfg(feature = "native")]
    #[serde(default, alias = "caPem")]
    pub ca_pem: Option<String>,
}

impl Settings {
    /// Settings of a client of the coordinator at the URL `server`, with defaults for all others.
    pub fn new(server: impl Into<String>, token: impl Into<String>) -> Self {
        Self { server: server.into(), token: token.into(), ..Self::default() }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token, which is a secret.
        let mut fields = formatter.debug_struct("Settings");
        fields.field("server", &self.server).field("attributes", &self.attributes).finish_non_exhaustive()
    }
}
