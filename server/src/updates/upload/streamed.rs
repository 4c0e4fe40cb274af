//! A large update: stored chunk by chunk and added to the sum while it arrives, then acknowledged.
//!
//! Bytes moved per f32 parameter: 4 from the socket into the chunk, 4 hashed, 4 decoded, 4 into the sketch, 12 by the
//! sum of the first update and 20 by that of others, 4 into pages of the file. SHA-256 and new pages of files are the
//! limit.

use std::pin::pin;

use super::incoming::{End, Incoming};
use super::receiving::Receiving;
use super::refusal::is_small_body;
use super::{Body, HELD_BYTES_MAX, Stop, Target, Upload, UploadRefusal, Uploaded};
use crate::blob::{BlobError, Owner, Spool, Staged, Workbench};
use crate::db::{BLOB_CHUNK_BYTES, Times};
use crate::lifecycle::assignments::Received;
use crate::updates::budget::Need;
use crate::updates::rebuild;

impl Receiving<'_> {
    /// Receives a body, chunk by chunk.
    pub(super) async fn streamed(&self, mut body: Body) -> Result<Uploaded, UploadRefusal> {
        let Self { upload, target, bench, share, .. } = self;
        let spool = upload.spool(bench, target, share.chunk_bytes()).await?;
        let mut incoming = self.incoming(spool).await;
        let end = match incoming.replay().await {
            Ok(()) => incoming.read(&mut body, share, &target.spec, pin!(self.stops().first())).await,
            Err(error) if error.is_lost() => {
                upload.interrupt(&mut incoming, false).await;
                return upload.refuse(target, incoming.received(), lost(&error)).await;
            }
            Err(error) => End::Failed(error.into()),
        };
        let refusal = match end {
            End::Whole if upload.announced.complete => return upload.conclude(incoming, target).await,
            End::Whole => {
                let bytes = incoming.interrupt(upload.announced.digest.is_some()).await?;
                let received = incoming.received();
                upload.count(target, received, is_small_body(received.bytes, upload.announced.offset)).await?;
                return Ok(Uploaded::Partly { bytes });
            }
            End::Failed(refusal) => refusal,
            End::Stopped(stop) => UploadRefusal::Stopped(stop),
        };
        // After the end of the round nothing resumes.
        let is_over = matches!(refusal, UploadRefusal::Stopped(Stop::Deadline | Stop::Closed));
        upload.interrupt(&mut incoming, !is_over).await;
        upload.refuse(target, incoming.received(), refusal).await
    }

    /// Begins to add the update to its round's sum, if its figures are right and there is a sum.
    async fn incoming(&self, spool: Spool) -> Incoming {
        let services = &self.upload.services;
        let bad = self.upload.check_figures(self.target).err();
        // An update of a buffered job may end in another round than it began in: it is added once it is acknowledged.
        let is_added = bad.is_none() && !self.target.is_buffered() && self.target.group.is_none();
        let folding = self.folding(is_added);
        let mut incoming = Incoming::new(spool, folding, services.clock.clone());
        if let Some(reason) = bad {
            incoming.refuse(reason).await;
        }
        incoming
    }
}

impl Upload {
    /// The memory that a body needs which is stored in chunks.
    pub(super) fn need_streamed(&self, target: &Target) -> Need {
        let offset = self.announced.offset.unwrap_or(0);
        // An update that resumes has chunks already, of the largest size for all that is known.
        let chunk_bytes = (offset > 0).then_some(BLOB_CHUNK_BYTES);
        let length = self.announced.length.map(|length| length.saturating_add(offset));
        Need::streamed(target.spec.file.population.clone(), length, chunk_bytes)
    }

    /// Where the body is stored: a new body, or one that broke off.
    async fn spool(&self, bench: &Workbench, target: &Target, chunk_bytes: usize) -> Result<Spool, UploadRefusal> {
        let (digest, part) = (self.announced.digest, self.told.form().part());
        let owner = Owner {
            name: target.key(),
            assignment: digest.map(|_| (self.id, part)),
            sha256: digest,
            expires_at_ms: target.until_ms(),
        };
        let db = &self.services.db;
        let mut tx = db.begin().await?;
        let row = tx.take_upload(self.id, part).await?;
        tx.commit().await?;
        match (self.announced.offset, row) {
            (None, row) => {
                if let Some(row) = row {
                    self.services.blobs.discard_chunks(db, row).await;
                }
                Ok(bench.spool(owner).in_chunks_of(chunk_bytes))
            }
            (Some(_), Some(row)) if row.sha256() != digest => Err(UploadRefusal::OtherBody),
            (Some(0), None) => Ok(bench.spool(owner).in_chunks_of(chunk_bytes)),
            (Some(offset), Some(row)) if row.bytes == offset => match bench.resume(owner, row.clone()).await {
                Err(error) if error.is_lost() => {
                    self.services.blobs.discard_chunks(db, row).await;
                    Err(lost(&error))
                }
                resumed => Ok(resumed?),
            },
            (Some(_), row) => Err(UploadRefusal::WrongOffset { bytes: row.map_or(0, |row| row.bytes) }),
        }
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
            return self.refuse(target, received, UploadRefusal::WrongDigest).await;
        }
        let (measured, staged) = match incoming.finish(services.clock.now_ms()).await {
            Ok(Ok(finished)) => finished,
            Ok(Err(reason)) => return self.reject(target, reason, whole).await,
            Err(error) => {
                self.interrupt(&mut incoming, true).await;
                return self.refuse(target, received, error.into()).await;
            }
        };
        if let Some(group) = &target.group {
            let mut staged = staged;
            return self.keep_masked(target, group, &mut staged, sha256, whole).await;
        }
        if let Err(reason) = self.check_sum(target, measured.sum) {
            incoming.take_out().await;
            return self.reject(target, reason, whole).await;
        }
        let report = self.report(measured, sha256, whole, &target.spec);
        let mut submission = self.submission(target, report, Some(staged));
        let accepted = self.accept(&mut submission).await.map_err(UploadRefusal::from);
        let staged = submission.body;
        if let Ok(accepted) = &accepted
            && staged.as_ref().is_some_and(Staged::is_settled)
        {
            incoming.land();
            self.add_stored(target).await;
            accepted.tell(&services.signals);
            return Ok(Uploaded::Accepted);
        }
        incoming.take_out().await;
        // The same request may succeed later: it resumes at the end.
        if self.announced.digest.is_some() && accepted.as_ref().is_err_and(UploadRefusal::is_passing) {
            staged.iter().for_each(Staged::release);
        }
        match accepted {
            // Stored, but not settled: another request stored the same update before.
            Ok(_) => {
                self.count(target, received, false).await?;
                Ok(Uploaded::Accepted)
            }
            Err(refusal) => self.refuse(target, received, refusal).await,
        }
    }

    /// Adds an acknowledged update of a buffered job, or a sum, to the sum of its round, from storage.
    pub(super) async fn add_stored(&self, target: &Target) {
        if !target.is_buffered() && !target.assignment.is_sum() {
            return;
        }
        // What fails here is added by the commit of the round.
        if let Ok(Target { round, spec, .. }) = self.target().await
            && let Some(sum) = self.updates.sums.get(round.key(), spec.shard_number())
        {
            rebuild::start(&self.services, &spec.with_cohort(round.policy().sum_size()), &round, sum);
        }
    }

    /// Keeps what arrived if its sender can resume, and takes it out of the sum until then.
    async fn interrupt(&self, incoming: &mut Incoming, is_open: bool) {
        let resumable = is_open
            && self.announced.digest.is_some()
            && (self.announced.offset.is_some() || self.announced.length.is_none_or(|length| length > HELD_BYTES_MAX));
        if let Err(error) = incoming.interrupt(resumable).await {
            tracing::debug!(%error, id = %self.id, "the end of an interrupted upload is not kept");
        }
    }
}

/// A power failure took chunks that were not yet durable: the sender begins again.
fn lost(error: &BlobError) -> UploadRefusal {
    tracing::warn!(%error, "an interrupted upload begins again");
    UploadRefusal::WrongOffset { bytes: 0 }
}
