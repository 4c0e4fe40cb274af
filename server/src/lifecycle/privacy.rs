//! Charges of private jobs: what a release spends is written before its noise is drawn, or before it can be read.
//!
//! The transaction that closes a round counts its units, appends to the ledger and stores the key of the noise. From
//! then on the sum may be released, once or again after a crash, and always with the same noise. Where clients add the
//! noise, the coordinator sees the sum of a group when the members open it. So each group is charged when it begins to
//! be opened, whether or not its round commits. Where each client's own noise hides it, what was sent is charged when
//! the round ends, in whatever way.

use std::collections::BTreeSet;

use tributary_engine::job::JobSpec;
use tributary_engine::privacy::Terms;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::ClientId;
use tributary_protocol::job_file::Mechanism;
use tributary_protocol::operator::{CHAIN_BEGINS, LedgerEntry};

use crate::db::{DbError, RoundRow, Tx};
use crate::runtime::entropy;

/// Charges the release of a private training round that closes, and stores the key of its noise where the coordinator
/// adds it.
pub(super) async fn charge(tx: &mut Tx, spec: &JobSpec, round: &RoundRow, now_ms: i64) -> Result<(), DbError> {
    let Some(terms) = spec.privacy.as_ref().filter(|terms| terms.mechanism != Mechanism::Distributed) else {
        return Ok(());
    };
    let key = round.key();
    if terms.mechanism == Mechanism::Local {
        return charge_sent(tx, (spec, terms), round, now_ms).await;
    }
    let reporters = tx.reporters(key).await?;
    append(tx, (spec, terms), round, &reporters, now_ms).await?;
    let test_key = spec.file.privacy.as_ref().and_then(|privacy| privacy.test_key);
    tx.store_round_key(key, test_key.unwrap_or_else(|| Sha256Hash(entropy::random()))).await
}

/// Charges what clients with noise of their own have sent to a round that is abandoned: the coordinator has seen it.
/// Nothing in other jobs.
pub(super) async fn charge_abandoned(
    tx: &mut Tx,
    spec: &JobSpec,
    round: &RoundRow,
    now_ms: i64,
) -> Result<(), DbError> {
    let Some(terms) = spec.privacy.as_ref().filter(|terms| terms.mechanism == Mechanism::Local) else { return Ok(()) };
    charge_sent(tx, (spec, terms), round, now_ms).await
}

/// Charges the answers that were read, also those that were refused.
async fn charge_sent(
    tx: &mut Tx,
    (spec, terms): (&JobSpec, &Terms),
    round: &RoundRow,
    now_ms: i64,
) -> Result<(), DbError> {
    let senders = tx.sent_in(round.key()).await?;
    if senders.is_empty() {
        return Ok(());
    }
    append(tx, (spec, terms), round, &senders, now_ms).await
}

/// Charges the sum of these clients, who noised it and now begin to open it. Nothing in other jobs.
pub(super) async fn charge_group(
    tx: &mut Tx,
    spec: &JobSpec,
    round: &RoundRow,
    survivors: &[ClientId],
    now_ms: i64,
) -> Result<(), DbError> {
    match &spec.privacy {
        Some(terms) if terms.mechanism == Mechanism::Distributed => {
            append(tx, (spec, terms), round, survivors, now_ms).await
        }
        _ => Ok(()),
    }
}

/// Counts the units of these clients, and appends to the ledger.
async fn append(
    tx: &mut Tx,
    (spec, terms): (&JobSpec, &Terms),
    round: &RoundRow,
    clients: &[ClientId],
    now_ms: i64,
) -> Result<(), DbError> {
    let (key, version) = (round.key(), round.base_version + 1);
    let units: BTreeSet<String> = tx.units(&spec.file, clients).await?.into_values().collect();
    let last = tx.last_charge(key.job).await?;
    let most = tx.contribute(key.job, &units.into_iter().collect::<Vec<_>>(), version).await?;
    let participations = last.as_ref().map_or(0, |last| last.participations).max(most);
    let entry = LedgerEntry {
        at_ms: now_ms,
        hash: CHAIN_BEGINS,
        mechanism: terms.mechanism,
        noise_multiplier: terms.noise_multiplier,
        number: 0,
        participations,
        previous: CHAIN_BEGINS,
        rate: terms.rate,
        round: key.number,
        sensitivity: terms.sensitivity_of_round(&spec.file, (round.goal, round.policy().minimum)),
        version,
    };
    tx.charge(key.job, &entry.after(last.as_ref())).await
}
