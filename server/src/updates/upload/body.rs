//! The body of an upload as a stream, and the reasons to stop reading it.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::UploadRefusal;
use crate::services::Services;

/// A request's body. An error is the reason of its interruption.
pub(crate) type Body = Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

/// Why a body is not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The deadline of its round has passed.
    Deadline,
    /// The coordinator stops.
    Stopping,
    /// Its round closed.
    Closed,
    /// A newer request sends the same update.
    Superseded,
}

/// The next bytes of a body; none at its end.
pub(super) async fn piece(body: &mut Body) -> Result<Option<Bytes>, UploadRefusal> {
    body.next().await.transpose().map_err(UploadRefusal::BrokenOff)
}

/// Waits for the first reason to stop reading.
pub(super) async fn stopped(
    services: &Services,
    until_ms: i64,
    closing: Option<&CancellationToken>,
    superseded: Option<&CancellationToken>,
) -> Stop {
    let cancelled = async |token: Option<&CancellationToken>| match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    };
    tokio::select! {
        () = services.clock.sleep_until(until_ms) => Stop::Deadline,
        () = services.stopping.cancelled() => Stop::Stopping,
        () = cancelled(closing) => Stop::Closed,
        () = cancelled(superseded) => Stop::Superseded,
    }
}
