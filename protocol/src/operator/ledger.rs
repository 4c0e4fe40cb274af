//! The privacy ledger of a job: what its releases spent, as a hash chain.

use serde::{Deserialize, Serialize};

use super::audit::{CHAIN_BEGINS, ChainError};
use crate::hash::Sha256Hash;
use crate::job_file::Mechanism;

/// An entry of the privacy ledger of a job: one sum that was released with noise. Its members are ordered by name,
/// which the canonical JSON depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LedgerEntry {
    /// When the round closed, before the noise was drawn; with `distributed`, when a group began to open its sum.
    pub at_ms: i64,
    /// SHA-256 of the entry: of its canonical JSON without this member.
    pub hash: Sha256Hash,
    /// Which noise was added.
    pub mechanism: Mechanism,
    /// Standard deviation of the noise, in clips; with `distributed` that of the sum of one group.
    pub noise_multiplier: f64,
    /// Number of the entry, from 1 without gaps.
    pub number: u32,
    /// Most updates of one unit so far, this round included.
    pub participations: u32,
    /// Hash of the entry before; zeros for the first.
    pub previous: Sha256Hash,
    /// Chance with which a unit was drawn, where the promise counts on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The training round.
    pub round: u32,
    /// What one unit can change, in clips: in all releases of the job together with `blt`, else in one. With
    /// `distributed` it is divided by the root of the fewest groups of a version, whose noise comes together there.
    pub sensitivity: f64,
    /// The model version that the round was to make.
    pub version: u32,
}

/// What the hash covers: the members of a [`LedgerEntry`] but the hash.
#[derive(Serialize)]
struct Hashed {
    at_ms: i64,
    mechanism: Mechanism,
    noise_multiplier: f64,
    number: u32,
    participations: u32,
    previous: Sha256Hash,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    round: u32,
    sensitivity: f64,
    version: u32,
}

impl LedgerEntry {
    /// The entry as the next one of a ledger: with its number, the hash of the entry before, and its own.
    #[must_use]
    pub fn after(self, last: Option<&Self>) -> Self {
        let (number, previous) = last.map_or((0, CHAIN_BEGINS), |last| (last.number, last.hash));
        let placed = Self { number: number + 1, previous, ..self };
        Self { hash: placed.computed_hash(), ..placed }
    }

    /// The hash that the other members have.
    pub fn computed_hash(&self) -> Sha256Hash {
        let Self { at_ms, hash: _, mechanism, noise_multiplier, number, participations, previous, .. } = *self;
        let Self { rate, round, sensitivity, version, .. } = *self;
        let hashed = Hashed {
            at_ms,
            mechanism,
            noise_multiplier,
            number,
            participations,
            previous,
            rate,
            round,
            sensitivity,
            version,
        };
        Sha256Hash::of(&serde_json::to_vec(&hashed).expect("numbers can be written as JSON"))
    }
}

/// Follows a ledger from its first entry.
///
/// # Errors
/// [`ChainError`] names the first entry that is missing, was changed, or does not follow the one before it.
pub fn check_ledger(entries: &[LedgerEntry]) -> Result<(), ChainError> {
    let mut previous = CHAIN_BEGINS;
    for (entry, expected) in entries.iter().zip(1..) {
        match u64::from(entry.number) {
            found if found > expected => return Err(ChainError::Missing { expected, found }),
            found if found < expected => return Err(ChainError::Reordered { expected, found }),
            _ => {}
        }
        if entry.computed_hash() != entry.hash {
            return Err(ChainError::Changed(expected));
        }
        if entry.previous != previous {
            return Err(ChainError::Unlinked(expected));
        }
        previous = entry.hash;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(length: u32) -> Vec<LedgerEntry> {
        let mut entries: Vec<LedgerEntry> = Vec::new();
        for round in 1..=length {
            let entry = LedgerEntry {
                at_ms: i64::from(round),
                hash: CHAIN_BEGINS,
                mechanism: Mechanism::Gaussian,
                noise_multiplier: 1.5,
                number: 0,
                participations: round,
                previous: CHAIN_BEGINS,
                rate: (round == 2).then_some(0.25),
                round,
                sensitivity: 1.0,
                version: round,
            };
            entries.push(entry.after(entries.last()));
        }
        entries
    }

    #[test]
    fn a_ledger_is_a_chain_and_every_change_breaks_it() {
        let whole = ledger(4);
        assert_eq!(check_ledger(&whole), Ok(()));
        let read: Vec<LedgerEntry> = serde_json::from_str(&serde_json::to_string(&whole).unwrap()).unwrap();
        assert_eq!(check_ledger(&read), Ok(()), "numbers keep their bits on the way");
        let changed = |change: fn(&mut Vec<LedgerEntry>)| {
            let mut entries = ledger(4);
            change(&mut entries);
            check_ledger(&entries).unwrap_err()
        };
        assert_eq!(changed(|entries| entries[1].noise_multiplier = 1.6), ChainError::Changed(2));
        assert_eq!(changed(|entries| entries[2].participations -= 1), ChainError::Changed(3));
        assert_eq!(
            changed(|entries| entries.retain(|entry| entry.number != 2)),
            ChainError::Missing { expected: 2, found: 3 }
        );
        assert_eq!(changed(|entries| entries.swap(0, 1)), ChainError::Missing { expected: 1, found: 2 });
        let replaced = changed(|entries| {
            entries[1].rate = None;
            entries[1].hash = entries[1].computed_hash();
        });
        assert_eq!(replaced, ChainError::Unlinked(3));
    }
}
