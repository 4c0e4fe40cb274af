//! Limits of attempts to sign in, per account and per address. Unknown accounts are counted like known ones, so the
//! answers do not show which accounts exist.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;

use crate::runtime::lock::Locked;

/// Length of the time in which attempts are counted, from the first of them on.
const WINDOW_MS: i64 = 15 * 60_000;
/// Failed attempts for one account from one address.
const PAIR_MAX: u32 = 5;
/// Failed attempts for one account from everywhere. It is higher, so that a stranger does not easily lock a person out.
const ACCOUNT_MAX: u32 = 50;
/// Failed attempts from one address. People share addresses.
const ADDRESS_MAX: u32 = 100;
/// Counters that are remembered. Beyond it, the oldest are forgotten.
const COUNTERS_MAX: usize = 10_000;
/// Places from where people signed in that are remembered. Beyond it, the oldest is forgotten.
const KNOWN_MAX: usize = 1_000;
/// Longest part of an account's name that is remembered.
const NAME_BYTES_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Account(String),
    Address(IpAddr),
    Pair(String, IpAddr),
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    began_at_ms: i64,
    attempts: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    counters: BTreeMap<Key, Counter>,
    /// From where people signed in, and when last. From there, strangers cannot lock them out.
    known: BTreeMap<(String, IpAddr), i64>,
}

/// Too many attempts failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyAttempts {
    pub(crate) retry_after_ms: u64,
}

impl Attempts {
    /// Counts an attempt before its password is checked, so that concurrent ones count exactly.
    pub(crate) fn begin(&self, account: &str, address: Option<IpAddr>, now_ms: i64) -> Result<(), TooManyAttempts> {
        let Remembered { counters, known } = &mut *self.0.locked();
        let keys = keys(account, address);
        let is_known =
            matches!(&keys[0].0, Key::Pair(account, network) if known.contains_key(&(account.clone(), *network)));
        for (key, max) in &keys {
            if is_known && matches!(key, Key::Account(_)) {
                continue;
            }
            let Some(counter) = counters.get(key).filter(|counter| counter.is_current(now_ms)) else { continue };
            if counter.attempts >= *max {
                let left_ms = counter.began_at_ms.saturating_add(WINDOW_MS).saturating_sub(now_ms);
                return Err(TooManyAttempts { retry_after_ms: u64::try_from(left_ms).unwrap_or(0) });
            }
        }
        for (key, _) in keys {
            let counter = counters.entry(key).or_insert(Counter { began_at_ms: now_ms, attempts: 0 });
            if !counter.is_current(now_ms) {
                *counter = Counter { began_at_ms: now_ms, attempts: 0 };
            }
            counter.attempts += 1;
        }
        if counters.len() > COUNTERS_MAX {
            forget(counters, now_ms);
        }
        Ok(())
    }

    /// The attempt was right: it does not count.
    pub(crate) fn succeeded(&self, account: &str, address: Option<IpAddr>, now_ms: i64) {
        let Remembered { counters, known } = &mut *self.0.locked();
        for (key, _) in keys(account, address) {
            match key {
                Key::Pair(ref account, network) => {
                    if address.is_some() {
                        known.insert((account.clone(), network), now_ms);
                    }
                    counters.remove(&key);
                }
                Key::Account(_) | Key::Address(_) => {
                    if let Some(counter) = counters.get_mut(&key) {
                        counter.attempts = counter.attempts.saturating_sub(1);
                    }
                }
            }
        }
        if known.len() > KNOWN_MAX
            && let Some(oldest) = known.iter().min_by_key(|(_, at_ms)| **at_ms).map(|(place, _)| place.clone())
        {
            known.remove(&oldest);
        }
    }
}

impl Counter {
    /// A counter that begins in the future began before the clock was set back.
    fn is_current(self, now_ms: i64) -> bool {
        self.began_at_ms <= now_ms && now_ms < self.began_at_ms.saturating_add(WINDOW_MS)
    }
}

fn keys(account: &str, address: Option<IpAddr>) -> [(Key, u32); 3] {
    let end = account.floor_char_boundary(NAME_BYTES_MAX);
    let account = account[..end].to_owned();
    let address = network(address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
    [
        (Key::Pair(account.clone(), address), PAIR_MAX),
        (Key::Account(account), ACCOUNT_MAX),
        (Key::Address(address), ADDRESS_MAX),
    ]
}

/// An IPv6 host has all addresses of its /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Forgets what has ended, and then the oldest quarter at once, so that a flood of names does not cost a pass each.
fn forget(counters: &mut BTreeMap<Key, Counter>, now_ms: i64) {
    counters.retain(|_, counter| counter.is_current(now_ms));
    if counters.len() > COUNTERS_MAX {
        let mut began: Vec<i64> = counters.values().map(|counter| counter.began_at_ms).collect();
        began.sort_unstable();
        let oldest = began[began.len() / 4];
        counters.retain(|_, counter| counter.began_at_ms > oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)))
    }

    #[test]
    fn attempts_are_limited_per_account_and_address_until_the_window_ends() {
        let attempts = Attempts::default();
        for _ in 0..PAIR_MAX {
            attempts.begin("ada", address(1), 1_000).unwrap();
        }
        let refused = attempts.begin("ada", address(1), 2_000).unwrap_err();
        assert_eq!(refused.retry_after_ms, u64::try_from(WINDOW_MS).unwrap() - 1_000);
        attempts.begin("ada", address(2), 2_000).expect("another address");
        attempts.begin("eve", address(1), 2_000).expect("another account");
        attempts.begin("ada", address(1), 1_000 + WINDOW_MS).expect("another window");
    }

    #[test]
    fn many_addresses_do_not_make_more_attempts_for_one_account_nor_many_accounts_for_one_address() {
        let attempts = Attempts::default();
        let allowed = (0..=255).filter(|last| attempts.begin("ada", address(*last), 0).is_ok()).count();
        assert_eq!(allowed, ACCOUNT_MAX as usize);
        let attempts = Attempts::default();
        let allowed = (0..1_000).filter(|n| attempts.begin(&format!("account-{n}"), address(1), 0).is_ok()).count();
        assert_eq!(allowed, ADDRESS_MAX as usize);
        let attempts = Attempts::default();
        let host = |n: u16| Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, n)));
        assert_eq!((0..100).filter(|n| attempts.begin("ada", host(*n), 0).is_ok()).count(), PAIR_MAX as usize);
    }

    #[test]
    fn right_attempts_do_not_count() {
        let attempts = Attempts::default();
        for _ in 0..1_000 {
            attempts.begin("ada", address(1), 0).unwrap();
            attempts.succeeded("ada", address(1), 0);
        }
    }

    #[test]
    fn strangers_do_not_lock_a_person_out_of_a_place_from_where_she_signed_in() {
        let attempts = Attempts::default();
        attempts.begin("ada", address(1), 0).unwrap();
        attempts.succeeded("ada", address(1), 0);
        for last in 2..=255 {
            let _ = attempts.begin("ada", address(last), 0);
        }
        assert!(attempts.begin("ada", Some(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1))), 0).is_err(), "elsewhere");
        let left = (0..10).filter(|_| attempts.begin("ada", address(1), 0).is_ok()).count();
        assert_eq!(left, PAIR_MAX as usize, "guesses from there are limited, too");
        for number in 0..2 * KNOWN_MAX as u32 {
            attempts.succeeded("eve", Some(IpAddr::V4(Ipv4Addr::from(number))), i64::from(number));
        }
        assert_eq!(attempts.0.lock().unwrap().known.len(), KNOWN_MAX);
    }

    #[test]
    fn the_number_of_counters_is_limited() {
        let attempts = Attempts::default();
        for n in 0..2 * COUNTERS_MAX as u32 {
            let address = Some(IpAddr::V4(Ipv4Addr::from(n)));
            attempts.begin(&format!("account-{n}"), address, i64::from(n)).unwrap();
        }
        assert!(attempts.0.lock().unwrap().counters.len() <= COUNTERS_MAX);
        let newest = Some(IpAddr::V4(Ipv4Addr::from(2 * COUNTERS_MAX as u32 - 1)));
        let account = format!("account-{}", 2 * COUNTERS_MAX - 1);
        let left = (0..PAIR_MAX).filter(|_| attempts.begin(&account, newest, 20_000).is_ok()).count();
        assert_eq!(left, PAIR_MAX as usize - 1, "the newest attempts are remembered");
    }
}
