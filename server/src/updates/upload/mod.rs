//! Receiving an update: checked, hashed, stored, acknowledged, and added to its round's sum.
//!
//! A small update ([`held`]) is read into memory, checked when it is complete, and added to the sum after it was
//! acknowledged. A large update ([`streamed`]) is stored chunk by chunk and added to the sum while it arrives, which
//! saves reading it again. If it is refused or interrupted, it is subtracted from the sum. The stored part of an
//! interrupted update is kept, so that its sender can resume.

mod body;
mod held;
mod incoming;
mod streamed;

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_protocol::device::{LOSS_MAX, UpdateQuery};
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::{AssignmentId, ClientId};
use tributary_protocol::state::{AssignmentState, Task};
use tributary_protocol::update::UpdateStatistics;

use super::Updates;
use super::budget::Need;
use super::claims::Claim;
use crate::blob::BlobError;
use crate::db::{AssignmentRow, BLOB_CHUNK_BYTES, DbError, Report, RoundRow, Times};
use crate::fleet::downloads::Downloads;
use crate::lifecycle::assignments::{self, Received, Refusal};
use crate::metrics::Traffic;
use crate::services::Services;
pub(crate) use body::{Body, Stop};
use body::{piece, stopped};

/// Largest update that is held in memory and stored by the transaction that acknowledges it.
const HELD_BYTES_MAX: u64 = BLOB_CHUNK_BYTES as u64;

/// Bytes that are decoded and added without a pause, so that no task keeps its thread for long.
const PIECE_BYTES: usize = 64 << 10;

/// Longest time in which a repeated update is read, in milliseconds.
const REPEAT_MS_MAX: i64 = 600_000;

/// The headers of a request with an update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced {
    /// The hash of the whole update. An update without it cannot be resumed.
    pub(crate) digest: Option<Sha256Hash>,
    /// Bytes of this request's body, if the request says so.
    pub(crate) length: Option<u64>,
    /// Where in the update this body begins, if it resumes one.
    pub(crate) offset: Option<u64>,
    /// Whether the update ends where this body does.
    pub(crate) complete: bool,
}

/// A request with an update, or a part of one.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) services: Services,
    pub(crate) updates: Arc<Updates>,
    pub(crate) downloads: Arc<Downloads>,
    pub(crate) client: ClientId,
    pub(crate) id: AssignmentId,
    pub(crate) query: UpdateQuery,
    pub(crate) announced: Announced,
}

/// The result of a request that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uploaded {
    /// The update is stored and will be counted, exactly once.
    Accepted,
    /// The update is not complete; this many bytes of it are stored.
    Partly { bytes: u64 },
}

/// Why an upload is refused or ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadRefusal {
    #[error(transparent)]
    Report(#[from] Refusal),
    #[error("an update of this job has at most {bytes_max} bytes")]
    TooLarge { bytes_max: u64 },
    #[error("the body was interrupted: {0}")]
    BrokenOff(String),
    #[error("reading stopped: {0:?}")]
    Stopped(Stop),
    #[error("the body's SHA-256 is {0}")]
    WrongDigest(Sha256Hash),
    #[error("the interrupted upload has another hash; send this update from its beginning")]
    OtherBody,
    #[error("the upload continues at byte {bytes}")]
    WrongOffset { bytes: u64 },
    /// The update is malformed or outside the job's limits.
    #[error("{0}")]
    Rejected(String),
}

impl From<DbError> for UploadRefusal {
    fn from(error: DbError) -> Self {
        Self::Report(error.into())
    }
}

impl From<BlobError> for UploadRefusal {
    fn from(error: BlobError) -> Self {
        Self::Report(error.into())
    }
}

impl UploadRefusal {
    /// Whether the same request may succeed later: a database or store did not answer.
    fn is_passing(&self) -> bool {
        match self {
            Self::Report(Refusal::Blob(error)) => !matches!(error, BlobError::Superseded(_)),
            Self::Stopped(stop) => matches!(stop, Stop::Stopping | Stop::Closed),
            _ => false,
        }
    }
}

/// The assignment that an upload is for, with its round and its job.
struct Target {
    assignment: AssignmentRow,
    round: RoundRow,
    spec: Arc<JobSpec>,
}

impl Target {
    async fn find(services: &Services, client: ClientId, id: AssignmentId) -> Result<Self, UploadRefusal> {
        let mut tx = services.db.read().await?;
        let (assignment, round) = assignments::find(&mut tx, client, id, Some(Task::Train)).await?;
        let job = tx.job(round.job).await?.ok_or_else(|| Refusal::NotFound(round.job.to_string()))?;
        Ok(Self { assignment, round, spec: services.specs.of(&job)? })
    }

    /// When the round no longer takes updates.
    fn until_ms(&self) -> i64 {
        self.round.deadline_at_ms.unwrap_or(0)
    }

    fn has_reported(&self) -> bool {
        self.assignment.state == AssignmentState::Reported
    }
}

impl Upload {
    /// Receives the body. The caller runs this in a task of its own: if the client disconnects, the received bytes are
    /// still stored or subtracted.
    pub(crate) async fn receive(self, body: Body) -> Result<Uploaded, UploadRefusal> {
        let target = self.target().await?;
        if target.has_reported() {
            return self.repeat(&target, body).await;
        }
        assignments::require_open(&self.services, &target.assignment, &target.round).await?;
        let Announced { length, offset, complete, .. } = self.announced;
        let bytes = length.unwrap_or(0).saturating_add(offset.unwrap_or(0));
        if bytes > target.spec.update_bytes_max {
            return Err(too_large(&target.spec));
        }
        let is_held = complete && offset.is_none() && length.is_some_and(|length| length <= HELD_BYTES_MAX);
        let bench = self.services.workbench();
        let uploaded = match is_held {
            true => self.held(&target, &bench, body).await,
            false => self.streamed(target, &bench, body).await,
        };
        bench.clear().await;
        uploaded
    }

    async fn target(&self) -> Result<Target, UploadRefusal> {
        Target::find(&self.services, self.client, self.id).await
    }

    /// Checks the figures that come with the update.
    fn check_figures(&self, spec: &JobSpec) -> Result<(), String> {
        let (query, weight_max) = (&self.query, spec.plan.weight_max);
        if query.weight == 0 {
            return Err("the weight is 0: an update must come from at least one example".into());
        }
        if query.weight > weight_max {
            return Err(format!("the weight {} is above the job's largest, {weight_max}", query.weight));
        }
        if !(-LOSS_MAX..=LOSS_MAX).contains(&query.loss) {
            return Err("the training loss is not finite, or above 1e12".into());
        }
        Ok(())
    }

    fn report(&self, summary: &UpdateStatistics, sha256: Sha256Hash, received: Received, spec: &JobSpec) -> Report {
        let downloads = &self.downloads;
        let traffic =
            Traffic { bytes_up: received.bytes, raw_bytes_up: spec.plain_bytes, ..downloads.traffic(self.client) };
        Report {
            weight: self.query.weight.into(),
            loss: self.query.loss,
            accuracy: None,
            steps: self.query.steps,
            work_ms: self.query.train_ms,
            update_norm: Some(summary.norm),
            sha256,
            traffic,
            times: Times { fetched_at_ms: downloads.ended_at_ms(self.client), ..received.times },
        }
    }

    /// Rejects a malformed update: its assignment ends.
    async fn reject(&self, target: &Target, reason: String, received: Received) -> Result<Uploaded, UploadRefusal> {
        let state = AssignmentState::Rejected;
        assignments::end(&self.services, &self.downloads, &target.assignment, state, &reason, received).await?;
        Err(UploadRefusal::Rejected(reason))
    }

    /// The refusal of a body that was not read to its end. The state of its round is read again.
    async fn stop(&self, stop: Stop) -> Result<Uploaded, UploadRefusal> {
        let target = self.target().await?;
        if !target.has_reported() && stop != Stop::Stopping {
            assignments::require_open(&self.services, &target.assignment, &target.round).await?;
        }
        Err(UploadRefusal::Stopped(stop))
    }

    /// Counts the bytes of a body that was not accepted, and when they were received.
    async fn count(&self, assignment: &AssignmentRow, received: Received) {
        let Received { bytes, times } = received;
        if bytes == 0 {
            return;
        }
        let key = assignment.round();
        let counted = async {
            let mut tx = self.services.db.begin().await?;
            tx.lock_job(key.job).await?;
            tx.count_upload(assignment.id, key, bytes).await?;
            tx.store_times(assignment.id, times).await?;
            tx.commit().await
        };
        if let Err(error) = counted.await {
            tracing::debug!(%error, bytes, "the bytes of an upload that was not accepted are not counted");
        }
    }

    /// Reads an update again that was accepted before, to distinguish a repetition from a conflict.
    async fn repeat(&self, target: &Target, mut body: Body) -> Result<Uploaded, UploadRefusal> {
        let until_ms = self.services.clock.now_ms() + REPEAT_MS_MAX;
        let mut hasher = Sha256Hasher::new();
        let reading = async {
            let _share = self.updates.budget.acquire(Need { bytes: Some(0), packed: false, part_bytes: None }).await;
            let mut received = 0;
            while let Some(data) = piece(&mut body).await? {
                received += data.len() as u64;
                if received > target.spec.update_bytes_max {
                    return Err(too_large(&target.spec));
                }
                hasher.update(&data);
            }
            Ok(received)
        };
        let received = tokio::select! {
            received = reading => received?,
            stop = stopped(&self.services, until_ms, None, None) => return self.stop(stop).await,
        };
        let target = self.target().await?;
        self.count(&target.assignment, Received { bytes: received, ..Received::default() }).await;
        // Of an update that resumes, this body is only the end: its announced hash stands for the whole.
        let announced = self.announced.digest.filter(|_| self.announced.offset.is_some());
        let sha256 = announced.unwrap_or_else(|| hasher.finish());
        let summary = UpdateStatistics { norm: 0.0, magnitude_max: 0.0 };
        let report = self.report(&summary, sha256, Received::default(), &target.spec);
        let assignment = (self.id, Task::Train);
        assignments::accept(&self.services, &self.downloads, self.client, assignment, report, None).await?;
        Ok(Uploaded::Accepted)
    }
}

/// How many bytes of an update are stored, and the announced hash of the whole; none when the whole update was
/// accepted. A request that is still sending it is stopped first, so that the answer stays true.
pub(crate) async fn offset(
    services: &Services,
    updates: &Updates,
    client: ClientId,
    id: AssignmentId,
) -> Result<Option<(u64, Option<Sha256Hash>)>, UploadRefusal> {
    let target = Target::find(services, client, id).await?;
    if target.has_reported() {
        return Ok(None);
    }
    assignments::require_open(services, &target.assignment, &target.round).await?;
    let _claim = claim(services, updates, id, target.until_ms()).await?;
    if Target::find(services, client, id).await?.has_reported() {
        return Ok(None);
    }
    let mut tx = services.db.begin().await?;
    let upload = tx.take_upload(id).await?;
    tx.commit().await?;
    Ok(Some(upload.map_or((0, None), |upload| (upload.bytes, upload.sha256()))))
}

/// The right to send this update or to ask for its offset. The request that had it before is stopped.
async fn claim(
    services: &Services,
    updates: &Updates,
    id: AssignmentId,
    until_ms: i64,
) -> Result<Claim, UploadRefusal> {
    let claimed = tokio::select! {
        claimed = updates.claims.claim(id) => claimed,
        stop = stopped(services, until_ms, None, None) => return Err(UploadRefusal::Stopped(stop)),
    };
    claimed.ok_or(UploadRefusal::Stopped(Stop::Superseded))
}

fn too_large(spec: &JobSpec) -> UploadRefusal {
    UploadRefusal::TooLarge { bytes_max: spec.update_bytes_max }
}
