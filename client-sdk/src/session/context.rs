//! What the sessions of a client have in common: its settings, and who it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::lock::Mutex;
use tributary_protocol::abilities::{Abilities, Ability};
use tributary_protocol::credential::{CertificateRequest, Renewal};
use tributary_protocol::device::{Attributes, Consent, EnrolRequest};
use tributary_protocol::id::{Name, Secret};

use crate::attest::Attest;
use crate::clock::Clock;
use crate::error::ClientError;
use crate::floor::PrivacyFloor;
use crate::keys::request::{certificate_request, fingerprint};
use crate::keys::{ClientCertificate, KeyStore};
use crate::platform;
use crate::releases::Channels;
use crate::secure::Signing;
use crate::store::state::{Identity, State};
use crate::table::Table;
use crate::transport::coordinator::Coordinator;

/// Certificates, in PEM, of another authority than the coordinator's own.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerCertificates {
    /// The CAs that members of groups must have their certificates from.
    pub(crate) cas: Option<String>,
    /// The device's own certificate.
    pub(crate) certificate: Option<String>,
}

/// The settings of a client, its store and its coordinator.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) server: String,
    pub(crate) enrolment: Secret,
    pub(crate) attributes: Attributes,
    pub(crate) consent: Option<Consent>,
    /// Kind of the SDK.
    pub(crate) sdk: Name,
    pub(crate) wait_ms: u32,
    /// How often a training that goes on is stored; `None` for never.
    pub(crate) checkpoint_every_ms: Option<u64>,
    /// Rows that the client tells together at least.
    pub(crate) describe_floor: u64,
    /// The least privacy with which the client takes part.
    pub(crate) floor: PrivacyFloor,
    /// What analyses are answered from; `None` for no answers.
    pub(crate) table: Option<Arc<dyn Table>>,
    pub(crate) state: State,
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keys: Arc<dyn KeyStore>,
    /// With which the app replaces the coordinator's certificates in groups.
    pub(crate) peers: PeerCertificates,
    /// Where other members of groups reach the client.
    #[cfg(feature = "group")]
    pub(crate) listening: Option<Arc<crate::group::Listening>>,
    pub(crate) attester: Option<Arc<dyn Attest>>,
    /// The channels whose releases the app follows.
    pub(crate) channels: Channels,
    /// Held by a call that enrols: of calls at the same time, one does.
    pub(crate) enrolling: Mutex<()>,
    /// Whether the transport presents the certificate of the stored identity.
    pub(crate) is_presented: AtomicBool,
}

impl Context {
    /// Who the client is; enrols it if the store has no identity.
    pub(crate) async fn identity(&self) -> Result<Identity, ClientError> {
        if let Some(identity) = self.state.identity(&self.server)? {
            return self.presented(identity);
        }
        let _turn = self.enrolling.lock().await;
        match self.state.identity(&self.server)? {
            Some(identity) => self.presented(identity),
            None => self.enrol().await,
        }
    }

    /// Who the client is after the coordinator did not know this identity: the one with which another call has replaced
    /// it meanwhile, or a new one.
    pub(crate) async fn identity_after(&self, unknown: &Identity) -> Result<Identity, ClientError> {
        let _turn = self.enrolling.lock().await;
        match self.state.identity(&self.server)?.filter(|stored| stored.secret != unknown.secret) {
            Some(identity) => self.presented(identity),
            None => self.enrol().await,
        }
    }

    /// Tells the coordinator that the client has left, if it does not know yet.
    ///
    /// # Errors
    /// [`ClientError`] if the store fails, or the coordinator does not answer.
    pub(crate) async fn tell_left(&self) -> Result<(), ClientError> {
        let Some(left) = self.state.left(&self.server)? else { return Ok(()) };
        let left = self.presented(left)?;
        match self.coordinator.leave(&left.secret).await {
            // It knows no such client, or will never answer another way.
            Err(error) if error.is_final() => tracing::info!(%error, "the coordinator will not delete the client"),
            told => told?,
        }
        self.is_presented.store(false, Ordering::Relaxed);
        Ok(self.state.gone()?)
    }

    /// Becomes a client: a new one, or the same one again if an earlier certificate is presented. The stored identity
    /// is replaced only once that has worked.
    async fn enrol(&self) -> Result<Identity, ClientError> {
        self.tell_left().await?;
        let has_key = self.coordinator.takes_certificates();
        let key = if has_key { Some(fingerprint(self.keys.as_ref())?) } else { None };
        let attestation = match &self.attester {
            Some(attester) => Some(attester.attest(key).await?),
            None => None,
        };
        let certificate_request = if has_key { Some(certificate_request(self.keys.as_ref())?) } else { None };
        let request = EnrolRequest {
            attributes: self.attributes.clone(),
            certificate_request,
            attestation,
            consent: self.consent.clone(),
        };
        let enrolled = self.coordinator.enrol(&self.enrolment, &request).await?;
        let issued = enrolled.certificate.map(|issued| (issued.certificate, issued.authority));
        let (certificate, authority) = issued.unzip();
        let identity = Identity {
            server: self.server.clone(),
            client: enrolled.client,
            secret: enrolled.secret,
            population: enrolled.population,
            certificate,
            authority,
        };
        self.adopt(&identity)?;
        Ok(identity)
    }

    /// Replaces these credentials. The old ones work a while longer, so a failure only delays it to the next session.
    pub(crate) async fn renew(&self, identity: &mut Identity, due: &[Renewal]) {
        for renewal in due {
            if let Err(error) = self.renewed(identity, *renewal).await {
                tracing::warn!(%error, ?renewal, "a credential is not renewed yet");
            }
        }
    }

    async fn renewed(&self, identity: &mut Identity, renewal: Renewal) -> Result<(), ClientError> {
        let mut next = identity.clone();
        match renewal {
            Renewal::Certificate if !self.coordinator.takes_certificates() => return Ok(()),
            Renewal::Certificate => {
                let request = CertificateRequest { certificate_request: certificate_request(self.keys.as_ref())? };
                let issued = self.coordinator.certificate(&identity.secret, &request).await?;
                next.certificate = Some(issued.certificate);
                next.authority = Some(issued.authority);
            }
            Renewal::Secret => next.secret = self.coordinator.next_secret(&identity.secret).await?.secret,
        }
        self.adopt(&next)?;
        *identity = next;
        Ok(())
    }

    /// What the client can do with this trainer.
    pub(crate) fn abilities(&self, trainer: Abilities) -> Abilities {
        #[cfg(feature = "group")]
        if self.listening.is_some() {
            return trainer.with(Ability::Ring);
        }
        trainer.without(Ability::Ring).without(Ability::Exchange).without(Ability::Gossip)
    }

    /// Whether the client has a certificate with which it can sign in a group.
    pub(crate) fn can_sign(&self, identity: &Identity) -> bool {
        self.certificates(identity).is_some()
    }

    /// What the client signs with in its groups.
    ///
    /// # Errors
    /// [`ClientError::Privacy`] if it has no certificate for its key, or none that the CA issued that it trusts.
    pub(crate) fn signing(&self, identity: &Identity) -> Result<Signing, ClientError> {
        let none = || ClientError::Privacy("it cannot sign in a group: it has no certificate".into());
        platform::signing(self.certificates(identity).ok_or_else(none)?, &self.keys)
    }

    /// The client's certificate, and the CA whose certificates it trusts: what the app gave, else the coordinator's.
    fn certificates<'a>(&'a self, identity: &'a Identity) -> Option<(&'a str, &'a str)> {
        let own = self.peers.certificate.as_ref().or(identity.certificate.as_ref())?;
        let cas = self.peers.cas.as_ref().or(identity.authority.as_ref())?;
        Some((own, cas))
    }

    /// Stores an identity, then uses it.
    fn adopt(&self, identity: &Identity) -> Result<(), ClientError> {
        self.state.save_identity(identity)?;
        self.is_presented.store(false, Ordering::Relaxed);
        self.presented(identity.clone()).map(drop)
    }

    /// Presents the certificate of an identity. One for a key that is lost is left out: the handshake would fail, and
    /// without it the coordinator says what to do.
    fn presented(&self, mut identity: Identity) -> Result<Identity, ClientError> {
        let is_needed = self.coordinator.takes_certificates() && !self.is_presented.load(Ordering::Relaxed);
        let Some(pem) = identity.certificate.as_ref().filter(|_| is_needed) else { return Ok(identity) };
        let certificate = ClientCertificate::from_pem(pem, Arc::clone(&self.keys))?;
        if certificate.is_for_its_key()? {
            self.coordinator.present(&certificate)?;
            self.is_presented.store(true, Ordering::Relaxed);
        } else {
            tracing::warn!(client = %identity.client, "the device's key is another one than that of its certificate");
            identity.certificate = None;
        }
        Ok(identity)
    }
}
