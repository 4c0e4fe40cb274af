//! What the sessions of a client have in common.

use std::sync::Arc;

use tributary_protocol::device::{Attributes, EnrolRequest};
use tributary_protocol::id::Secret;

use crate::clock::Clock;
use crate::error::ClientError;
use crate::store::state::{Identity, State};
use crate::transport::coordinator::Coordinator;

/// The settings of a client, its store and its coordinator.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) server: String,
    pub(crate) enrolment: Secret,
    pub(crate) attributes: Attributes,
    pub(crate) wait_ms: u32,
    pub(crate) state: State,
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Context {
    /// Who the client is; enrols it if the store has no identity.
    pub(crate) async fn identity(&self) -> Result<Identity, ClientError> {
        match self.state.identity(&self.server)? {
            Some(identity) => Ok(identity),
            None => self.enrol().await,
        }
    }

    /// Becomes a new client. The stored identity is replaced only once that has worked.
    pub(crate) async fn enrol(&self) -> Result<Identity, ClientError> {
        let request = EnrolRequest { attributes: self.attributes.clone() };
        let enrolled = self.coordinator.enrol(&self.enrolment, &request).await?;
        let identity = Identity {
            server: self.server.clone(),
            client: enrolled.client,
            secret: enrolled.secret,
            population: enrolled.population,
        };
        self.state.save_identity(&identity)?;
        Ok(identity)
    }
}
