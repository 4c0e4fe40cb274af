//! What clients of a masked job sent and were told in their exchanges, and what must hold of it.
//!
//! The tests of the program have it, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use reqwest::{Method, StatusCode};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::GroupId;
use tributary_protocol::secure::Survivors;
use tributary_protocol::secure::messages::{Formed, ShareKind, Unmask};

/// All exchanges, by the assignment.
#[derive(Debug, Default)]
pub(crate) struct Exchanges(Mutex<BTreeMap<String, Exchange>>);

/// What crossed the wire of one exchange: each request and answer once, however often it was repeated.
#[derive(Clone, Debug, Default)]
struct Exchange {
    records: BTreeSet<Vec<u8>>,
    formed: BTreeSet<Vec<u8>>,
    shares: BTreeSet<Vec<u8>>,
    inboxes: BTreeSet<Vec<u8>>,
    updates: BTreeSet<Sha256Hash>,
    survivors: BTreeSet<Vec<u8>>,
    opened: BTreeSet<Vec<u8>>,
}

/// Assignment and call of a path of an exchange.
pub(crate) fn call_of(path: &str) -> Option<(&str, &str)> {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let (_, rest) = path.split_once("/device/v1/assignments/")?;
    rest.split_once('/').filter(|(_, call)| call.starts_with("group"))
}

impl Exchanges {
    fn note(&self, path: &str, note: impl FnOnce(&mut Exchange, &str)) {
        let Some((assignment, call)) = call_of(path) else { return };
        let mut exchanges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        note(exchanges.entry(assignment.to_owned()).or_default(), call);
    }

    /// A client sends this.
    pub(crate) fn sent(&self, method: &Method, path: &str, body: &[u8]) {
        self.note(path, |exchange, call| match (method, call) {
            (&Method::PUT, "group") => drop(exchange.records.insert(body.to_vec())),
            (&Method::PUT, "group/shares") => drop(exchange.shares.insert(body.to_vec())),
            (&Method::PUT, "group/update") => drop(exchange.updates.insert(Sha256Hash::of(body))),
            (&Method::PUT, "group/unmask") => drop(exchange.opened.insert(body.to_vec())),
            _ => {}
        });
    }

    /// The coordinator answers this.
    pub(crate) fn told(&self, path: &str, status: StatusCode, body: &[u8]) {
        if status != StatusCode::OK {
            return;
        }
        self.note(path, |exchange, call| match call {
            "group" => drop(exchange.formed.insert(body.to_vec())),
            "group/shares" => drop(exchange.inboxes.insert(body.to_vec())),
            "group/survivors" => drop(exchange.survivors.insert(body.to_vec())),
            _ => {}
        });
    }

    /// Checks all exchanges: no member said two things where it may say one, and the members of a group were told of
    /// the same survivors. Returns the survivors of each group.
    pub(crate) fn check(&self) -> BTreeMap<GroupId, Survivors> {
        let exchanges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told: BTreeMap<GroupId, Survivors> = BTreeMap::new();
        for (assignment, exchange) in exchanges.iter() {
            exchange.check(assignment);
            let Some(group) = exchange.group() else { continue };
            for survivors in &exchange.survivors {
                let survivors = Survivors::from_bytes(survivors).unwrap();
                let first = told.entry(group).or_insert_with(|| survivors.clone());
                assert_eq!(*first, survivors, "{assignment} was told of other survivors than another member");
            }
        }
        told
    }
}

impl Exchange {
    fn group(&self) -> Option<GroupId> {
        self.formed.first().map(|formed| Formed::from_bytes(formed).unwrap().context.group)
    }

    fn check(&self, assignment: &str) {
        let Self { records, formed, shares, inboxes, updates, survivors, opened } = self;
        let counts = [
            ("record", records.len()),
            ("group", formed.len()),
            ("message of shares", shares.len()),
            ("inbox", inboxes.len()),
            ("masked update", updates.len()),
            ("set of survivors", survivors.len()),
            ("message that opens", opened.len()),
        ];
        for (what, count) in counts {
            assert!(count <= 1, "{assignment} has more than one {what}");
        }
        // Follows from the above; it is what must never happen.
        let mut kinds: BTreeMap<u16, ShareKind> = BTreeMap::new();
        for share in opened.iter().flat_map(|opened| Unmask::from_bytes(opened).unwrap().shares) {
            let kind = *kinds.entry(share.owner).or_insert(share.kind);
            assert_eq!(kind, share.kind, "{assignment} gave both secrets of member {}", share.owner);
        }
    }
}
