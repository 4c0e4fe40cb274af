//! No operating system: the app brings transport, store and clock, and one thread does everything.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tributary_protocol::hash::Sha256Hash;

use crate::clock::Clock;
use crate::error::ClientError;
use crate::keys::{KeyStore, NoKey};
use crate::secure::Signing;
use crate::store::Store;
use crate::transport::Transport;

pub(crate) use crate::clock::within;

fn missing<T>(what: &str) -> Result<T, ClientError> {
    Err(ClientError::Setup(format!("this build has no {what} of its own: give the builder one")))
}

pub(crate) fn default_store() -> Result<Arc<dyn Store>, ClientError> {
    missing("store")
}

pub(crate) fn default_clock() -> Result<Arc<dyn Clock>, ClientError> {
    missing("clock")
}

pub(crate) fn default_transport(_: Option<&[u8]>, _: Option<Sha256Hash>) -> Result<Arc<dyn Transport>, ClientError> {
    missing("transport")
}

pub(crate) fn default_keys(_: &Arc<dyn Store>) -> Arc<dyn KeyStore> {
    Arc::new(NoKey)
}

/// Without a key of the device, nothing is signed.
pub(crate) fn signing(_: (&str, &str), _: &Arc<dyn KeyStore>) -> Result<Signing, ClientError> {
    missing("certificates")
}

/// Whether requests can be sent to paths below this URL. A name of another script than Latin is written as browsers
/// send it (`xn--..`).
pub(crate) fn is_url(text: &str) -> bool {
    let known_scheme = text.starts_with("http://") || text.starts_with("https://");
    known_scheme && text.parse::<Uri>().is_ok_and(|url| url.host().is_some_and(|host| !host.is_empty()))
}

/// Whether requests to this URL would cross a network without encryption: plain HTTP to another machine.
pub(crate) fn is_exposed(url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let is_loopback = url.host().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    });
    url.scheme_str() == Some("http") && !is_loopback
}

pub(crate) fn computing<T>(compute: impl FnOnce() -> T) -> T {
    compute()
}

/// One thread cannot wait for what only its own events change.
pub(crate) fn rest(_: &dyn Clock, _: Duration) -> bool {
    false
}

/// No task runs while the client computes.
#[derive(Debug)]
pub(crate) enum Background {}

impl Background {
    pub(crate) fn here() -> Option<Self> {
        None
    }

    pub(crate) fn run(&self, _: impl Future<Output = ()> + Send + 'static) {
        match *self {}
    }
}
