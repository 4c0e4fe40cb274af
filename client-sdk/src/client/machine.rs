//! Settings of a client on an operating system.

use std::path::PathBuf;
use std::sync::Arc;

use super::Builder;
use crate::store::FileStore;
use crate::transport::HttpTransport;

impl Builder {
    /// Keeps identity, model cache and undelivered work in this directory, which is created when it is needed. The
    /// default is `tributary` in the working directory.
    #[must_use]
    pub fn state_dir(self, directory: impl Into<PathBuf>) -> Self {
        self.store(Arc::new(FileStore::new(directory)))
    }

    /// Accepts only certificates of the CAs in this PEM text, instead of those that the system trusts or that the
    /// enrolment token names.
    #[must_use]
    pub fn ca_pem(self, pem: impl Into<Vec<u8>>) -> Self {
        Self { ca: Some(pem.into()), ..self }
    }

    /// Sends requests over this HTTP client, with its proxy, certificates and connection pool. [`Self::ca_pem`] and the
    /// CA that an enrolment token names have no effect on it: give it
    /// [`Trust::client_config`](crate::Trust::client_config). It presents no certificate of the coordinator: an
    /// [`HttpTransport::with_settings`] does.
    #[must_use]
    pub fn http_client(self, http: reqwest::Client) -> Self {
        self.transport(Arc::new(HttpTransport::new(http)))
    }
}
