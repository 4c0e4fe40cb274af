//! A large update: stored chunk by chunk and added to the sum while it arrives, then acknowledged.
//!
//! Bytes moved per f32 parameter: 4 from the socket into the chunk, 4 decoded, 20 by the sum, 4 to the database. The
//! database's write is the limit.

use std::pin::pin;

use tributary_engine::aggregate::Weight;
use tributary_protocol::body::is_packed;
use tributary_protocol::state::Task;

use super::incoming::{End, Incoming};
use super::{Body, HELD_BYTES_MAX, Stop, Target, Upload, UploadRefusal, Uploaded, claim, piece, stopped};
use crate::blob::{Owner, Spool, Workbench, update_key};
use crate::db::{BLOB_CHUNK_BYTES, Times};
use crate::lifecycle::assignments::{self, Received};
use crate::updates::budget::Need;
use crate::updates::fold::Folding;

impl Upload {
    pub(super) async fn streamed(
        &self,
        target: Target,
        bench: &Workbench,
        mut body: Body,
    ) -> Result<Uploaded, UploadRefusal> {
        let until_ms = target.until_ms();
        let claim = claim(&self.services, &self.updates, self.id, until_ms).await?;
        if self.target().await?.has_reported() {
            // An earlier request completed it while this one waited.
            drop(claim);
            return self.repeat(&target, body).await;
        }
        let superseded = Some(claim.superseded());
        let beginning = async {
            // The first bytes are in the connection's buffer already. They say whether the rest must be unpacked.
            let beginning = piece(&mut body).await?;
            let share = self.updates.budget.acquire(self.need(beginning.as_deref())).await;
            Ok::<_, UploadRefusal>((share, beginning))
        };
        let (share, beginning) = tokio::select! {
            beginning = beginning => beginning?,
            stop = stopped(&self.services, until_ms, None, superseded) => return self.stop(stop).await,
        };
        let spool = self.spool(bench, until_ms, share.part_bytes()).await?;
        let mut incoming = self.begin(&target, spool).await;
        let closing = self.updates.sums.begun(target.round.key()).map(|sum| sum.closing());
        let end = match incoming.replay().await {
            Ok(()) => {
                let stop = pin!(stopped(&self.services, until_ms, closing.as_ref(), superseded));
                incoming.read(beginning, &mut body, &target.spec, stop).await
            }
            Err(error) => End::Failed(error.into()),
        };
        match end {
            End::Whole if self.announced.complete => self.conclude(incoming, &target).await,
            End::Whole => {
                let bytes = incoming.interrupt(self.announced.digest.is_some()).await?;
                self.count(&target.assignment, incoming.received()).await;
                Ok(Uploaded::Partly { bytes })
            }
            End::Failed(error) => {
                self.interrupt(incoming, &target, true).await;
                Err(error)
            }
            End::Stopped(stop) => {
                // After the end of the round nothing resumes.
                let is_open = matches!(stop, Stop::Stopping | Stop::Superseded);
                self.interrupt(incoming, &target, is_open).await;
                self.stop(stop).await
            }
        }
    }

    fn need(&self, beginning: Option<&[u8]>) -> Need {
        let offset = self.announced.offset.unwrap_or(0);
        // A resumed update has chunks already; without a look at them, they must be assumed to have the largest size.
        let resumes = offset > 0;
        Need {
            bytes: self.announced.length.map(|length| length.saturating_add(offset)),
            packed: resumes || beginning.is_some_and(is_packed),
            part_bytes: resumes.then_some(BLOB_CHUNK_BYTES),
        }
    }

    /// Where the body is stored: a new body, or an interrupted one.
    async fn spool(&self, bench: &Workbench, until_ms: i64, part_bytes: usize) -> Result<Spool, UploadRefusal> {
        let digest = self.announced.digest;
        let owner = Owner {
            name: update_key(self.id),
            assignment: digest.map(|_| self.id),
            sha256: digest,
            expires_at_ms: until_ms,
        };
        let db = &self.services.db;
        let mut tx = db.begin().await?;
        let row = tx.take_upload(self.id).await?;
        tx.commit().await?;
        match (self.announced.offset, row) {
            (None, row) => {
                if let Some(row) = row {
                    self.services.blobs.discard_parts(db, row).await;
                }
                Ok(bench.spool(owner).in_parts_of(part_bytes))
            }
            (Some(_), Some(row)) if row.sha256() != digest => Err(UploadRefusal::OtherBody),
            (Some(0), None) => Ok(bench.spool(owner).in_parts_of(part_bytes)),
            (Some(offset), Some(row)) if row.bytes == offset => Ok(bench.resume(owner, row).await?),
            (Some(_), row) => Err(UploadRefusal::WrongOffset { bytes: row.map_or(0, |row| row.bytes) }),
        }
    }

    /// Begins to add the update to its round's sum, if its figures are right and there is a sum.
    async fn begin(&self, target: &Target, spool: Spool) -> Incoming {
        let Target { assignment, round, spec } = target;
        let (updates, services) = (&self.updates, &self.services);
        let bad = self.check_figures(spec).err();
        let sum = updates.sums.begun(round.key()).filter(|_| bad.is_none() && !updates.sums.is_left_to_commits());
        // The weight was checked, and the sum has a place for each member of the cohort.
        let flight = sum.and_then(|sum| sum.begin(self.id, Weight::examples(self.query.weight)).ok().flatten());
        let folding = Folding::new(spec, assignment.base_version, flight, &services.metrics);
        let mut incoming = Incoming::new(spool, folding, services.clock.clone());
        if let Some(reason) = bad {
            incoming.refuse(reason).await;
        }
        incoming
    }

    /// The body is complete: stores it and its report in one transaction, if it is right.
    async fn conclude(&self, mut incoming: Incoming, target: &Target) -> Result<Uploaded, UploadRefusal> {
        let services = &self.services;
        let received = incoming.received();
        let times = Times { uploaded_at_ms: Some(services.clock.now_ms()), ..received.times };
        let whole = Received { times, ..received };
        let sha256 = incoming.sha256();
        if self.announced.digest.is_some_and(|announced| announced != sha256) {
            // The body was damaged on the way: this says nothing about the update.
            incoming.take_out().await;
            self.count(&target.assignment, received).await;
            return Err(UploadRefusal::WrongDigest(sha256));
        }
        let (summary, mut staged) = match incoming.finish(services.clock.now_ms()).await {
            Ok(Ok(finished)) => finished,
            Ok(Err(reason)) => return self.reject(target, reason, whole).await,
            Err(error) => {
                self.interrupt(incoming, target, true).await;
                return Err(error.into());
            }
        };
        let report = self.report(&summary, sha256, whole, &target.spec);
        let (id, body) = ((self.id, Task::Train), Some(&mut staged));
        let accepted = assignments::accept(services, &self.downloads, self.client, id, report, body).await;
        let accepted = accepted.map_err(UploadRefusal::from);
        if accepted.is_ok() && staged.is_settled() {
            incoming.land();
            services.signals.changed(target.round.job);
            return Ok(Uploaded::Accepted);
        }
        incoming.take_out().await;
        // The same request may succeed later: it resumes at the end.
        if self.announced.digest.is_some() && accepted.as_ref().is_err_and(UploadRefusal::is_passing) {
            staged.release();
        }
        self.count(&target.assignment, received).await;
        accepted.map(|_| Uploaded::Accepted)
    }

    /// Keeps what arrived if its sender can resume, and takes it out of the sum until then.
    async fn interrupt(&self, mut incoming: Incoming, target: &Target, is_open: bool) {
        let resumable = is_open
            && self.announced.digest.is_some()
            && (self.announced.offset.is_some() || self.announced.length.is_none_or(|length| length > HELD_BYTES_MAX));
        if let Err(error) = incoming.interrupt(resumable).await {
            tracing::debug!(%error, id = %self.id, "the end of an interrupted upload is not kept");
        }
        self.count(&target.assignment, incoming.received()).await;
    }
}
