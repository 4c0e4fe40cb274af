//! The one reader of accepted updates. Folding, statistics and rules that need every update are sinks.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tributary_engine::aggregate::{Facts, FoldError};
use tributary_engine::job::JobSpec;
use tributary_engine::round::staleness;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;
use tributary_protocol::sum::{IntegerSink, SumError};
use tributary_protocol::update::{DeltaSink, UpdateError};

use super::decoding::Decoding;
use super::partial;
use crate::blob::{BlobError, part_key, update_key};
use crate::db::{AcceptedRow, Db, DbError, RoundRow};
use crate::services::Services;

/// Updates that are read at the same time. They leave half of the database's connections to requests.
const UPDATES_AT_ONCE: usize = 4;

/// Why a stored update cannot be used. Every update was checked before it was accepted, so this is a fault.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error("the stored update of {assignment} cannot be read: {source}")]
    Update { assignment: AssignmentId, source: UpdateError },
    #[error("the stored sum of {assignment} cannot be read: {source}")]
    Sum { assignment: AssignmentId, source: SumError },
    #[error("the stored update of {assignment} cannot be added: {source}")]
    Fold { assignment: AssignmentId, source: FoldError },
}

/// An accepted update as its assignment describes it.
#[derive(Clone, Debug)]
pub struct StoredUpdate {
    pub assignment: AssignmentId,
    pub base_version: u32,
    /// Versions between its base and the version from which its round started.
    pub staleness: u32,
    /// What rules know of it before they read it; its weight is discounted by its staleness.
    pub facts: Facts,
    /// Name and hash of its body.
    body: (String, Sha256Hash),
    /// Whether it is the sum of a relay.
    pub is_sum: bool,
}

impl StoredUpdate {
    fn of(row: &AcceptedRow, spec: &JobSpec, round: &RoundRow) -> Result<Self, DbError> {
        let (figures, staleness) = (row.figures()?, staleness(row.base_version, round.base_version));
        let weight = spec.discount().weight(figures.contribution.weight, staleness);
        let row_of_code = spec.file.coded.as_ref().and_then(|coded| row.row(coded.clients() as usize));
        let facts = Facts { figures, weight, enrolment: row.number, row: row_of_code };
        let (base_version, is_sum) = (row.base_version, row.is_sum);
        let body = (update_key(row.id), row.sha256()?);
        Ok(Self { assignment: row.id, base_version, staleness, facts, body, is_sum })
    }
}

/// The accepted updates of a round, in the order of their assignments' ids. Those of a shard have the bodies of their
/// parts.
pub(crate) async fn accepted(db: &Db, spec: &JobSpec, round: &RoundRow) -> Result<Vec<StoredUpdate>, DbError> {
    let mut tx = db.read().await?;
    let rows = tx.accepted_updates(round.key()).await?;
    let mut updates = rows.iter().map(|row| StoredUpdate::of(row, spec, round)).collect::<Result<Vec<_>, _>>()?;
    if let Some(shard) = &spec.shard {
        let hashes: HashMap<_, _> = tx.part_hashes(round.key(), shard.number).await?.into_iter().collect();
        for update in &mut updates {
            let id = update.assignment;
            let lacks = || DbError::Corrupt(format!("{id} has no part {}", shard.number));
            update.body = (part_key(id, shard.number), *hashes.get(&id).ok_or_else(lacks)?);
        }
    }
    Ok(updates)
}

/// Reads updates, several at a time, each into a sink of its own. Returns the results of `done` for the sinks, in the
/// order of the updates. `done` also receives the seconds that decoding into the sink took.
///
/// `sink` is called before an update is read; an update without a sink is skipped. One chunk of an update is in memory
/// at a time. An update whose sink wants no more values is not read to its end.
///
/// # Errors
/// The error of the first update that cannot be read. Others may have been read.
pub(crate) async fn each<S, T>(
    services: &Services,
    spec: &Arc<JobSpec>,
    updates: Vec<StoredUpdate>,
    sink: impl Fn(&StoredUpdate) -> Result<Option<S>, StoredError>,
    done: fn(S, f64) -> T,
) -> Result<Vec<T>, StoredError>
where
    S: DeltaSink + Send + 'static,
    T: Send + 'static,
{
    let reads = updates.into_iter().map(|update| {
        let (spec, services) = (Arc::clone(spec), services.clone());
        let sink = sink(&update);
        async move {
            let Some(sink) = sink? else { return Ok(None) };
            // A task of its own: decoding runs on all cores.
            let task = tokio::spawn(async move {
                let (sink, seconds) = read_into(&services, &spec, &update, sink).await?;
                Ok::<_, StoredError>(Some(done(sink, seconds)))
            });
            task.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
        }
    });
    let results: Vec<Option<T>> = stream::iter(reads).buffered(UPDATES_AT_ONCE).try_collect().await?;
    Ok(results.into_iter().flatten().collect())
}

/// Reads the sum of a relay into a sink. The caps of the spec are those of its round.
pub(crate) async fn sum_into<S: IntegerSink>(
    services: &Services,
    spec: &JobSpec,
    update: &StoredUpdate,
    mut sink: S,
) -> Result<S, StoredError> {
    let assignment = update.assignment;
    let unreadable = |source| StoredError::Sum { assignment, source };
    let updates = update.facts.figures.contribution.updates;
    let mut decoder = partial::decoder(spec, update.base_version, updates);
    let mut body = services.blobs.reader(&services.db, update.body.0.clone(), update.body.1).await?;
    while let Some(data) = body.next().await? {
        decoder.read(&data, &mut sink).map_err(unreadable)?;
        tokio::task::yield_now().await;
    }
    decoder.finish().map_err(unreadable)?;
    Ok(sink)
}

async fn read_into<S: DeltaSink + Send + 'static>(
    services: &Services,
    spec: &Arc<JobSpec>,
    update: &StoredUpdate,
    sink: S,
) -> Result<(S, f64), StoredError> {
    let assignment = update.assignment;
    let unreadable = |source| StoredError::Update { assignment, source };
    let mut decoding = Decoding::new(spec, update.base_version, spec.update_limits(), &services.cores, sink);
    let mut body = services.blobs.reader(&services.db, update.body.0.clone(), update.body.1).await?;
    while let Some(data) = body.next().await? {
        decoding.push(&data).await.map_err(unreadable)?;
        if decoding.sink().is_full() {
            return Ok(decoding.into_sink());
        }
        // Chunks that are in memory already would keep the thread otherwise.
        tokio::task::yield_now().await;
    }
    decoding.finish().map_err(unreadable)?;
    Ok(decoding.into_sink())
}
