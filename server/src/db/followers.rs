//! Those who follow what transactions change about clients.

use tributary_protocol::id::ClientId;

use super::changes::{ClientChange, Follower};
use super::downloads::{Download, Downloads};
use super::recent::RecentClients;

/// Those who remember clients and follow what becomes of them.
#[derive(Debug, Default)]
pub struct Followers {
    /// None where another coordinator may change a client.
    pub(super) recent: Option<RecentClients>,
    pub(super) downloads: Downloads,
}

impl Followers {
    /// Followers of a database that no other coordinator changes.
    pub(super) fn remembering() -> Self {
        Self { recent: Some(RecentClients::default()), downloads: Downloads::default() }
    }
}

impl Follower for Followers {
    fn remembers(&self) -> bool {
        self.recent.is_some()
    }

    /// What could not be synced may be stored all the same, so a client that a failed commit changes is remembered by
    /// nobody any more.
    fn follow(&self, changes: Vec<(ClientId, ClientChange)>, is_stored: bool) {
        for (client, change) in changes {
            match (change, &self.recent) {
                (ClientChange::Ended, _) if is_stored => self.downloads.forget(client),
                (ClientChange::Ended, _) | (_, None) => {}
                (ClientChange::Seen(seen), Some(recent)) if is_stored => recent.see(client, *seen),
                (_, Some(recent)) => recent.forget(client),
            }
        }
    }

    fn downloaded(&self, client: ClientId) -> Download {
        self.downloads.of(client)
    }

    fn forget_downloads(&self, client: ClientId) {
        self.downloads.forget(client);
    }
}
