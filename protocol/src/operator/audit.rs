//! The audit log: a chain of entries, each with the hash of the one before.
//!
//! The hash of an entry is the SHA-256 of its canonical JSON: the entry without the member `hash`, with its members
//! ordered by name, without spaces, as RFC 8785 writes it. `previous` is one of these members, so a change of any entry
//! changes the hashes of all entries after it.

use serde::{Deserialize, Serialize};

use crate::hash::Sha256Hash;
use crate::id::Name;
use crate::state::AuditAction;

/// The `previous` of the first entry.
pub const CHAIN_BEGINS: Sha256Hash = Sha256Hash([0; 32]);

/// An entry of the audit log. Its members are ordered by name, which the canonical JSON depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    /// The audit action, such as `job.pause`.
    pub action: AuditAction,
    /// Who acted: `token_..`, `account:NAME`, `oidc:SUBJECT`, `client_..`, `anonymous` or
    /// `coordinator`.
    pub actor: String,
    /// Time of the action.
    pub at_ms: i64,
    /// Further details of the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// SHA-256 of the entry: of its canonical JSON without this member.
    pub hash: Sha256Hash,
    /// Name of the account, or label of the token, at that time.
    pub label: String,
    /// Number of the entry, from 1 without gaps.
    pub number: u64,
    /// Population that the action concerned. Absent if it concerned the deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub population: Option<Name>,
    /// Hash of the entry before; zeros for the first.
    pub previous: Sha256Hash,
    /// Id or name of the object that was changed.
    pub subject: String,
}

/// Which entries of the audit log a page has. In `person` and `subject`, `*` stands for any characters, and case does
/// not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Most items of the page, 1 to 1000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `next` of the page before. Default: the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Only entries with this action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<AuditAction>,
    /// Only entries whose `actor` or `label` is this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// Only entries whose `subject` is this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Only entries from this time on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_at_ms: Option<i64>,
    /// Only entries before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_at_ms: Option<i64>,
    /// Shows the enrolments with one token on one day (UTC) as one row. A query with a subject shows each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fold: bool,
}

/// A row in the list of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditRow {
    /// The entry; in a row for several enrolments, the newest of them.
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// The enrolments for which the row stands, if they are more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<FoldedEntries>,
}

/// The enrolments with one token on one day, as one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FoldedEntries {
    /// Number of entries, all those of the day.
    pub entries: u64,
    /// Time of the first one.
    pub first_at_ms: i64,
}

/// What the hash covers: the members of an [`AuditEntry`] but the hash.
#[derive(Serialize)]
struct Hashed<'a> {
    action: AuditAction,
    actor: &'a str,
    at_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    label: &'a str,
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    population: Option<&'a Name>,
    previous: Sha256Hash,
    subject: &'a str,
}

impl AuditEntry {
    /// The hash that the other members have.
    pub fn computed_hash(&self) -> Sha256Hash {
        let hashed = Hashed {
            action: self.action,
            actor: &self.actor,
            at_ms: self.at_ms,
            detail: self.detail.as_deref(),
            label: &self.label,
            number: self.number,
            population: self.population.as_ref(),
            previous: self.previous,
            subject: &self.subject,
        };
        Sha256Hash::of(&serde_json::to_vec(&hashed).expect("texts and numbers can be written as JSON"))
    }

    /// The entry as a line of an export, without the line break.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be written as JSON")
    }
}

/// Where and how a chain is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The line is not as a coordinator writes it.
    #[error("entry {number} is not an entry as the coordinator writes it: {cause}")]
    Unreadable {
        /// Number of the entry that was expected.
        number: u64,
        /// What is wrong with the line.
        cause: String,
    },
    /// A number is missing.
    #[error("entry {expected} is missing: entry {found} follows entry {}", .expected - 1)]
    Missing {
        /// The first missing number.
        expected: u64,
        /// The number in its place.
        found: u64,
    },
    /// An entry has a place further ahead.
    #[error("entry {found} is out of order: entry {expected} was expected")]
    Reordered {
        /// The number that was expected.
        expected: u64,
        /// The number in its place.
        found: u64,
    },
    /// The hash of the entry is not the one that it states.
    #[error("entry {0} was changed: its hash is not that of its contents")]
    Changed(u64),
    /// The entry does not continue the chain.
    #[error("entry {0} does not follow the entry before it: one of them was replaced")]
    Unlinked(u64),
    /// No entry has the pinned hash.
    #[error("no entry has the hash {0}: entries at the end are missing, or all from some entry on were replaced")]
    HeadMissing(Sha256Hash),
}

/// Follows a chain from its first entry, line by line.
#[derive(Clone, Debug)]
pub struct ChainCheck {
    number: u64,
    hash: Sha256Hash,
    pinned: Option<Sha256Hash>,
    is_pin_met: bool,
}

impl ChainCheck {
    /// With `pinned`, the chain must contain an entry with this hash.
    pub fn new(pinned: Option<Sha256Hash>) -> Self {
        Self { number: 0, hash: CHAIN_BEGINS, is_pin_met: pinned.is_none_or(|pinned| pinned == CHAIN_BEGINS), pinned }
    }

    /// Checks the next line.
    pub fn line(&mut self, line: &str) -> Result<(), ChainError> {
        let expected = self.number + 1;
        let unreadable = |cause: String| ChainError::Unreadable { number: expected, cause };
        let entry: AuditEntry = serde_json::from_str(line).map_err(|error| unreadable(error.to_string()))?;
        match entry.number {
            found if found > expected => return Err(ChainError::Missing { expected, found }),
            found if found < expected => return Err(ChainError::Reordered { expected, found }),
            _ => {}
        }
        // Unknown members and other spellings of the same values are changes as well.
        if entry.computed_hash() != entry.hash || entry.line() != line {
            return Err(ChainError::Changed(expected));
        }
        if entry.previous != self.hash {
            return Err(ChainError::Unlinked(expected));
        }
        (self.number, self.hash) = (expected, entry.hash);
        self.is_pin_met |= self.pinned == Some(entry.hash);
        Ok(())
    }

    /// The number and hash of the last entry, once all lines were checked.
    pub fn finish(self) -> Result<(u64, Sha256Hash), ChainError> {
        match self.pinned {
            Some(pinned) if !self.is_pin_met => Err(ChainError::HeadMissing(pinned)),
            _ => Ok((self.number, self.hash)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(length: u64) -> Vec<AuditEntry> {
        let mut previous = CHAIN_BEGINS;
        let entries = (1..=length).map(|number| {
            let mut entry = AuditEntry {
                action: AuditAction::JobPause,
                actor: "account:ada".into(),
                at_ms: 1_000 + number.cast_signed(),
                detail: number.is_multiple_of(2).then(|| "a \"quoted\"\nline".into()),
                hash: CHAIN_BEGINS,
                label: "ada".into(),
                number,
                population: Some("demo".parse().unwrap()),
                previous,
                subject: format!("job {number}"),
            };
            entry.hash = entry.computed_hash();
            previous = entry.hash;
            entry
        });
        entries.collect()
    }

    fn check(lines: &[String], pinned: Option<Sha256Hash>) -> Result<(u64, Sha256Hash), ChainError> {
        let mut check = ChainCheck::new(pinned);
        lines.iter().try_for_each(|line| check.line(line))?;
        check.finish()
    }

    fn lines(entries: &[AuditEntry]) -> Vec<String> {
        entries.iter().map(AuditEntry::line).collect()
    }

    #[test]
    fn the_canonical_json_is_the_line_without_its_hash() {
        let entry = chain(2).remove(1);
        let hash = format!("\"hash\":\"{}\",", entry.hash);
        let line = entry.line();
        assert_eq!(line.matches(&hash).count(), 1);
        assert_eq!(Sha256Hash::of(line.replace(&hash, "").as_bytes()), entry.hash);
        let members: Vec<String> = serde_json::from_str::<std::collections::BTreeMap<String, serde_json::Value>>(&line)
            .unwrap()
            .into_keys()
            .collect();
        let places: Vec<_> = members.iter().map(|name| line.find(&format!("\"{name}\":")).unwrap()).collect();
        assert!(places.is_sorted(), "{line}");
    }

    #[test]
    fn an_untouched_chain_ends_with_its_newest_hash() {
        let entries = chain(5);
        assert_eq!(check(&lines(&entries), Some(entries[2].hash)), Ok((5, entries[4].hash)));
        assert_eq!(check(&[], None), Ok((0, CHAIN_BEGINS)));
    }

    #[test]
    fn a_changed_entry_is_named_whatever_was_changed() {
        let entries = chain(5);
        let changes: [fn(&mut AuditEntry); 6] = [
            |entry| entry.label = "eve".into(),
            |entry| entry.at_ms += 1,
            |entry| entry.subject.push('x'),
            |entry| entry.detail = None,
            |entry| entry.population = None,
            |entry| entry.action = AuditAction::JobStop,
        ];
        for change in changes {
            let mut entries = entries.clone();
            change(&mut entries[1]);
            assert_eq!(check(&lines(&entries), None), Err(ChainError::Changed(2)));
            // With a new hash the next entry does not follow any more.
            entries[1].hash = entries[1].computed_hash();
            assert_eq!(check(&lines(&entries), None), Err(ChainError::Unlinked(3)));
        }
        let mut spelt = lines(&entries);
        spelt[3] = spelt[3].replace("\"label\":", "\"label\": ");
        assert_eq!(check(&spelt, None), Err(ChainError::Changed(4)));
        spelt[3] = "{}".into();
        assert!(matches!(check(&spelt, None), Err(ChainError::Unreadable { number: 4, .. })));
    }

    #[test]
    fn missing_and_reordered_entries_are_named() {
        let entries = chain(5);
        for missing in 0..4_u64 {
            let mut rest = entries.clone();
            rest.remove(usize::try_from(missing).unwrap());
            let expected = ChainError::Missing { expected: missing + 1, found: missing + 2 };
            assert_eq!(check(&lines(&rest), None), Err(expected));
        }
        let mut swapped = entries.clone();
        swapped.swap(2, 3);
        assert_eq!(check(&lines(&swapped), None), Err(ChainError::Missing { expected: 3, found: 4 }));
        let mut repeated = entries.clone();
        repeated.insert(3, entries[1].clone());
        assert_eq!(check(&lines(&repeated), None), Err(ChainError::Reordered { expected: 4, found: 2 }));
    }

    #[test]
    fn a_pinned_hash_finds_entries_that_are_missing_at_the_end_and_a_chain_made_anew() {
        let entries = chain(5);
        let pinned = entries[4].hash;
        assert_eq!(check(&lines(&entries[..4]), None), Ok((4, entries[3].hash)), "only the pin shows it");
        assert_eq!(check(&lines(&entries[..4]), Some(pinned)), Err(ChainError::HeadMissing(pinned)));
        let mut previous = CHAIN_BEGINS;
        let mut forged = entries.clone();
        for entry in &mut forged {
            entry.label = "eve".into();
            entry.previous = previous;
            entry.hash = entry.computed_hash();
            previous = entry.hash;
        }
        assert!(check(&lines(&forged), None).is_ok());
        assert_eq!(check(&lines(&forged), Some(pinned)), Err(ChainError::HeadMissing(pinned)));
    }
}
