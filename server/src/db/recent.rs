//! Clients that authenticated lately, so that their next request needs no query.
//!
//! Only with SQLite: there, one coordinator makes every change. With PostgreSQL another one may revoke a client.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use tributary_protocol::device::Attributes;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::ClientId;

use super::changes::Seen;
use super::devices::KnownClient;
use super::tx::{Json, Text};
use crate::runtime::lock::Locked;

/// Memory in bytes of all remembered clients. When there are more, the one that was seen longest ago is forgotten.
pub(crate) const BYTES_MAX: usize = 32 << 20;
/// Memory of a remembered client without attributes, and of an attribute besides its texts.
const CLIENT_BYTES: usize = 512;
const ATTRIBUTE_BYTES: usize = 128;
/// Memory of the name of an example set besides its text.
const SET_BYTES: usize = 40;

/// The remembered clients.
#[derive(Debug, Default)]
pub(super) struct RecentClients(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    clients: HashMap<ClientId, Entry>,
    by_secret: HashMap<Sha256Hash, ClientId>,
    /// All of them, by the order in which they were seen.
    by_turn: BTreeMap<u64, ClientId>,
    turns: u64,
    bytes: usize,
    /// Number of changes of identities so far.
    changes: u64,
}

#[derive(Debug)]
struct Entry {
    known: Arc<KnownClient>,
    turn: u64,
    bytes: usize,
}

/// When a query began. What it reads is remembered only if no identity has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Began(u64);

impl RecentClients {
    /// The client with this hash of its secret; otherwise the beginning of the query that looks for it.
    pub(super) fn find(&self, secret: &Sha256Hash) -> Result<Arc<KnownClient>, Began> {
        let remembered = self.remembered();
        let entry = remembered.by_secret.get(secret).and_then(|id| remembered.clients.get(id));
        entry.map(|entry| Arc::clone(&entry.known)).ok_or(Began(remembered.changes))
    }

    /// Remembers what a query read, unless an identity has changed since it began: it may have read the one of before.
    pub(super) fn remember(&self, began: Began, client: &Arc<KnownClient>) {
        let mut remembered = self.remembered();
        if Began(remembered.changes) == began {
            remembered.remove(client.client.id);
            remembered.insert(Arc::clone(client));
        }
    }

    /// Follows what a client declares.
    pub(super) fn see(&self, id: ClientId, Seen { attributes, software, examples, sets, at_ms }: Seen) {
        let mut remembered = self.remembered();
        let Some(mut known) = remembered.remove(id) else { return };
        // Requests that are being answered keep the client as it was when they came.
        let client = &mut Arc::make_mut(&mut known).client;
        client.attributes = Json(attributes);
        client.sdk = software.kind.map(Text);
        (client.sdk_version, client.abilities) = (software.version, Json(software.abilities));
        (client.examples, client.sets, client.last_seen_at_ms) = (examples, Json(sets), at_ms);
        remembered.insert(known);
    }

    /// Forgets a client whose identity changes.
    pub(super) fn forget(&self, id: ClientId) {
        let mut remembered = self.remembered();
        remembered.changes += 1;
        remembered.remove(id);
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.locked()
    }
}

impl Remembered {
    /// Adds a client that is not there, and forgets others until all fit.
    fn insert(&mut self, known: Arc<KnownClient>) {
        let (id, bytes) = (known.client.id, memory(&known));
        self.turns += 1;
        self.bytes += bytes;
        self.by_secret.insert(known.secret_sha256, id);
        self.by_turn.insert(self.turns, id);
        self.clients.insert(id, Entry { known, turn: self.turns, bytes });
        while self.bytes > BYTES_MAX
            && let Some((_, oldest)) = self.by_turn.first_key_value()
        {
            let oldest = *oldest;
            self.remove(oldest);
        }
    }

    fn remove(&mut self, id: ClientId) -> Option<Arc<KnownClient>> {
        let Entry { known, turn, bytes } = self.clients.remove(&id)?;
        self.by_secret.remove(&known.secret_sha256);
        self.by_turn.remove(&turn);
        self.bytes -= bytes;
        Some(known)
    }
}

/// Memory that a remembered client takes, in bytes.
fn memory(known: &KnownClient) -> usize {
    let of = |attributes: &Attributes| -> usize {
        attributes.as_map().iter().map(|(name, value)| name.len() + value.len() + ATTRIBUTE_BYTES).sum()
    };
    let sets: usize = known.client.sets.0.iter().map(|name| name.as_str().len() + SET_BYTES).sum();
    CLIENT_BYTES + of(&known.client.attributes.0) + of(&known.client.granted.0) + sets
}

#[cfg(test)]
mod tests {
    use tributary_protocol::device::{ATTRIBUTE_BYTES_MAX, ATTRIBUTES_MAX};
    use tributary_protocol::state::Standing;

    use super::*;
    use crate::db::{ClientRow, Software};

    fn client(number: u8) -> Arc<KnownClient> {
        let client = ClientRow {
            id: ClientId::from_random([number; 16]),
            population: "devices".parse().unwrap(),
            number: number.into(),
            attributes: Json(Attributes::default()),
            granted: Json(Attributes::default()),
            standing: Standing::Active,
            sdk: None,
            sdk_version: None,
            abilities: Json(tributary_protocol::abilities::Abilities::FIRST),
            examples: 0,
            sets: Json(Vec::new()),
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
        let (attributes, software) = (Attributes::default(), Software::default());
        Seen { attributes, software, examples, sets: Vec::new(), at_ms: 60_000 }
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
    fn remembered_clients_take_so_many_bytes() {
        let recent = RecentClients::default();
        let began = recent.find(&secret(1)).unwrap_err();
        let wide: BTreeMap<String, String> =
            (0..ATTRIBUTES_MAX).map(|n| (format!("{n:0>128}"), "x".repeat(ATTRIBUTE_BYTES_MAX))).collect();
        let wide = Attributes::try_from(wide).unwrap();
        let with = |number: u64, attributes: &Attributes| {
            let bytes = [number.to_le_bytes(), [7; 8]].concat();
            let mut known = KnownClient::clone(&client(1));
            known.client.id = ClientId::from_random(bytes[..].try_into().unwrap());
            known.client.attributes = Json(attributes.clone());
            known.secret_sha256 = Sha256Hash::of(&bytes);
            Arc::new(known)
        };
        let each = memory(&with(0, &wide));
        assert!((12_000..13_500).contains(&each), "what was measured: {each}");
        let fit = (BYTES_MAX / each) as u64;
        for number in 0..=fit {
            recent.remember(began, &with(number, &wide));
        }
        let count = |recent: &RecentClients| {
            let remembered = recent.remembered();
            let bytes: usize = remembered.clients.values().map(|entry| memory(&entry.known)).sum();
            let counts = [remembered.by_secret.len(), remembered.by_turn.len(), remembered.clients.len()];
            assert_eq!((remembered.bytes, counts), (bytes, [counts[0]; 3]));
            assert!(bytes <= BYTES_MAX);
            counts[0] as u64
        };
        assert_eq!(count(&recent), fit);
        assert!(recent.find(&with(0, &wide).secret_sha256).is_err(), "the oldest is forgotten");
        assert!(recent.find(&with(1, &wide).secret_sha256).is_ok(), "and no other one");
        // One that is seen is not the oldest any more, and what it declares is counted.
        recent.see(with(1, &wide).client.id, Seen { attributes: wide.clone(), ..seen(1) });
        recent.remember(began, &with(fit + 1, &wide));
        assert!(recent.find(&with(1, &wide).secret_sha256).is_ok());
        assert!(recent.find(&with(2, &wide).secret_sha256).is_err());
        for number in 3..=fit {
            recent.see(with(number, &wide).client.id, seen(1));
        }
        assert_eq!(count(&recent), fit);
        (0..8).for_each(|number| recent.remember(began, &with(fit + 2 + number, &wide)));
        assert_eq!(count(&recent), fit + 8, "there is room");
        recent.remember(began, &with(3, &wide));
        assert_eq!(count(&recent), fit + 8, "one that is remembered again is there once");
    }
}
