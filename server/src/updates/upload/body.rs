//! The body of an upload as a stream.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::refusal::{Stop, UploadRefusal};
use crate::services::Services;
use crate::updates::budget::Share;
use crate::updates::claims::Claim;

/// A request's body. An error is the reason why it broke off.
pub(crate) type Body = Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

/// The next bytes of a body; none at its end.
pub(super) async fn piece(body: &mut Body) -> Result<Option<Bytes>, UploadRefusal> {
    body.next().await.transpose().map_err(UploadRefusal::BrokenOff)
}

/// The reasons to stop reading a body before its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stops<'a> {
    pub(super) services: &'a Services,
    /// When its round no longer takes updates.
    pub(super) until_ms: i64,
    /// Cancelled when its round closes.
    pub(super) closing: Option<&'a CancellationToken>,
    pub(super) claim: Option<&'a Claim>,
    pub(super) share: Option<&'a Share<'a>>,
}

impl<'a> Stops<'a> {
    pub(super) fn new(services: &'a Services, until_ms: i64) -> Self {
        Self { services, until_ms, closing: None, claim: None, share: None }
    }

    /// Waits for the first reason to stop.
    pub(super) async fn first(self) -> Stop {
        let Self { services, until_ms, closing, claim, share } = self;
        let cancelled = async |token: Option<&CancellationToken>| match token {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        };
        let outpaced = async {
            match share {
                Some(share) => share.outpaced(&services.clock).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = services.clock.sleep_until(until_ms) => Stop::Deadline,
            () = services.stopping.cancelled() => Stop::Stopping,
            () = cancelled(closing) => Stop::Closed,
            () = cancelled(claim.map(Claim::superseded)) => Stop::Superseded,
            () = outpaced => Stop::Outpaced,
        }
    }
}
