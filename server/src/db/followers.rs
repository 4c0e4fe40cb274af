//! Those who follow what transactions change about clients.

use std::sync::Arc;

use tributary_protocol::id::ClientId;

use super::changes::ClientChange;
use super::downloads::Downloads;
use super::recent::RecentClients;

/// Those who remember clients and follow what becomes of them.
#[derive(Clone, Debug)]
pub struct Followers {
    /// None where another coordinator may change a client.
    pub(super) recent: Option<Arc<RecentClients>>,
    pub(super) downloads: Arc<Downloads>,
}

impl Followers {
    /// Follows the changes of a transaction that was stored, or may have been. What could not be synced may be stored
    /// all the same, so a client that a failed commit changes is one that nobody knows any more.
    pub(super) fn follow(&self, changes: Vec<(ClientId, ClientChange)>, is_stored: bool) {
        for (client, change) in changes {
            match (change, &self.recent) {
                (ClientChange::Ended, _) if is_stored => self.downloads.forget(client),
                (ClientChange::Ended, _) | (_, None) => {}
                (ClientChange::Seen(seen), Some(recent)) if is_stored => recent.see(client, *seen),
                (_, Some(recent)) => recent.forget(client),
            }
        }
    }
}
