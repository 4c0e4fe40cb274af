//! The way to a relay's parent.
//!
//! The program that serves brings it, as it brings the evaluator, so that the library does not depend on a client's
//! transport.

use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tributary_engine::round::Offer;
use tributary_protocol::device::{Assignment, OpenJob};
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::relay::{Delivered, Part};

/// The parent of a relay, as its relay calls it.
pub trait Upstream: Debug + Send + Sync {
    /// The parent's address, for people.
    fn address(&self) -> &str;

    /// Offers places, those for jobs without a named example set and those of each set, and waits at most this long for
    /// a part in a round.
    fn next(&self, offer: Offer, wait: Duration) -> BoxFuture<'_, Result<Offered, UpstreamError>>;

    /// The model from which the clients of a part start: a plain safetensors file with the assignment's SHA-256.
    fn model<'a>(&'a self, assignment: &'a Assignment) -> BoxFuture<'a, Result<Bytes, UpstreamError>>;

    /// SCAFFOLD's control variate beside that model, as a file with the assignment's SHA-256; none where it is zero.
    fn control<'a>(&'a self, assignment: &'a Assignment) -> BoxFuture<'a, Result<Option<Bytes>, UpstreamError>>;

    /// Those of these jobs that have ended at the parent, or that it does not have.
    fn ended(&self, jobs: Vec<JobId>) -> BoxFuture<'_, Result<Vec<JobId>, UpstreamError>>;

    /// What the parent's running jobs require of examples.
    fn jobs(&self) -> BoxFuture<'_, Result<Vec<OpenJob>, UpstreamError>>;

    /// Whether the parent still waits for a part.
    fn is_open(&self, assignment: AssignmentId) -> BoxFuture<'_, Result<bool, UpstreamError>>;

    /// How long the parent took to answer a short question lately; none before it was asked.
    fn round_trip(&self) -> Option<Duration>;

    /// Sends what the reports of a part come to. The same may be sent again.
    fn deliver(&self, assignment: AssignmentId, part: Part) -> BoxFuture<'_, Result<Delivered, UpstreamError>>;

    /// Gives the places of a part back.
    fn give_up(&self, assignment: AssignmentId, reason: String) -> BoxFuture<'_, Result<(), UpstreamError>>;
}

/// The answer to an offer.
#[derive(Clone, Debug, PartialEq)]
pub enum Offered {
    /// A part in a round.
    Part(Box<Assignment>),
    /// Nothing before this time.
    Nothing(Duration),
}

/// Why a call brought no answer. It may succeed later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parent does not answer: {0}")]
pub struct UpstreamError(pub String);
