//! The client: how it is built, one session, and the loop around it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tributary_protocol::device::{Attributes, AttributesError, WAIT_MS_MAX};
use tributary_protocol::id::{ClientId, Secret, SecretKind};

use crate::ClientError;
use crate::clock::{Clock, SystemClock};
use crate::host::Host;
use crate::session;
use crate::state::State;
use crate::trainer::Trainer;
use crate::transport::{Transport, http_client};

/// How long a check-in is held when the app does not say.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// One client of a coordinator. Its state is in a directory of its own; two processes must not share one.
#[derive(Debug)]
pub struct Client {
    pub(crate) server: String,
    pub(crate) enrolment: Secret,
    pub(crate) attributes: Attributes,
    pub(crate) wait_ms: u32,
    pub(crate) state: State,
    pub(crate) transport: Transport,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What a session came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// An update was accepted.
    Contributed {
        /// The round's number in its job.
        round: u32,
        /// When to come back.
        retry_after: Duration,
    },
    /// An evaluation was accepted.
    Evaluated {
        /// Number of the round whose model was measured.
        round: u32,
        /// When to come back.
        retry_after: Duration,
    },
    /// There was no work.
    NothingToDo {
        /// When to come back.
        retry_after: Duration,
    },
    /// The round closed before this client was done: its work was dropped. Normal on a slow device.
    TooLate {
        /// The round's number in its job.
        round: u32,
        /// When to come back.
        retry_after: Duration,
    },
    /// The host asked to stop.
    Interrupted {
        /// When to come back.
        retry_after: Duration,
    },
}

impl Outcome {
    /// When to come back.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        match *self {
            Self::Contributed { retry_after, .. }
            | Self::Evaluated { retry_after, .. }
            | Self::NothingToDo { retry_after }
            | Self::TooLate { retry_after, .. }
            | Self::Interrupted { retry_after } => retry_after,
        }
    }
}

/// Settings of a client.
#[derive(Clone)]
pub struct Builder {
    server: String,
    enrolment_token: String,
    state_dir: PathBuf,
    attributes: BTreeMap<String, String>,
    wait: Duration,
    http: Option<reqwest::Client>,
    clock: Option<Arc<dyn Clock>>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token.
        let mut fields = formatter.debug_struct("Builder");
        fields.field("server", &self.server).field("state_dir", &self.state_dir).finish_non_exhaustive()
    }
}

impl Builder {
    /// Where identity, model cache and undelivered work are kept (`tributary` in the working directory unless set).
    #[must_use]
    pub fn state_dir(self, directory: impl Into<PathBuf>) -> Self {
        Self { state_dir: directory.into(), ..self }
    }

    /// Says what the device is: jobs may ask for attributes.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// How long a check-in is held while there is no work (30 s unless set, at most 60 s). A scheduled job on a phone
    /// wants little; a daemon wants much.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Uses the app's own HTTP client: its proxy, certificates, connection pool.
    #[must_use]
    pub fn http_client(self, http: reqwest::Client) -> Self {
        Self { http: Some(http), ..self }
    }

    /// Uses another clock.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Checks the settings. Nothing is read, written or sent yet.
    ///
    /// # Errors
    /// [`ClientError::BadServer`], [`ClientError::BadToken`], [`ClientError::Setup`].
    pub fn build(self) -> Result<Client, ClientError> {
        let server = self.server.trim_end_matches('/').to_owned();
        let known_scheme = server.starts_with("http://") || server.starts_with("https://");
        if !known_scheme || reqwest::Url::parse(&server).is_err() {
            return Err(ClientError::BadServer(server));
        }
        let enrolment: Secret = self.enrolment_token.trim().parse().map_err(|_| ClientError::BadToken)?;
        if enrolment.kind() != SecretKind::Enrolment {
            return Err(ClientError::BadToken);
        }
        let attributes = self.attributes.try_into();
        let attributes = attributes.map_err(|error: AttributesError| ClientError::Setup(error.to_string()))?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::default()));
        let http = match self.http {
            Some(http) => http,
            None => http_client()?,
        };
        Ok(Client {
            wait_ms: u32::try_from(self.wait.as_millis()).unwrap_or(u32::MAX).min(WAIT_MS_MAX),
            state: State::new(self.state_dir),
            transport: Transport::new(http, server.clone(), Arc::clone(&clock)),
            server,
            enrolment,
            attributes,
            clock,
        })
    }
}

impl Client {
    /// A client of the coordinator at `server`, which `enrolment_token` lets into a population.
    #[must_use]
    pub fn builder(server: impl Into<String>, enrolment_token: impl Into<String>) -> Builder {
        Builder {
            server: server.into(),
            enrolment_token: enrolment_token.into(),
            state_dir: PathBuf::from("tributary"),
            attributes: BTreeMap::new(),
            wait: WAIT_DEFAULT,
            http: None,
            clock: None,
        }
    }

    /// Enrols, if that has not happened yet. A session does it by itself; an app that wants to know the client's id, or
    /// to learn early that its token does not work, asks first.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn enrol(&self) -> Result<ClientId, ClientError> {
        Ok(session::identity(self).await?.client)
    }

    /// One session: delivers work that is pending, or checks in and does one round's work. Training runs on the calling
    /// task (on a multi-threaded runtime the other tasks move to other threads meanwhile).
    ///
    /// # Errors
    /// [`ClientError`]; work that is done stays on disk and is delivered by a later session.
    pub async fn run_once<T: Trainer + ?Sized>(
        &self,
        trainer: &mut T,
        host: &dyn Host,
    ) -> Result<Outcome, ClientError> {
        session::run_once(self, trainer, host).await
    }

    /// Runs session after session, waiting in between as the coordinator asks, until `shutdown` ends. A session that
    /// fails is logged and tried again after a pause.
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
                        tracing::warn!(%error, "a session failed; it is tried again");
                        let window = error.retry_after().and_then(|window| u64::try_from(window.as_millis()).ok());
                        self.transport.pause(failures, window)
                    }
                };
                self.clock.sleep(pause).await;
            }
        };
        tokio::select! {
            () = sessions => {}
            () = shutdown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> String {
        Secret::from_random(SecretKind::Enrolment, [1; 32]).expose()
    }

    #[test]
    fn a_builder_names_the_wrong_setting_and_touches_nothing() {
        let build = |server: &str, token: &str| Client::builder(server, token).state_dir("/nonexistent/x").build();
        assert!(build("http://127.0.0.1:1", &token()).is_ok());
        assert!(matches!(build("127.0.0.1:1", &token()), Err(ClientError::BadServer(_))));
        assert!(matches!(build("http://", &token()), Err(ClientError::BadServer(_))));
        assert!(matches!(build("http://a", "secret"), Err(ClientError::BadToken)));
        let operator = Secret::from_random(SecretKind::Operator, [1; 32]).expose();
        assert!(matches!(build("http://a", &operator), Err(ClientError::BadToken)));
        let long = Client::builder("http://a", token()).attribute("x", "y".repeat(1000)).build();
        assert!(matches!(long, Err(ClientError::Setup(_))));
    }
}
