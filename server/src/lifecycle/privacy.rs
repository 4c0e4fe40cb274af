//! Charges of private jobs: what a release spends is written before its noise is drawn.
//!
//! The transaction that closes a round counts its units, appends to the ledger and stores the key of the noise. From
//! then on the sum may be released, once or again after a crash, and always with the same noise.

use std::collections::BTreeSet;

use tributary_engine::job::JobSpec;
use tributary_engine::privacy::Terms;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{CHAIN_BEGINS, LedgerEntry};

use crate::db::{DbError, RoundKey, RoundRow, Tx};
use crate::runtime::entropy;

/// Charges the release of a private training round that closes, and stores the key of its noise.
pub(super) async fn charge(tx: &mut Tx, spec: &JobSpec, round: &RoundRow, now_ms: i64) -> Result<(), DbError> {
    let Some(terms) = &spec.privacy else { return Ok(()) };
    let (key, version) = (round.key(), round.base_version + 1);
    let reporters = tx.reporters(key).await?;
    let units: BTreeSet<String> = tx.units(&spec.file, &reporters).await?.into_values().collect();
    let last = tx.last_charge(key.job).await?;
    let most = tx.contribute(key.job, &units.into_iter().collect::<Vec<_>>(), version).await?;
    let participations = last.as_ref().map_or(0, |last| last.participations).max(most);
    let entry = entry(terms, key, (version, participations), now_ms);
    tx.charge(key.job, &entry.after(last.as_ref())).await?;
    let test_key = spec.file.privacy.as_ref().and_then(|privacy| privacy.test_key);
    tx.store_round_key(key, test_key.unwrap_or_else(|| Sha256Hash(entropy::random()))).await
}

fn entry(terms: &Terms, key: RoundKey, (version, participations): (u32, u32), at_ms: i64) -> LedgerEntry {
    LedgerEntry {
        at_ms,
        hash: CHAIN_BEGINS,
        mechanism: terms.mechanism,
        noise_multiplier: terms.noise_multiplier,
        number: 0,
        participations,
        previous: CHAIN_BEGINS,
        rate: terms.rate,
        round: key.number,
        sensitivity: terms.sensitivity,
        version,
    }
}
