//! The body of an update on its way: hashed, decoded, added to the sum and stored as its bytes come, and taken out again
//! when it comes to nothing.

use std::pin::Pin;

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;
use tributary_protocol::hash::{Sha256Hash, Sha256Hasher};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::update::UpdateStatistics;

use super::report::Came;
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::blob::{BlobError, Spool, Staged};
use crate::clock::Clock;
use crate::db::Times;
use crate::folding::Folding;
use crate::spec::JobSpec;

/// Bytes that are decoded and added at once, so that no task keeps its thread for long.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// When a body is no longer read: bytes that may have arrived all the same (a socket's buffer), and turns of the
/// connection without any.
const DRAINED_BYTES_MAX: u64 = 8 << 20;
const DRAIN_TURNS_MAX: u32 = 32;

/// Why a body is not read to its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// Its round's deadline has come.
    Deadline,
    /// The coordinator stops.
    Stopping,
    /// The round ended.
    Closed,
    /// A newer upload of the same update came.
    Superseded,
}

/// How the reading of a body ended.
pub(super) enum End {
    Whole,
    Failed(ApiError),
    Stopped(Stop),
}

/// An update that is coming in.
pub(super) struct Incoming {
    spool: Option<Spool>,
    folding: Option<Folding>,
    hasher: Sha256Hasher,
    /// Bytes of this request's body so far.
    received: u64,
    /// When the first of them came.
    first_at_ms: Option<i64>,
    clock: Clock,
    /// Why the update cannot be accepted, as far as is known.
    bad: Option<String>,
}

/// Waits for the first reason not to read on.
pub(super) async fn stopped(
    app: &App,
    until_ms: i64,
    closing: Option<&CancellationToken>,
    superseded: Option<&CancellationToken>,
) -> Stop {
    let cancelled = async |token: Option<&CancellationToken>| match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    };
    tokio::select! {
        () = app.clock.sleep_until(until_ms) => Stop::Deadline,
        () = app.stopping.cancelled() => Stop::Stopping,
        () = cancelled(closing) => Stop::Closed,
        () = cancelled(superseded) => Stop::Superseded,
    }
}

impl Stop {
    /// What to say when the round is still open all the same.
    pub(super) fn answer(self) -> ApiError {
        match self {
            Self::Deadline => {
                ApiError::new(ProblemType::TooManyRequests, "the body came too slowly").retry_after_ms(5_000)
            }
            // A client that stopped sending must not hold up the stop.
            Self::Stopping => {
                ApiError::new(ProblemType::Unavailable, "the coordinator is stopping").retry_after_ms(1_000)
            }
            Self::Closed => ApiError::new(ProblemType::Unavailable, "the round is ending").retry_after_ms(1_000),
            Self::Superseded => {
                ApiError::new(ProblemType::UploadSuperseded, "this update is being sent by another request")
            }
        }
    }
}

impl Incoming {
    /// An update of which nothing has been read.
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

    /// It cannot be accepted. The rest of it is read and dropped.
    pub(super) async fn refuse(&mut self, reason: String) {
        self.bad = Some(reason);
        self.drop_body().await;
    }

    /// Reads what is stored of a body that broke off, as if it came now.
    pub(super) async fn replay(&mut self) -> Result<(), BlobError> {
        let Self { spool: Some(spool), folding: Some(folding), hasher, bad, .. } = self else { return Ok(()) };
        if spool.bytes() == 0 {
            return Ok(());
        }
        let mut replay = spool.replay().await?;
        while let Some(data) = replay.next().await? {
            for piece in data.chunks(PIECE_BYTES) {
                hasher.update(piece);
                if bad.is_none() {
                    *bad = folding.push(piece).err().map(|error| error.to_string());
                }
            }
        }
        if bad.is_some() {
            self.drop_body().await;
        }
        Ok(())
    }

    /// Reads the body to its end. One that cannot be accepted is read all the same: its sender listens only afterwards.
    pub(super) async fn read(
        &mut self,
        beginning: Option<Bytes>,
        body: &mut Body,
        spec: &JobSpec,
        mut stop: Pin<&mut impl Future<Output = Stop>>,
    ) -> End {
        let before = self.spool.as_ref().map_or(0, Spool::bytes);
        let mut next = beginning;
        while let Some(data) = next {
            if let Err(end) = self.take_all(&data, spec, before).await {
                return end;
            }
            let came = tokio::select! {
                came = piece(body) => came,
                stop = &mut stop => return self.drain(body, spec, before, stop).await,
            };
            next = match came {
                Ok(next) => next,
                Err(error) => return End::Failed(error),
            };
        }
        End::Whole
    }

    /// Takes what has arrived already when the reading is stopped: its sender need not send it again.
    async fn drain(&mut self, body: &mut Body, spec: &JobSpec, before: u64, stop: Stop) -> End {
        let (mut idle, until) = (0, self.received + DRAINED_BYTES_MAX);
        while idle < DRAIN_TURNS_MAX && self.received < until && matches!(stop, Stop::Stopping | Stop::Superseded) {
            match piece(body).now_or_never() {
                Some(Ok(Some(data))) => {
                    idle = 0;
                    if let Err(end) = self.take_all(&data, spec, before).await {
                        return end;
                    }
                }
                Some(_) => break,
                None => {
                    idle += 1;
                    // A turn for the connection, which has the bytes.
                    tokio::task::yield_now().await;
                }
            }
        }
        End::Stopped(stop)
    }

    /// What came of this request's body so far.
    pub(super) fn came(&self) -> Came {
        Came { bytes: self.received, times: Times { upload_at_ms: self.first_at_ms, ..Times::default() } }
    }

    async fn take_all(&mut self, data: &Bytes, spec: &JobSpec, before: u64) -> Result<(), End> {
        if !data.is_empty() {
            self.first_at_ms.get_or_insert_with(|| self.clock.now_ms());
        }
        self.received += data.len() as u64;
        if before + self.received > spec.update_bytes_max {
            return Err(End::Failed(too_large(spec)));
        }
        for piece in data.chunks(PIECE_BYTES) {
            self.take(piece).await.map_err(|error| match error {
                BlobError::Superseded(_) => End::Stopped(Stop::Superseded),
                error => End::Failed(error.into()),
            })?;
        }
        Ok(())
    }

    async fn take(&mut self, piece: &[u8]) -> Result<(), BlobError> {
        self.hasher.update(piece);
        let (Some(spool), Some(folding)) = (&mut self.spool, &mut self.folding) else { return Ok(()) };
        // First: whatever is in the sum can be read again.
        spool.push(piece).await?;
        if let Err(error) = folding.push(piece) {
            self.refuse(error.to_string()).await;
        }
        Ok(())
    }

    /// The body has ended. The hash of all of it, what an earlier request brought included.
    pub(super) fn sha256(&mut self) -> Sha256Hash {
        std::mem::take(&mut self.hasher).finish()
    }

    /// Its figures and its stored form, or why it is bad.
    pub(super) async fn finish(
        &mut self,
        now_ms: i64,
    ) -> Result<Result<(UpdateStatistics, Staged), String>, BlobError> {
        if let Some(reason) = self.bad.take() {
            return Ok(Err(reason));
        }
        let (Some(spool), Some(folding)) = (&mut self.spool, &mut self.folding) else {
            return Ok(Err("the update cannot be read".into()));
        };
        match folding.finish() {
            Err(error) => Ok(Err(error.to_string())),
            Ok(summary) => Ok(Ok((summary, spool.finish(now_ms).await?))),
        }
    }

    pub(super) fn land(self) {
        if let Some(folding) = self.folding {
            folding.land();
        }
    }

    /// Takes out of the sum what was added.
    pub(super) async fn take_out(&mut self) {
        let (Some(spool), Some(folding)) = (&self.spool, self.folding.take()) else { return };
        folding.undo(spool.replay().await).await;
    }

    /// The body is of no use: nothing of it is kept.
    pub(super) async fn drop_body(&mut self) {
        self.take_out().await;
        if let Some(spool) = self.spool.take() {
            spool.discard().await;
        }
    }

    /// The body breaks off here. Returns how much of it is kept.
    pub(super) async fn interrupt(&mut self, is_kept: bool) -> Result<u64, BlobError> {
        self.take_out().await;
        let Some(mut spool) = self.spool.take() else { return Ok(0) };
        if is_kept {
            spool.keep().await?;
            return Ok(spool.bytes());
        }
        spool.discard().await;
        Ok(0)
    }
}

/// The next bytes of a body; none at its end.
pub(super) async fn piece(body: &mut Body) -> Answer<Option<Bytes>> {
    loop {
        let Some(frame) = body.frame().await else { return Ok(None) };
        let frame =
            frame.map_err(|error| ApiError::new(ProblemType::Malformed, format!("the body broke off: {error}")))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

pub(super) fn too_large(spec: &JobSpec) -> ApiError {
    let detail = format!("an update of this job has at most {} bytes", spec.update_bytes_max);
    ApiError::new(ProblemType::TooLarge, detail)
}
