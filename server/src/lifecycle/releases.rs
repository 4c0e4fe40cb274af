//! Where releases stand: Held or Out, then Withdrawn or Refused.

use tributary_engine::release::{Measurement, Reach, judge};
use tributary_protocol::gate::Measure;
use tributary_protocol::id::{JobId, Name, ReleaseId};
use tributary_protocol::release::Share;
use tributary_protocol::state::{Phase, ReleaseState, Task};

use crate::blob::{BlobError, Staged};
use crate::db::{DbError, NewRelease, ReleaseRow, RoundKey, Text, Tx};

/// Releases for all clients whose files a channel keeps: the one that clients have, and two to go back to.
const KEPT: usize = 3;

/// Why a release does not change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseRefusal {
    #[error("there is no {0}")]
    NotFound(String),
    #[error("{0}")]
    Stands(String),
    #[error(
        "the release reaches {0} of the clients: a share only grows, so that who has a release keeps it; withdraw it to take it back"
    )]
    Share(Share),
    #[error("another release of this channel was made meanwhile; repeat the call")]
    Overtaken,
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl From<DbError> for ReleaseRefusal {
    fn from(error: DbError) -> Self {
        Self::Blob(error.into())
    }
}

/// Stores a release with its files in the caller's transaction.
pub(crate) async fn create(
    tx: &mut Tx,
    new: &NewRelease,
    bodies: &mut [Staged],
    now_ms: i64,
) -> Result<(), ReleaseRefusal> {
    tx.lock_population(&new.population).await?;
    let rows = tx.releases(&new.population).await?;
    let base = |number| rows.iter().find(|row| row.channel == new.channel && row.number == number);
    let is_out = |row: &ReleaseRow| row.state == ReleaseState::Out && row.deleted_at_ms.is_none();
    if new.difference.is_some_and(|difference| !base(difference.base).is_some_and(is_out)) {
        return Err(ReleaseRefusal::Overtaken);
    }
    match tx.insert_release(new, now_ms).await {
        Err(DbError::Duplicate) => return Err(ReleaseRefusal::Overtaken),
        stored => stored?,
    }
    for body in bodies {
        body.settle(tx, now_ms).await?;
    }
    Ok(prune(tx, &new.population, &new.channel, now_ms).await?)
}

/// Lets a release reach a larger share, in the caller's transaction. False when it has that share already.
pub(crate) async fn widen(tx: &mut Tx, id: ReleaseId, share: Share, now_ms: i64) -> Result<bool, ReleaseRefusal> {
    let row = locked(tx, id).await?;
    if !matches!(row.state, ReleaseState::Out | ReleaseState::Held) {
        return Err(ReleaseRefusal::Stands(format!("the release is {}", row.state)));
    }
    let before = row.share()?;
    if share < before {
        return Err(ReleaseRefusal::Share(before));
    }
    if share == before {
        return Ok(false);
    }
    tx.set_release_share(id, share, now_ms).await?;
    prune(tx, &row.population, &row.channel, now_ms).await?;
    Ok(true)
}

/// Takes a release back, in the caller's transaction. False when that was done already.
pub(crate) async fn withdraw(tx: &mut Tx, id: ReleaseId, now_ms: i64) -> Result<bool, ReleaseRefusal> {
    let row = locked(tx, id).await?;
    match row.state {
        ReleaseState::Withdrawn => return Ok(false),
        ReleaseState::Refused => return Err(ReleaseRefusal::Stands("the release did not go out".into())),
        ReleaseState::Out | ReleaseState::Held => {}
    }
    if row.deleted_at_ms.is_some() {
        return Err(ReleaseRefusal::Stands("newer releases have replaced this one".into()));
    }
    tx.set_release_state(id, ReleaseState::Withdrawn, None, now_ms).await?;
    tx.delete_release_files(id, now_ms).await?;
    Ok(true)
}

/// Judges the release for whose gate a job evaluated, as the job ends, in the transaction that ends it.
pub(super) async fn gate_ends(tx: &mut Tx, job: JobId, now_ms: i64) -> Result<(), DbError> {
    let Some(row) = tx.gated_by(job).await?.filter(|row| row.state == ReleaseState::Held) else { return Ok(()) };
    let Some(Text(gate)) = &row.gate else { return Ok(()) };
    let round = tx.round(RoundKey { job, task: Task::Evaluate, number: 1 }).await?;
    let measured = match round.filter(|round| round.phase == Phase::Committed) {
        Some(round) => Some(Measurement {
            accuracy_low: tx.latest_accuracy(job).await?,
            loss: round.loss,
            metric: match &gate.measure {
                Measure::Metric(name) => tx.latest_scalar(job, name).await?,
                Measure::Accuracy | Measure::Loss => None,
            },
        }),
        None => None,
    };
    let (passes, verdict) = judge(gate, measured);
    let state = if passes { ReleaseState::Out } else { ReleaseState::Refused };
    tracing::info!(release = %row.id, state = %state, %verdict, "the gate of a release is decided");
    tx.set_release_state(row.id, state, Some(&verdict), now_ms).await?;
    match passes {
        true => prune(tx, &row.population, &row.channel, now_ms).await,
        false => tx.delete_release_files(row.id, now_ms).await,
    }
}

/// Deletes the files of releases that no client of the channel has to get any more, nor to go back to.
async fn prune(tx: &mut Tx, population: &Name, channel: &Name, now_ms: i64) -> Result<(), DbError> {
    let rows = tx.releases(population).await?;
    let mut whole = 0;
    for row in rows.iter().filter(|row| row.channel == *channel) {
        if whole == KEPT && row.deleted_at_ms.is_none() && row.state == ReleaseState::Out {
            tx.delete_release_files(row.id, now_ms).await?;
        }
        let reach = Reach { id: row.id, state: row.state, share: row.share()?, attributes: &row.attributes.0 };
        whole += usize::from(whole < KEPT && reach.covers_all());
    }
    Ok(())
}

async fn locked(tx: &mut Tx, id: ReleaseId) -> Result<ReleaseRow, ReleaseRefusal> {
    let missing = || ReleaseRefusal::NotFound(id.to_string());
    let row = tx.release(id).await?.ok_or_else(missing)?;
    tx.lock_population(&row.population).await?;
    tx.release(id).await?.ok_or_else(missing)
}
