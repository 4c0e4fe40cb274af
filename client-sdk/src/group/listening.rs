//! The one listener of a client, made when its first group needs it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::link::LinkError;
use super::listen::Listener;
use crate::clock::Clock;
use crate::keys::KeyStore;

/// Where a client listens, and how others reach it. Clones of a builder share it.
pub(crate) struct Listening {
    address: String,
    advertised: Vec<String>,
    listener: OnceCell<Listener>,
}

impl fmt::Debug for Listening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Listening").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Listening {
    pub(crate) fn new(address: String, advertised: Vec<String>) -> Self {
        Self { address, advertised, listener: OnceCell::new() }
    }

    /// The listener, bound when it is first asked for.
    ///
    /// # Errors
    /// [`LinkError::Listen`] if the address cannot be bound; a later call tries again.
    pub(crate) async fn listener(
        &self,
        keys: &Arc<dyn KeyStore>,
        clock: &Arc<dyn Clock>,
    ) -> Result<&Listener, LinkError> {
        let bind = || Listener::bind(&self.address, Arc::clone(keys), Arc::clone(clock));
        self.listener.get_or_try_init(bind).await
    }

    /// The addresses at which others reach this client: the advertised ones, or the bound one if there are none.
    pub(crate) fn addresses(&self, listener: &Listener) -> Vec<String> {
        match self.advertised.is_empty() {
            true => vec![listener.local_address().to_string()],
            false => self.advertised.clone(),
        }
    }
}
