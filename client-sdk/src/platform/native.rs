//! An operating system: files, sockets with TLS, threads, timers.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tributary_protocol::hash::Sha256Hash;

use crate::clock::{Clock, SystemClock};
use crate::error::ClientError;
use crate::keys::{ClientCertificate, KeyStore, StoredKey};
use crate::secure::{CertifiedPeers, Signing};
use crate::store::{FileStore, Store};
use crate::transport::{HttpTransport, Transport, Trust};

pub(crate) use crate::transport::{is_exposed, is_url};

/// The folder `tributary` in the working directory.
pub(crate) fn default_store() -> Result<Arc<dyn Store>, ClientError> {
    Ok(Arc::new(FileStore::new("tributary")))
}

pub(crate) fn default_keys(store: &Arc<dyn Store>) -> Arc<dyn KeyStore> {
    Arc::new(StoredKey::new(Arc::clone(store)))
}

pub(crate) fn default_clock() -> Result<Arc<dyn Clock>, ClientError> {
    Ok(Arc::new(SystemClock::default()))
}

/// What a client signs with in its groups: the first certificate of a text in PEM, for the device's key. It trusts the
/// CAs of the other text.
pub(crate) fn signing((own, cas): (&str, &str), keys: &Arc<dyn KeyStore>) -> Result<Signing, ClientError> {
    let unusable = |error: &dyn Display| ClientError::Privacy(format!("it cannot sign in a group: {error}"));
    let own_certificate = ClientCertificate::from_pem(own, Arc::clone(keys)).map_err(|error| unusable(&error))?;
    if !own_certificate.is_for_its_key().map_err(|error| unusable(&error))? {
        return Err(unusable(&"its certificate is for another key than the device's"));
    }
    let peers = CertifiedPeers::from_pem(own.as_bytes(), cas.as_bytes()).map_err(|error| unusable(&error))?;
    Ok(Signing { certificate: peers.own().to_vec(), peers: Arc::new(peers) })
}

/// HTTP over TCP. Trusted are the CAs of this PEM text, else the one that the enrolment token names, else the system's.
pub(crate) fn default_transport(
    ca_pem: Option<&[u8]>,
    pinned: Option<Sha256Hash>,
) -> Result<Arc<dyn Transport>, ClientError> {
    let trust = match (ca_pem, pinned) {
        (Some(pem), _) => Trust::authorities(pem).map_err(|error| ClientError::Setup(error.to_string()))?,
        (None, Some(fingerprint)) => Trust::Pinned(fingerprint),
        (None, None) => Trust::System,
    };
    Ok(Arc::new(HttpTransport::trusting(&trust).map_err(|error| ClientError::Setup(error.to_string()))?))
}

/// What the work gives; `None` if it takes longer than this. The machine measures it, whatever the client's clock says:
/// nobody else can interrupt a silent connection.
pub(crate) async fn within<T>(_: &dyn Clock, time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, work).await.ok()
}

/// Runs a computation. On a multi-threaded runtime the other tasks continue meanwhile.
pub(crate) fn computing<T>(compute: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(compute),
        _ => compute(),
    }
}

/// Blocks a computation for this time. `false`, at once, on a runtime with a single thread, whose timers and other
/// tasks would stand still.
pub(crate) fn rest(clock: &dyn Clock, time: Duration) -> bool {
    let handle = Handle::try_current().ok().filter(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    handle.map(|handle| handle.block_on(clock.sleep(time))).is_some()
}

/// Runs tasks while the client computes.
#[derive(Debug)]
pub(crate) struct Background(Handle);

impl Background {
    /// `None` on a runtime with a single thread, which has no other task while the client computes.
    pub(crate) fn here() -> Option<Self> {
        let is_multi = |handle: &Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
        Handle::try_current().ok().filter(is_multi).map(Self)
    }

    pub(crate) fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }
}
