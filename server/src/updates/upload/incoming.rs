//! The body of a large update on its way: hashed, stored, decoded and added to the sum as its bytes arrive.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use tributary_engine::job::JobSpec;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};

use super::{Body, Stop, UploadRefusal, piece, too_large};
use crate::blob::{BlobError, Spool, Staged};
use crate::db::Times;
use crate::lifecycle::assignments::Received;
use crate::runtime::clock::Clock;
use crate::updates::budget::Share;
use crate::updates::fold::{Folding, Measured};

/// After reading stops: how many received bytes to drain, so that the sender need not send them again, and how many
/// empty polls to allow.
const DRAINED_BYTES_MAX: u64 = 8 << 20;
const DRAIN_POLLS_MAX: u32 = 32;

/// How the reading of a body ended.
pub(super) enum End {
    Whole,
    Failed(UploadRefusal),
    Stopped(Stop),
}

/// An update that is arriving.
pub(super) struct Incoming {
    /// The stored bytes; none once they are of no more use.
    spool: Option<Spool>,
    /// The decoder, with the sum; none once the update was taken out.
    folding: Option<Folding>,
    hasher: Sha256Hasher,
    /// Bytes of this request's body so far.
    received: u64,
    /// When the first of them arrived.
    first_at_ms: Option<i64>,
    clock: Clock,
    /// Why the update must be rejected, as far as is known.
    bad: Option<String>,
}

impl Incoming {
    pub(super) fn new(spool: Spool, folding: Folding, clock: Clock) -> Self {
        Self {
            spool: Some(spool),
            folding: Some(folding),
            hasher: Sha256Hasher::new(),
            received: 0,
            first_at_ms: None,
            clock,
            bad: None,
        }
    }

    /// Marks the update as bad. The rest of it is read and dropped.
    pub(super) async fn refuse(&mut self, reason: String) {
        self.bad = Some(reason);
        self.take_out().await;
        self.spool = None;
    }

    /// Decodes what is stored of an update that resumes, as if it arrived now.
    pub(super) async fn replay(&mut self) -> Result<(), BlobError> {
        let Self { spool: Some(spool), folding: Some(folding), hasher, bad, .. } = self else { return Ok(()) };
        if spool.bytes() == 0 {
            return Ok(());
        }
        let mut replay = spool.replay().await?;
        while let Some(data) = replay.next().await? {
            hasher.update(&data);
            if bad.is_none() {
                *bad = folding.push(&data).await.err().map(|error| error.to_string());
            }
            // Chunks that are in memory already would keep the thread otherwise.
            tokio::task::yield_now().await;
        }
        if let Some(reason) = self.bad.take() {
            self.refuse(reason).await;
        }
        Ok(())
    }

    /// Reads the body to its end. The body of a bad update is read too, since its sender reads the answer only
    /// afterwards.
    pub(super) async fn read(
        &mut self,
        body: &mut Body,
        share: &Share<'_>,
        spec: &JobSpec,
        mut stop: Pin<&mut impl Future<Output = Stop>>,
    ) -> End {
        let before = self.spool.as_ref().map_or(0, Spool::bytes);
        loop {
            let came = tokio::select! {
                came = piece(body) => came,
                stop = &mut stop => return self.drain(body, spec, before, stop).await,
            };
            let data = match came {
                Ok(Some(data)) => data,
                Ok(None) => return End::Whole,
                Err(error) => return End::Failed(error),
            };
            share.received(data.len());
            if let Err(end) = self.take_all(&data, spec, before).await {
                return end;
            }
        }
    }

    /// Takes the bytes that have arrived already when reading stops.
    async fn drain(&mut self, body: &mut Body, spec: &JobSpec, before: u64, stop: Stop) -> End {
        let (mut idle, until) = (0, self.received + DRAINED_BYTES_MAX);
        while idle < DRAIN_POLLS_MAX && self.received < until && matches!(stop, Stop::Stopping | Stop::Superseded) {
            match body.next().now_or_never() {
                Some(Some(Ok(data))) => {
                    idle = 0;
                    if let Err(end) = self.take_all(&data, spec, before).await {
                        return end;
                    }
                }
                Some(_) => break,
                None => {
                    idle += 1;
                    // Lets the connection's task run, which has the bytes.
                    tokio::task::yield_now().await;
                }
            }
        }
        End::Stopped(stop)
    }

    /// What was received of this request's body so far.
    pub(super) fn received(&self) -> Received {
        Received { bytes: self.received, times: Times { upload_at_ms: self.first_at_ms, ..Times::default() } }
    }

    async fn take_all(&mut self, data: &Bytes, spec: &JobSpec, before: u64) -> Result<(), End> {
        if !data.is_empty() {
            self.first_at_ms.get_or_insert_with(|| self.clock.now_ms());
        }
        self.received += data.len() as u64;
        if before + self.received > spec.update_bytes_max {
            return Err(End::Failed(too_large(spec)));
        }
        self.take(data).await.map_err(|error| match error {
            BlobError::Superseded(_) => End::Stopped(Stop::Superseded),
            error => End::Failed(error.into()),
        })
    }

    /// Takes a piece of at most the connection's read buffer.
    async fn take(&mut self, piece: &Bytes) -> Result<(), BlobError> {
        self.hasher.update(piece);
        let (Some(spool), Some(folding)) = (&mut self.spool, &mut self.folding) else { return Ok(()) };
        // Stored first: every value in the sum can be decoded again.
        spool.push(piece).await?;
        if let Err(error) = folding.push(piece).await {
            self.refuse(error.to_string()).await;
        }
        Ok(())
    }

    /// The hash of the whole update, what an earlier request brought included. The body has ended.
    pub(super) fn sha256(&mut self) -> Sha256Hash {
        std::mem::take(&mut self.hasher).finish()
    }

    /// What its check came to and its stored form, or why it is bad.
    pub(super) async fn finish(&mut self, now_ms: i64) -> Result<Result<(Measured, Staged), String>, BlobError> {
        if let Some(reason) = self.bad.take() {
            return Ok(Err(reason));
        }
        let (Some(spool), Some(folding)) = (&mut self.spool, &mut self.folding) else {
            return Ok(Err("the update cannot be read".into()));
        };
        match folding.finish() {
            Err(error) => {
                self.take_out().await;
                Ok(Err(error.to_string()))
            }
            Ok(measured) => Ok(Ok((measured, spool.finish(now_ms).await?))),
        }
    }

    /// Counts the update: it is acknowledged.
    pub(super) fn land(self) {
        if let Some(folding) = self.folding {
            folding.land();
        }
    }

    /// Subtracts from the sum what was added.
    pub(super) async fn take_out(&mut self) {
        let (Some(spool), Some(folding)) = (&mut self.spool, self.folding.take()) else { return };
        folding.undo(spool.replay().await).await;
    }

    /// The body breaks off here. Returns how many bytes of the update are kept for its sender to resume.
    pub(super) async fn interrupt(&mut self, is_kept: bool) -> Result<u64, BlobError> {
        self.take_out().await;
        match &mut self.spool {
            Some(spool) if is_kept => {
                spool.keep().await?;
                Ok(spool.bytes())
            }
            _ => Ok(0),
        }
    }
}
