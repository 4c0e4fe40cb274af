//! The client: its settings, one session, and the loop of sessions.

#[cfg(feature = "native")]
mod machine;
mod settings;
#[cfg(test)]
mod tests;
#[cfg(feature = "layers")]
mod usable;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::select;
use futures_util::lock::Mutex;
use tributary_protocol::device::{Attributes, AttributesError, CONSENT_BYTES_MAX, Consent, OpenJob};
use tributary_protocol::id::{ClientId, IdError, Name, PinnedSecret, SecretKind};
use tributary_protocol::release::CHANNELS_MAX;

use crate::attest::Attest;
use crate::clock::Clock;
use crate::error::ClientError;
use crate::floor::PrivacyFloor;
use crate::host::Host;
use crate::inputs::DESCRIBE_FLOOR;
use crate::keys::KeyStore;
use crate::outcome::Outcome;
use crate::platform;
#[cfg(feature = "layers")]
use crate::predict::UsableModel;
use crate::progress::{Listener, Progress};
use crate::relay::Uplink;
use crate::releases::{Channels, Freshness, ReleasedModel};
use crate::session::{Context, PeerCertificates, run_once, wait_ms};
use crate::store::Store;
use crate::store::state::State;
use crate::table::Table;
use crate::trainer::Trainer;
use crate::transport::Transport;
use crate::transport::coordinator::Coordinator;

pub use settings::Settings;

/// How long a check-in is held when the app does not say.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// How often a training that goes on is stored when the app does not say.
const CHECKPOINT_DEFAULT: Duration = Duration::from_secs(300);

/// One client of a coordinator. It has a state directory of its own, which no other process can use meanwhile.
#[derive(Debug)]
pub struct Client {
    context: Context,
}

/// Settings of a client.
#[derive(Clone)]
pub struct Builder {
    server: String,
    enrolment_token: String,
    /// What is `None` here and below is the platform's, which may need a store or be unable to give it, so
    /// [`Self::build`] asks.
    store: Option<Arc<dyn Store>>,
    attributes: BTreeMap<String, String>,
    sdk: String,
    wait: Duration,
    /// Zero for never.
    checkpoint_every: Duration,
    describe_floor: u64,
    floor: PrivacyFloor,
    peers: PeerCertificates,
    table: Option<Arc<dyn Table>>,
    /// CAs in PEM.
    ca: Option<Vec<u8>>,
    allows_plaintext: bool,
    keys: Option<Arc<dyn KeyStore>>,
    #[cfg(feature = "group")]
    listening: Option<Arc<crate::group::Listening>>,
    attester: Option<Arc<dyn Attest>>,
    consent: Option<Consent>,
    channels: BTreeSet<String>,
    transport: Option<Arc<dyn Transport>>,
    clock: Option<Arc<dyn Clock>>,
    listener: Listener,
}

impl fmt::Debug for Builder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token, which is a secret.
        let mut fields = formatter.debug_struct("Builder");
        fields.field("server", &self.server).field("store", &self.store).finish_non_exhaustive()
    }
}

impl Builder {
    /// Keeps identity, model cache and undelivered work in this store instead of a directory.
    #[must_use]
    pub fn store(self, store: Arc<dyn Store>) -> Self {
        Self { store: Some(store), ..self }
    }

    /// Describes the device, for example `("platform", "android")`: jobs choose clients by attributes. At most 32, with
    /// names and values of 1 to 128 bytes.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Names the kind of this client for the operator. The facades of other languages name theirs: `python`, `kotlin`,
    /// `swift`, `c`. The default is `rust`.
    #[must_use]
    pub fn sdk(self, name: impl Into<String>) -> Self {
        Self { sdk: name.into(), ..self }
    }

    /// How long the coordinator may hold a check-in while it has no work: 30 s by default, 60 s at most. A job that a
    /// phone schedules should wait briefly, a daemon long.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// How often a training that goes on is stored, so that after a crash or a kill the next session goes on from
    /// there: 300 s by default; zero for never. A checkpoint takes the time to write the model and what the optimiser
    /// keeps. Trainers that cannot go on from one are not asked for any.
    #[must_use]
    pub fn checkpoint_every(self, checkpoint_every: Duration) -> Self {
        Self { checkpoint_every, ..self }
    }

    /// How many rows a count must speak of before the client tells it, where a job standardises its inputs: 5 by
    /// default. Smaller counts are withheld, and a client with fewer rows tells nothing.
    #[must_use]
    pub fn describe_floor(self, rows: u64) -> Self {
        Self { describe_floor: rows, ..self }
    }

    /// The least privacy with which the client takes part. Default: it takes part in every job of its population.
    #[must_use]
    pub fn privacy_floor(self, floor: PrivacyFloor) -> Self {
        Self { floor, ..self }
    }

    /// Trusts, in groups whose members sign, certificates of the CAs of this text in PEM alone, and takes part in no
    /// other groups. Default: the CA of the client's population. Its key is the coordinator's, so an operator who lies
    /// could invent all members of a group but one.
    #[must_use]
    pub fn peers_ca(mut self, pem: impl Into<String>) -> Self {
        self.peers.cas = Some(pem.into());
        self
    }

    /// Signs in groups with this certificate in PEM, which one of the CAs of [`Self::peers_ca`] issued for the device's
    /// key. Default: the certificate of the coordinator.
    #[must_use]
    pub fn peers_certificate(mut self, pem: impl Into<String>) -> Self {
        self.peers.certificate = Some(pem.into());
        self
    }

    /// Answers analyses from this table. Without one, the client gets none.
    #[must_use]
    pub fn table(self, table: Arc<dyn Table>) -> Self {
        Self { table: Some(table), ..self }
    }

    /// Keeps the device's key pair in secure hardware, for example, instead of the [`Self::store`]. It is used where
    /// the coordinator identifies clients by certificates.
    #[must_use]
    pub fn key_store(self, keys: Arc<dyn KeyStore>) -> Self {
        Self { keys: Some(keys), ..self }
    }

    /// Takes part in groups whose members add up among themselves. The client listens at `address`, such as
    /// `0.0.0.0:7400`. Other members connect to `advertised`, a host with a port; without it, to the address that the
    /// client listens at. Links are encrypted, and nobody but members gets beyond the handshake.
    #[cfg(feature = "group")]
    #[must_use]
    pub fn listen(self, address: impl Into<String>, advertised: Option<String>) -> Self {
        let listening = crate::group::Listening::new(address.into(), advertised.into_iter().collect());
        Self { listening: Some(Arc::new(listening)), ..self }
    }

    /// Sends a statement of the device's platform at enrolment, for coordinators whose operators demand one: an
    /// [`Attestation`](crate::Attestation), or what obtains one then.
    #[must_use]
    pub fn attestation(self, attester: impl Attest + 'static) -> Self {
        Self { attester: Some(Arc::new(attester)), ..self }
    }

    /// Tells the consent with which the client takes part, at its enrolment: the name of the text, such as its version,
    /// and when it was given, in milliseconds since 1970. Operators see it with the client.
    #[must_use]
    pub fn consent(self, text: impl Into<String>, given_at_ms: i64) -> Self {
        Self { consent: Some(Consent { text: text.into(), given_at_ms }), ..self }
    }

    /// Follows the releases of a channel, at most 8: sessions and [`Client::update_releases`] get them.
    #[must_use]
    pub fn channel(mut self, name: impl Into<String>) -> Self {
        self.channels.insert(name.into());
        self
    }

    /// Allows `http://` to other machines: everyone on the way can read models and updates, and copy the client's
    /// secret. On the loopback address it is always allowed, and to other machines it never is with a token that names
    /// a CA.
    #[must_use]
    pub fn allow_plaintext(self) -> Self {
        Self { allows_plaintext: true, ..self }
    }

    /// Sends requests over this transport instead of the SDK's own HTTP client.
    #[must_use]
    pub fn transport(self, transport: Arc<dyn Transport>) -> Self {
        Self { transport: Some(transport), ..self }
    }

    /// Takes time from this clock instead of the system's.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Calls this when a session begins to download, to train, to send, or to repeat a request. It must return at once.
    #[must_use]
    pub fn on_progress(self, listener: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self { listener: Listener(Some(Arc::new(listener))), ..self }
    }

    /// Checks the settings. Nothing is read, written or sent yet.
    ///
    /// # Errors
    /// [`ClientError::BadServer`], [`ClientError::Exposed`], [`ClientError::BadToken`] or [`ClientError::Setup`], for
    /// the setting that is wrong.
    pub fn build(self) -> Result<Client, ClientError> {
        let server = self.server.trim_end_matches('/').to_owned();
        if !platform::is_url(&server) {
            return Err(ClientError::BadServer(server));
        }
        if platform::is_exposed(&server) && !self.allows_plaintext {
            return Err(ClientError::Exposed(server));
        }
        let enrolment: PinnedSecret = self.enrolment_token.trim().parse().map_err(|_| ClientError::BadToken)?;
        if enrolment.secret().kind() != SecretKind::Enrolment {
            return Err(ClientError::BadToken);
        }
        // A token that names a CA is of a coordinator that speaks TLS. A server without TLS is another one.
        if platform::is_exposed(&server) && enrolment.ca().is_some() {
            return Err(ClientError::Exposed(server));
        }
        let attributes: Result<Attributes, AttributesError> = self.attributes.try_into();
        let attributes = attributes.map_err(|error| ClientError::Setup(error.to_string()))?;
        let sdk = self.sdk.parse().map_err(|error: IdError| ClientError::Setup(error.to_string()))?;
        let channels = followed(self.channels)?;
        let consent = self.consent.map(named).transpose()?;
        let transport = match self.transport {
            Some(transport) => transport,
            None => platform::default_transport(self.ca.as_deref(), enrolment.ca())?,
        };
        let store = self.store.map_or_else(platform::default_store, Ok)?;
        let clock = self.clock.map_or_else(platform::default_clock, Ok)?;
        let coordinator = Coordinator::new(transport, server.clone(), Arc::clone(&clock));
        Ok(Client {
            context: Context {
                describe_floor: self.describe_floor,
                floor: PrivacyFloor { signed: self.floor.signed || self.peers.cas.is_some(), ..self.floor },
                peers: self.peers,
                table: self.table,
                wait_ms: wait_ms(self.wait),
                checkpoint_every_ms: u64::try_from(self.checkpoint_every.as_millis())
                    .ok()
                    .filter(|every_ms| *every_ms > 0),
                keys: self.keys.unwrap_or_else(|| platform::default_keys(&store)),
                #[cfg(feature = "group")]
                listening: self.listening,
                attester: self.attester,
                enrolling: Mutex::default(),
                channels: Channels::of(channels),
                is_presented: AtomicBool::new(false),
                state: State::new(store),
                coordinator: Arc::new(coordinator.reporting_to(self.listener)),
                server,
                enrolment: enrolment.secret().clone(),
                attributes,
                consent,
                sdk,
                clock,
            },
        })
    }
}

impl From<Settings> for Builder {
    fn from(settings: Settings) -> Self {
        let mut builder = Client::builder(settings.server, settings.token);
        builder.attributes = settings.attributes;
        builder.allows_plaintext = settings.allow_plaintext;
        if let Some(sdk) = settings.sdk {
            builder = builder.sdk(sdk);
        }
        if let Some(wait_ms) = settings.wait_ms {
            builder = builder.wait(Duration::from_millis(wait_ms.into()));
        }
        if let Some(seconds) = settings.checkpoint_every_s {
            builder = builder.checkpoint_every(Duration::from_secs(seconds.into()));
        }
        if let Some(rows) = settings.describe_floor {
            builder = builder.describe_floor(rows);
        }
        builder.consent = settings.consent;
        builder.channels = settings.channels;
        builder.floor = settings.privacy_floor;
        builder.peers = PeerCertificates { cas: settings.peers_ca, certificate: settings.peers_certificate };
        #[cfg(feature = "native")]
        if let Some(directory) = settings.state_dir {
            builder = builder.state_dir(directory);
        }
        #[cfg(feature = "native")]
        if let Some(pem) = settings.ca_pem {
            builder = builder.ca_pem(pem);
        }
        builder
    }
}

impl Client {
    /// Settings of a client of the coordinator at the URL `server`. `enrolment_token` admits it to a population.
    pub fn builder(server: impl Into<String>, enrolment_token: impl Into<String>) -> Builder {
        Builder {
            server: server.into(),
            enrolment_token: enrolment_token.into(),
            store: None,
            attributes: BTreeMap::new(),
            sdk: "rust".to_owned(),
            wait: WAIT_DEFAULT,
            checkpoint_every: CHECKPOINT_DEFAULT,
            describe_floor: DESCRIBE_FLOOR,
            floor: PrivacyFloor::default(),
            peers: PeerCertificates::default(),
            table: None,
            ca: None,
            allows_plaintext: false,
            keys: None,
            #[cfg(feature = "group")]
            listening: None,
            attester: None,
            consent: None,
            channels: BTreeSet::new(),
            transport: None,
            clock: None,
            listener: Listener::default(),
        }
    }

    /// The client's id. Enrols the client first if it has none. A session enrols by itself: an app calls this to show
    /// the id, or to learn early that its token does not work.
    ///
    /// # Errors
    /// [`ClientError`] if the store fails, or the coordinator does not answer or refuses the token.
    pub async fn enrol(&self) -> Result<ClientId, ClientError> {
        Ok(self.context.identity().await?.client)
    }

    /// Leaves: deletes the device's state (identity, key, models, unfinished work, what jobs keep), and has the
    /// coordinator delete what it has stored of the client. Sums that the client is part of stay. Stop its sessions
    /// first. Returns whether the coordinator knows. If it does not answer, the next call of `leave` tells it, or the
    /// next session of an app that takes part again, as a new client.
    ///
    /// A key in a [`KeyStore`] of the app is the app's to delete, once the coordinator knows.
    ///
    /// # Errors
    /// [`ClientError`] if the state cannot be deleted, or the device's key not be used.
    pub async fn leave(&self) -> Result<bool, ClientError> {
        let _turn = self.context.enrolling.lock().await;
        self.context.state.leave()?;
        match self.context.tell_left().await {
            Ok(()) => Ok(true),
            Err(error) if error.is_temporary() => {
                tracing::info!(%error, "the client has left, which the coordinator does not know yet");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes of this client the connection of a relay to its parent coordinator. The enrolment token must grant the
    /// attribute `relay` with the value `true`. A relay neither trains nor answers: the builder's settings for these
    /// have no effect.
    pub fn into_uplink(self) -> Uplink {
        Uplink::new(self.context)
    }

    /// What the running jobs of the population require of examples. It needs no enrolment, so an app can check its
    /// examples first.
    ///
    /// # Errors
    /// [`ClientError`] if the coordinator does not answer or refuses the token.
    pub async fn open_jobs(&self) -> Result<Vec<OpenJob>, ClientError> {
        Ok(self.context.coordinator.open_jobs(&self.context.enrolment).await?.jobs)
    }

    /// The model of a job that the client downloaded last, with its own personal parameters: from the store, without a
    /// network. `None` until it has taken part in a round of the job, or if another job's model has replaced it. The
    /// last model stays usable whatever becomes of later downloads.
    ///
    /// # Errors
    /// [`ClientError::Store`] if the store cannot be read, [`ClientError::Unusable`] if the network is part of the app
    /// or has learned nothing yet.
    #[cfg(feature = "layers")]
    pub fn model(&self, job: &str) -> Result<Option<UsableModel>, ClientError> {
        usable::usable_model(&self.context.state, job)
    }

    /// The model that was released on a channel, such as `stable`, whether or not this client trains. Which release a
    /// client gets is the operator's decision. `None` until one is here.
    ///
    /// A release replaces the one before once it is whole, has its hash and can be used. The host is asked before each
    /// download. The coordinator says how often it may be asked: in between, [`Freshness::Latest`] is what is here.
    ///
    /// # Errors
    /// [`ClientError::Setup`] if the name is none, [`ClientError`] if the store fails, or if nothing is here and the
    /// coordinator does not answer.
    pub async fn released(
        &self,
        channel: &str,
        freshness: Freshness,
        host: &dyn Host,
    ) -> Result<Option<ReleasedModel>, ClientError> {
        let channel: Name = channel.parse().map_err(|error: IdError| ClientError::Setup(error.to_string()))?;
        Box::pin(self.context.released(&channel, freshness, host)).await
    }

    /// Gets the newest releases of the channels that the client follows, for an app whose devices never train. Returns
    /// when to call it again; an earlier call asks nothing. Sessions do the same at their check-ins.
    ///
    /// # Errors
    /// [`ClientError`] if the store fails or the coordinator does not answer; what is here stays.
    pub async fn update_releases(&self, host: &dyn Host) -> Result<Duration, ClientError> {
        Box::pin(self.context.update_followed(host)).await
    }

    /// Runs one session: it delivers finished work of an earlier session, or checks in and does the work of one round.
    ///
    /// Training runs on the calling task and blocks it. On tokio's multi-threaded runtime the other tasks continue on
    /// other threads, and one of them asks every few seconds whether the round is still open: training stops when it is
    /// not. On a single thread, training stops at the deadline. The future may be dropped at any time: finished work is
    /// then delivered by a later session.
    ///
    /// # Errors
    /// [`ClientError`]; finished work is kept, and a later session delivers it.
    pub async fn run_once<T: Trainer + ?Sized>(
        &self,
        trainer: &mut T,
        host: &dyn Host,
    ) -> Result<Outcome, ClientError> {
        let ended = run_once(&self.context, trainer, host).await;
        if host.may_continue() {
            Box::pin(self.context.update_due(host)).await;
        }
        ended
    }

    /// Runs sessions until `shutdown` completes. Between two sessions it waits as long as the coordinator asks, after a
    /// failed session with growing pauses; the failure is logged.
    pub async fn run<T: Trainer + ?Sized>(&self, trainer: &mut T, host: &dyn Host, shutdown: impl Future<Output = ()>) {
        let sessions = async {
            let mut failures = 0;
            loop {
                let pause = match self.run_once(trainer, host).await {
                    Ok(outcome) => {
                        tracing::debug!(?outcome, "a session ended");
                        failures = 0;
                        outcome.retry_after()
                    }
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(%error, "a session failed; another one follows");
                        let window = error.retry_after().and_then(|window| u64::try_from(window.as_millis()).ok());
                        self.context.coordinator.pause(failures, window)
                    }
                };
                self.context.clock.sleep(pause).await;
            }
        };
        select(pin!(sessions), pin!(shutdown)).await;
    }
}

/// The consent that an app tells.
fn named(consent: Consent) -> Result<Consent, ClientError> {
    match (1..=CONSENT_BYTES_MAX).contains(&consent.text.len()) {
        true => Ok(consent),
        false => Err(ClientError::Setup(format!("the text of a consent is named with 1 to {CONSENT_BYTES_MAX} bytes"))),
    }
}

/// The channels that an app named.
fn followed(names: BTreeSet<String>) -> Result<BTreeSet<Name>, ClientError> {
    if names.len() > CHANNELS_MAX {
        return Err(ClientError::Setup(format!("a client follows at most {CHANNELS_MAX} channels")));
    }
    let parsed = names.iter().map(|name| name.parse().map_err(|error: IdError| ClientError::Setup(error.to_string())));
    parsed.collect()
}
