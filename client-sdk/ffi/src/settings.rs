//! What a client is made from.

use std::collections::HashMap;
use std::sync::Arc;

use tributary_client::{BlockingClient, Builder};
use tributary_protocol::device;

use crate::attest::{AppAttester, Attester};
use crate::errors::TributaryError;
use crate::keys::{AppKeys, KeyStore};
use crate::table::{AppTable, Table};

/// The language of the bindings that UniFFI makes for this target. C says so itself.
const LANGUAGE: &str = if cfg!(target_vendor = "apple") { "swift" } else { "kotlin" };

/// The consent with which a client takes part. Operators see it with the client.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Consent {
    /// Names the text that was agreed to, such as `consent-v3`: 1 to 128 bytes.
    pub text: String,
    /// When it was given, in milliseconds since 1970.
    pub given_at_ms: i64,
}

/// The least privacy with which an app takes part: the client refuses weaker jobs by itself.
#[derive(Clone, Copy, Debug, Default, uniffi::Record)]
pub struct PrivacyFloor {
    /// Only jobs whose updates are masked, so that the coordinator learns sums of groups alone.
    #[uniffi(default = false)]
    pub secure_aggregation: bool,
    /// Fewest members whose updates are in a sum with this client's.
    #[uniffi(default = 0)]
    pub survivors_min: u16,
    /// Only groups whose members sign who they are and who has survived.
    #[uniffi(default = false)]
    pub signed: bool,
    /// Largest epsilon that this client spends in a job, against the coordinator, but for a chance of 1e-6.
    #[uniffi(default = None)]
    pub epsilon_max: Option<f64>,
    /// Largest norm to which updates are clipped, where they are masked.
    #[uniffi(default = None)]
    pub clip_max: Option<f64>,
}

/// Settings of a client.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Settings {
    /// URL of the coordinator.
    pub server: String,
    /// The enrolment token, which admits the client to a population.
    pub token: String,
    /// A folder for identity, model cache and undelivered work. Two clients must not share it.
    pub state_dir: String,
    /// Describes the device; jobs choose clients by attributes.
    #[uniffi(default)]
    pub attributes: HashMap<String, String>,
    /// How long the coordinator may hold a check-in while it has no work, at most 60,000.
    #[uniffi(default = 30000)]
    pub wait_ms: u32,
    /// How many seconds lie between two checkpoints of a training, from which the next session goes on after the app
    /// was killed; 0 for none.
    #[uniffi(default = 300)]
    pub checkpoint_every_s: u32,
    /// The channels whose releases sessions and updates get, at most 8.
    #[uniffi(default)]
    pub channels: Vec<String>,
    /// The consent with which the client takes part, told at its enrolment.
    #[uniffi(default = None)]
    pub consent: Option<Consent>,
    /// What the app demands of every job.
    #[uniffi(default = None)]
    pub privacy_floor: Option<PrivacyFloor>,
    /// Accepts only certificates of these CAs, in PEM.
    #[uniffi(default = None)]
    pub ca_pem: Option<String>,
    /// Allows `http://` to other machines: everyone on the way could read models and updates.
    #[uniffi(default = false)]
    pub allow_plaintext: bool,
    /// Names the app's language on the dashboard: `kotlin`, `swift` or `c` by default.
    #[uniffi(default = None)]
    pub sdk: Option<String>,
}

impl Settings {
    /// The client of these settings. Nothing is read, written or sent yet.
    pub(crate) fn client(
        self,
        keys: Option<Arc<dyn KeyStore>>,
        attester: Option<Arc<dyn Attester>>,
        table: Option<Arc<dyn Table>>,
    ) -> Result<BlockingClient, TributaryError> {
        let mut settings = tributary_client::Settings::new(self.server, self.token);
        settings.state_dir = Some(self.state_dir.into());
        settings.attributes = self.attributes.into_iter().collect();
        settings.wait_ms = Some(self.wait_ms);
        settings.checkpoint_every_s = Some(self.checkpoint_every_s);
        settings.channels = self.channels.into_iter().collect();
        settings.consent = self.consent.map(|Consent { text, given_at_ms }| device::Consent { text, given_at_ms });
        if let Some(floor) = self.privacy_floor {
            let PrivacyFloor { secure_aggregation, survivors_min, signed, epsilon_max, clip_max } = floor;
            settings.privacy_floor.secure_aggregation = secure_aggregation;
            settings.privacy_floor.survivors_min = survivors_min;
            settings.privacy_floor.signed = signed;
            settings.privacy_floor.epsilon_max = epsilon_max;
            settings.privacy_floor.clip_max = clip_max;
        }
        settings.ca_pem = self.ca_pem;
        settings.allow_plaintext = self.allow_plaintext;
        settings.sdk = Some(self.sdk.unwrap_or_else(|| LANGUAGE.to_owned()));
        let mut builder = Builder::from(settings);
        if let Some(keys) = keys {
            builder = builder.key_store(Arc::new(AppKeys(keys)));
        }
        if let Some(attester) = attester {
            builder = builder.attestation(AppAttester(attester));
        }
        if let Some(table) = table {
            builder = builder.table(Arc::new(AppTable(table)));
        }
        Ok(BlockingClient::new(builder.build()?)?)
    }
}
