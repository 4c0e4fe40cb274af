//! Receiving an update: checked, hashed, stored and added to its round's sum while it arrives; then acknowledged.
//!
//! A body of one part at most (1 MiB) is held in memory, and added once it is acknowledged. A larger one is stored part by
//! part and added block by block as it comes. When it turns out bad, comes late or breaks off, it is taken out again;
//! what arrived of one that broke off is kept, so that its sender can go on.
//!
//! Bytes moved per f32 parameter: 4 from the socket into the part, 4 decoded, 20 by the fold, 4 to the database. The
//! database write is the limit.

use std::pin::pin;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tracing::Instrument;
use tributary_protocol::body::is_packed;
use tributary_protocol::device::{LOSS_MAX, UpdateQuery};
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::id::AssignmentId;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Task};
use tributary_protocol::update::{UpdateError, UpdateStatistics};

use super::incoming::{End, Incoming, PIECE_BYTES, Stop, piece, stopped, too_large};
use super::report::{Came, accept, own_assignment, refuse, require_open};
use super::update::{Announced, progress, wrong_offset};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::blob::{BlobError, Owner, Spool, update_key};
use crate::commit::blocking;
use crate::db::{AssignmentRow, BLOB_CHUNK_BYTES, ClientRow, Report, RoundRow, Times, Traffic};
use crate::folding::Folding;
use crate::spec::JobSpec;
use crate::sums::Flight;
use crate::upload_memory::Need;
use crate::uploads::Claim;

/// Largest update that is held in memory and stored by the transaction that acknowledges it.
pub(super) const HELD_BYTES_MAX: u64 = BLOB_CHUNK_BYTES as u64;

/// Longest time in which a repeated update is read, in milliseconds.
const REPEAT_MS_MAX: i64 = 600_000;

/// A request with an update, or a part of one.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) app: Arc<App>,
    pub(super) client: ClientRow,
    pub(super) id: AssignmentId,
    pub(super) query: UpdateQuery,
    pub(super) announced: Announced,
}

pub(super) async fn lookup(
    app: &App,
    client: &ClientRow,
    id: AssignmentId,
) -> Answer<(AssignmentRow, RoundRow, Arc<JobSpec>)> {
    let mut tx = app.db.read().await?;
    let (assignment, round) = own_assignment(&mut tx, client, id, Some(Task::Train)).await?;
    let job = tx.job(round.job).await?.ok_or_else(|| ApiError::not_found(round.job))?;
    Ok((assignment, round, app.specs.of(&job)?))
}

/// The right to send this update or to ask for it; whoever is at it is stopped.
pub(super) async fn claim(app: &App, id: AssignmentId, until_ms: i64) -> Answer<Claim> {
    let claimed = tokio::select! {
        claimed = app.uploads.claim(id) => claimed,
        stop = stopped(app, until_ms, None, None) => return Err(stop.answer()),
    };
    claimed.ok_or_else(|| Stop::Superseded.answer())
}

impl Upload {
    /// Does all of it in a task of its own: should the client hang up, what it sent is still stored or taken out.
    pub(super) async fn run(self, body: Body) -> Answer<Response> {
        tokio::spawn(self.receive(body).in_current_span()).await.map_err(ApiError::internal)?
    }

    async fn receive(self, mut body: Body) -> Answer<Response> {
        let (assignment, round, spec) = lookup(&self.app, &self.client, self.id).await?;
        if assignment.state == AssignmentState::Reported {
            return self.repeat(&spec, &mut body).await;
        }
        require_open(&self.app, &self.client, &assignment, &round).await?;
        let announced = self.announced;
        let bytes = announced.length.unwrap_or(0).saturating_add(announced.offset.unwrap_or(0));
        if bytes > spec.update_bytes_max {
            return Err(too_large(&spec));
        }
        let until_ms = round.deadline_at_ms.unwrap_or(0);
        let is_held = announced.offset.is_none() && announced.length.is_some_and(|length| length <= HELD_BYTES_MAX);
        // Of small ones at the same time the last transaction takes one, and gives all that are the same its answer.
        let claim = if is_held { None } else { Some(claim(&self.app, self.id, until_ms).await?) };
        let superseded = claim.as_ref().map(Claim::superseded);
        if claim.is_some() && lookup(&self.app, &self.client, self.id).await?.0.state == AssignmentState::Reported {
            // Whoever had to wait finds it done.
            drop(claim);
            return self.repeat(&spec, &mut body).await;
        }
        let app = Arc::clone(&self.app);
        let shared = async {
            // What has come is in the connection's buffer already; its first bytes say what the rest takes.
            let beginning = piece(&mut body).await?;
            // One that goes on has parts already, the largest there are for all that is known.
            let goes_on = announced.offset.is_some_and(|offset| offset > 0);
            let need = Need {
                bytes: announced.length.map(|_| bytes),
                packed: goes_on || beginning.as_ref().is_some_and(|beginning| is_packed(beginning)),
                part_bytes: (is_held || goes_on).then_some(BLOB_CHUNK_BYTES),
            };
            Ok::<_, ApiError>((app.upload_memory.acquire(need).await.map_err(ApiError::internal)?, beginning))
        };
        let (share, beginning) = tokio::select! {
            shared = shared => shared?,
            stop = stopped(&app, until_ms, None, superseded) => return self.stop(stop).await,
        };

        let bad = check_figures(&self.query, spec.plan.weight_max).err();
        let sum = self.app.sums.begun(round.key()).filter(|_| bad.is_none() && !self.app.sums.is_left_to_commits());
        // Both bounds on the weight were checked, and there is a place for each of the cohort.
        let mut flight = sum.and_then(|sum| sum.begin(self.id, self.query.weight).ok().flatten());
        let closing = flight.as_ref().map(|flight| flight.sum().closing());
        let folding = {
            let flight = if is_held { None } else { flight.take() };
            Folding::new(&spec, round.base_version, flight, &app.metrics)
        };
        let spool = match self.spool(until_ms, is_held, share.part_bytes()).await? {
            Ok(spool) => spool,
            Err(response) => {
                folding.undo(Err(BlobError::Superseded(update_key(self.id)))).await;
                return Ok(response);
            }
        };
        let mut incoming = Incoming::new(spool, folding, app.clock.clone());
        if let Some(reason) = bad {
            incoming.refuse(reason).await;
        }
        let end = match incoming.replay().await {
            Ok(()) => {
                let stop = stopped(&app, until_ms, closing.as_ref(), superseded);
                incoming.read(beginning, &mut body, &spec, pin!(stop)).await
            }
            Err(error) => End::Failed(error.into()),
        };
        match end {
            End::Whole if announced.complete => {
                self.conclude(incoming, flight, &assignment, &spec, round.base_version).await
            }
            End::Whole => {
                let bytes = incoming.interrupt(announced.digest.is_some()).await?;
                self.count(&assignment, incoming.came()).await;
                Ok(progress(Some(bytes), false))
            }
            End::Failed(error) => {
                self.give_up(incoming, &assignment, true).await;
                Err(error)
            }
            End::Stopped(stop) => {
                // Once the round has ended, nobody goes on with what arrived.
                let is_open = matches!(stop, Stop::Stopping | Stop::Superseded);
                self.give_up(incoming, &assignment, is_open).await;
                self.stop(stop).await
            }
        }
    }

    /// Where the body goes: a fresh one, or one that broke off; an answer when it does not go on where this body begins.
    async fn spool(&self, until_ms: i64, is_held: bool, part_bytes: usize) -> Answer<Result<Spool, Response>> {
        let Announced { digest, offset, .. } = self.announced;
        let owner = Owner {
            name: update_key(self.id),
            assignment: digest.map(|_| self.id),
            sha256: digest,
            expires_at_ms: until_ms,
        };
        let (blobs, db) = (self.app.blobs.clone(), self.app.db.clone());
        if is_held {
            return Ok(Ok(Spool::new(blobs, db, owner)));
        }
        let fresh = |owner| Spool::new(blobs.clone(), db.clone(), owner).in_parts_of(part_bytes);
        let mut tx = db.begin().await?;
        let row = tx.take_upload(self.id).await?;
        tx.commit().await?;
        let Some(offset) = offset else {
            if let Some(row) = row {
                blobs.discard_parts(&db, row).await;
            }
            return Ok(Ok(fresh(owner)));
        };
        match row {
            Some(row) if row.sha256() != digest => {
                let detail = "the upload that broke off is another body's; send this one from its beginning";
                Err(ApiError::new(ProblemType::DigestMismatch, detail))
            }
            None if offset == 0 => Ok(Ok(fresh(owner))),
            Some(row) if row.bytes == offset => Ok(Ok(Spool::resume(blobs, db, owner, row).await?)),
            row => Ok(Err(wrong_offset(row.map_or(0, |row| row.bytes)))),
        }
    }

    /// The body is whole: stores it and its report in one transaction, if it is what it should be.
    async fn conclude(
        self,
        mut incoming: Incoming,
        flight: Option<Flight>,
        assignment: &AssignmentRow,
        spec: &Arc<JobSpec>,
        base_version: u32,
    ) -> Answer<Response> {
        let came = incoming.came();
        let whole = Came { times: Times { uploaded_at_ms: Some(self.app.clock.now_ms()), ..came.times }, ..came };
        let sha256 = incoming.sha256();
        if self.announced.digest.is_some_and(|announced| announced != sha256) {
            // Damaged on the way, then: no verdict on the update.
            incoming.drop_body().await;
            self.count(assignment, came).await;
            return Err(ApiError::new(ProblemType::DigestMismatch, format!("the body's SHA-256 is {sha256}")));
        }
        let (summary, mut staged) = match incoming.finish(self.app.clock.now_ms()).await {
            Ok(Ok(finished)) => finished,
            Ok(Err(reason)) => {
                incoming.drop_body().await;
                refuse(&self.app, &self.client, assignment, AssignmentState::Rejected, &reason, whole).await?;
                return Err(ApiError::new(ProblemType::UpdateRejected, reason));
            }
            Err(error) => {
                self.give_up(incoming, assignment, true).await;
                return Err(error.into());
            }
        };
        let report = self.report(&summary, sha256, whole, spec);
        let accepted = accept(&self.app, &self.client, self.id, Task::Train, report, Some(&mut staged)).await;
        if accepted.is_ok() && staged.is_settled() {
            if let Some(flight) = flight {
                fold_held(&self.app, spec, base_version, flight, staged.body().clone()).await;
            }
            incoming.land();
            self.app.changed();
            return Ok(accepted?.into_response());
        }
        incoming.take_out().await;
        // What may still come to count stays: the same request again goes on at the end.
        if !(self.announced.digest.is_some() && accepted.as_ref().is_err_and(ApiError::is_passing)) {
            self.app.blobs.discard_unsettled(&self.app.db, staged).await;
        }
        self.count(assignment, came).await;
        Ok(accepted?.into_response())
    }

    fn report(&self, summary: &UpdateStatistics, sha256: Sha256Hash, came: Came, spec: &JobSpec) -> Report {
        let (app, client) = (&self.app, self.client.id);
        let traffic = Traffic { bytes_up: came.bytes, raw_bytes_up: spec.plain_bytes, ..app.fetched(client) };
        Report {
            weight: self.query.weight.into(),
            loss: self.query.loss,
            accuracy: None,
            steps: self.query.steps,
            work_ms: self.query.train_ms,
            update_norm: Some(summary.norm),
            sha256,
            traffic,
            times: Times { fetched_at_ms: app.fetched_at_ms(client), ..came.times },
        }
    }

    /// The rest of the body is not worth waiting for. What became of the round is looked up anew.
    async fn stop(&self, stop: Stop) -> Answer<Response> {
        let (assignment, round, _) = lookup(&self.app, &self.client, self.id).await?;
        if assignment.state != AssignmentState::Reported && !matches!(stop, Stop::Stopping) {
            require_open(&self.app, &self.client, &assignment, &round).await?;
        }
        Err(stop.answer())
    }

    /// Keeps what arrived if its sender can go on with it, and takes it out of the sum until then.
    async fn give_up(&self, mut incoming: Incoming, assignment: &AssignmentRow, is_open: bool) {
        let resumable = is_open
            && self.announced.digest.is_some()
            && (self.announced.offset.is_some() || self.announced.length.is_none_or(|length| length > HELD_BYTES_MAX));
        if let Err(error) = incoming.interrupt(resumable).await {
            tracing::debug!(%error, id = %self.id, "the end of a broken upload is not kept");
        }
        self.count(assignment, incoming.came()).await;
    }

    /// Counts the bytes of a body that was not accepted, and notes when they came.
    async fn count(&self, assignment: &AssignmentRow, came: Came) {
        let Came { bytes, times } = came;
        if bytes == 0 {
            return;
        }
        let key = assignment.round();
        let counted = async {
            let mut tx = self.app.db.begin().await?;
            tx.lock_job(key.job).await?;
            tx.count_upload(assignment.id, key, bytes).await?;
            tx.store_times(assignment.id, times).await?;
            tx.commit().await
        };
        if let Err(error) = counted.await {
            tracing::debug!(%error, bytes, "the bytes of a broken upload are not counted");
        }
    }

    /// An update that was accepted before is read once more, to tell a repetition from a conflict.
    async fn repeat(&self, spec: &JobSpec, body: &mut Body) -> Answer<Response> {
        let app = Arc::clone(&self.app);
        let until_ms = app.clock.now_ms() + REPEAT_MS_MAX;
        let mut hasher = Sha256Hasher::new();
        let reading = async {
            let need = Need { bytes: Some(0), packed: false, part_bytes: None };
            let _share = app.upload_memory.acquire(need).await.map_err(ApiError::internal)?;
            let mut received = 0;
            while let Some(data) = piece(body).await? {
                received += data.len() as u64;
                if received > spec.update_bytes_max {
                    return Err(too_large(spec));
                }
                hasher.update(&data);
            }
            Ok(received)
        };
        let received = tokio::select! {
            received = reading => received?,
            stop = stopped(&app, until_ms, None, None) => return self.stop(stop).await,
        };
        let (assignment, ..) = lookup(&app, &self.client, self.id).await?;
        let again = Came { bytes: received, ..Came::default() };
        self.count(&assignment, again).await;
        // Of one that goes on, only the digest tells what the whole is.
        let whole = self.announced.offset.is_none();
        let sha256 = if whole { hasher.finish() } else { self.announced.digest.unwrap_or_else(|| hasher.finish()) };
        let report = self.report(&UpdateStatistics { norm: 0.0, magnitude_max: 0.0 }, sha256, Came::default(), spec);
        Ok(accept(&app, &self.client, self.id, Task::Train, report, None).await?.into_response())
    }
}

/// Adds an acknowledged update that was held in memory. Whatever goes wrong here loses nothing: the update is stored, and
/// what a sum lacks is folded in when the round is aggregated.
async fn fold_held(app: &App, spec: &Arc<JobSpec>, base_version: u32, flight: Flight, body: Bytes) {
    let metrics = Arc::clone(&app.metrics);
    let (spec, is_small) = (Arc::clone(spec), body.len() <= PIECE_BYTES);
    let fold = move || {
        let mut folding = Folding::new(&spec, base_version, Some(flight), &metrics);
        folding.push(&body)?;
        folding.finish()?;
        folding.land();
        Ok::<_, UpdateError>(())
    };
    let folded = if is_small { fold() } else { blocking(fold).await };
    if let Err(error) = folded {
        tracing::error!(%error, "an accepted update could not be added yet");
    }
}

fn check_figures(query: &UpdateQuery, weight_max: u32) -> Result<(), String> {
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
