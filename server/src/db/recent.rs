//! Clients that authenticated lately, so that their next request needs no query.
//!
//! Only with SQLite: there, one coordinator makes every change. With PostgreSQL another one may revoke a client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::ClientId;

use super::changes::Seen;
use super::devices::KnownClient;
use super::tx::{Json, Text};
use crate::runtime::lock::Locked;

/// Most clients that are remembered, of about half a kilobyte each. When there are more, remembering begins anew.
const CLIENTS_MAX: usize = 1 << 16;

/// The remembered clients.
#[derive(Debug, Default)]
pub(super) struct RecentClients(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    clients: HashMap<ClientId, Arc<KnownClient>>,
    by_secret: HashMap<Sha256Hash, ClientId>,
    /// Number of changes of identities so far.
    changes: u64,
}

/// When a query began. What it reads is remembered only if no identity has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Began(u64);

impl RecentClients {
    /// The client with this hash of its secret; otherwise the beginning of the query that looks for it.
    pub(super) fn find(&self, secret: &Sha256Hash) -> Result<Arc<KnownClient>, Began> {
        let remembered = self.remembered();
        let client = remembered.by_secret.get(secret).and_then(|id| remembered.clients.get(id));
        client.cloned().ok_or(Began(remembered.changes))
    }

    /// Remembers what a query read, unless an identity has changed since it began: it may have read the one of before.
    pub(super) fn remember(&self, began: Began, client: &Arc<KnownClient>) {
        let mut remembered = self.remembered();
        if Began(remembered.changes) != began {
            return;
        }
        if remembered.clients.len() >= CLIENTS_MAX {
            remembered.clients.clear();
            remembered.by_secret.clear();
        }
        remembered.by_secret.insert(client.secret_sha256, client.client.id);
        remembered.clients.insert(client.client.id, Arc::clone(client));
    }

    /// Follows what a client declares.
    pub(super) fn see(&self, id: ClientId, Seen { attributes, sdk, examples, at_ms }: Seen) {
        let mut remembered = self.remembered();
        let Some(known) = remembered.clients.get_mut(&id) else { return };
        // Requests that are being answered keep the client as it was when they came.
        let client = &mut Arc::make_mut(known).client;
        client.attributes = Json(attributes);
        client.sdk = sdk.map(Text);
        (client.examples, client.last_seen_at_ms) = (examples, at_ms);
    }

    /// Forgets a client whose identity changes.
    pub(super) fn forget(&self, id: ClientId) {
        let mut remembered = self.remembered();
        remembered.changes += 1;
        if let Some(client) = remembered.clients.remove(&id) {
            remembered.by_secret.remove(&client.secret_sha256);
        }
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.locked()
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::device::Attributes;
    use tributary_protocol::state::Standing;

    use super::*;
    use crate::db::ClientRow;

    fn client(number: u8) -> Arc<KnownClient> {
        let client = ClientRow {
            id: ClientId::from_random([number; 16]),
            population: "devices".parse().unwrap(),
            number: number.into(),
            attributes: Json(Attributes::default()),
            granted: Json(Attributes::default()),
            standing: Standing::Active,
            sdk: None,
            examples: 0,
            created_at_ms: 0,
            last_seen_at_ms: 0,
        };
        let secret_sha256 = secret(number);
        Arc::new(KnownClient { client, secret_sha256, secret_at_ms: 0, certificate_until_ms: None })
    }

    fn secret(number: u8) -> Sha256Hash {
        Sha256Hash::of(&[number])
    }

    fn seen(examples: u64) -> Seen {
        Seen { attributes: Attributes::default(), sdk: None, examples, at_ms: 60_000 }
    }

    #[test]
    fn a_client_is_found_by_its_secret_until_its_identity_changes() {
        let recent = RecentClients::default();
        let began = recent.find(&secret(1)).unwrap_err();
        recent.remember(began, &client(1));
        recent.remember(began, &client(2));
        assert_eq!(recent.find(&secret(1)).unwrap().client.number, 1);
        recent.forget(client(1).client.id);
        assert!(recent.find(&secret(1)).is_err());
        assert_eq!(recent.find(&secret(2)).unwrap().client.number, 2);
    }

    #[test]
    fn what_a_query_read_before_a_change_is_not_remembered() {
        let recent = RecentClients::default();
        let began = recent.find(&secret(1)).unwrap_err();
        recent.forget(client(1).client.id);
        recent.remember(began, &client(1));
        assert!(recent.find(&secret(1)).is_err());
    }

    #[test]
    fn what_a_client_declares_is_followed() {
        let recent = RecentClients::default();
        recent.see(client(1).client.id, seen(3));
        let began = recent.find(&secret(1)).unwrap_err();
        recent.remember(began, &client(1));
        recent.see(client(1).client.id, seen(7));
        let found = recent.find(&secret(1)).unwrap();
        assert_eq!((found.client.examples, found.client.last_seen_at_ms), (7, 60_000));
    }

    #[test]
    fn no_more_clients_are_remembered_than_the_limit() {
        let recent = RecentClients::default();
        let began = recent.find(&secret(1)).unwrap_err();
        for number in 0..=CLIENTS_MAX as u64 {
            let bytes = [number.to_le_bytes(), [7; 8]].concat();
            let mut known = KnownClient::clone(&client(1));
            known.client.id = ClientId::from_random(bytes[..].try_into().unwrap());
            known.secret_sha256 = Sha256Hash::of(&bytes);
            recent.remember(began, &Arc::new(known));
            let remembered = recent.remembered();
            assert!(remembered.clients.len() <= CLIENTS_MAX && remembered.by_secret.len() <= CLIENTS_MAX);
        }
        assert_eq!(recent.remembered().clients.len(), 1);
    }
}
