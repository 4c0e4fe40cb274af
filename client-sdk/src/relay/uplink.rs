//! The calls of a relay to its parent.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use tributary_protocol::abilities::{Abilities, Ability};
use tributary_protocol::device::{
    Assignment, AssignmentStatus, CheckInRequest, CheckInResponse, DeviceState, EvaluationReport, FailureReport,
    OpenJob, UpdateQuery,
};
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, JobId, Name, Secret};
use tributary_protocol::inputs::Description;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::relay::{Delivered, PLACES_MAX, Part, RelayJobs, RelayOffer, SumQuery};
use tributary_protocol::state::FailureReason;

use super::answer::NextOrder;
use crate::error::ClientError;
use crate::models::{control_file, plain_model};
use crate::session::{Context, as_known, check_in, cut, leaves_assignment_open, plain_request, wait_ms};
use crate::transport::upload::{Figures, Upload};

/// The connection of a relay to its parent. [`Client::into_uplink`](crate::Client::into_uplink) makes it.
///
/// Calls may run at the same time, except two of [`Self::model`] or [`Self::control`]. Each enrols the relay if it has
/// no identity, or if the parent does not know it any more, and repeats what failed for a moment. Futures may be
/// dropped at any time.
#[derive(Debug)]
pub struct Uplink {
    context: Context,
    /// How long the parent took to answer the last short question, in milliseconds.
    round_trip_ms: AtomicU64,
}

/// Before the first question.
const UNKNOWN: u64 = u64::MAX;

impl Uplink {
    pub(crate) fn new(context: Context) -> Self {
        Self { context, round_trip_ms: AtomicU64::new(UNKNOWN) }
    }

    /// How long the parent took to answer the last question that it does not hold: whether an order is open, or a job
    /// has ended. `None` before the first one.
    pub fn round_trip(&self) -> Option<Duration> {
        Some(self.round_trip_ms.load(Relaxed)).filter(|ms| *ms != UNKNOWN).map(Duration::from_millis)
    }

    /// Asks something, and notes how long the answer takes.
    async fn timed<T>(&self, asked: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        let began_ms = self.context.clock.now_ms();
        let answer = asked.await?;
        self.round_trip_ms.store(self.context.clock.now_ms().saturating_sub(began_ms), Relaxed);
        Ok(answer)
    }

    /// The parent's address.
    pub fn address(&self) -> &str {
        self.context.coordinator.address()
    }

    /// Checks in, and offers to stand for so many clients, 10,000 at most. `sets` are the named example sets behind the
    /// relay, each with the number of clients that have it; `places` are for jobs that name no set. The parent may hold
    /// the request for `wait`, 60 s at most, until it has work. While an order is open, every check-in is answered with
    /// it.
    ///
    /// # Errors
    /// [`ClientError::NoRelay`] if the parent takes the relay for an ordinary client, since its token grants no relay:
    /// the work is then given back. Other [`ClientError`]s if the store fails, or the parent does not answer or
    /// refuses.
    pub async fn next(&self, places: u32, sets: ExampleSets, wait: Duration) -> Result<NextOrder, ClientError> {
        let request = CheckInRequest {
            sets,
            relay: Some(RelayOffer { places: places.min(PLACES_MAX) }),
            wait_ms: wait_ms(wait),
            // It hands sums on whole.
            abilities: Abilities::ALL.without(Ability::Shards),
            // A relay has no examples of its own, and the parent ignores their number. No client may have none.
            ..plain_request(&self.context, DeviceState { examples: 1, ..DeviceState::default() })
        };
        let mut identity = self.context.identity().await?;
        match check_in(&self.context, &mut identity, &request).await? {
            CheckInResponse::Retry { retry_after_ms, waits_for } => {
                tracing::debug!(?waits_for, retry_after_ms, "the parent has no work");
                Ok(NextOrder::Wait(Duration::from_millis(retry_after_ms)))
            }
            CheckInResponse::Assigned(assignment) if assignment.relay.is_some() => Ok(NextOrder::Order(assignment)),
            CheckInResponse::Assigned(assignment) => {
                let error = ClientError::NoRelay;
                let detail = format!("this client is a relay and trains nothing; {error}");
                self.report(assignment.id, FailureReason::DoesNotFit, detail).await;
                Err(error)
            }
        }
    }

    /// The population whose jobs the relay works for, as the parent said at its enrolment.
    ///
    /// # Errors
    /// [`ClientError`] if the store fails, or the relay is not enrolled and the parent does not answer or refuses the
    /// token.
    pub async fn population(&self) -> Result<Name, ClientError> {
        Ok(self.context.identity().await?.population)
    }

    /// The model that an order starts from: the plain f32 safetensors file, whose hash is
    /// [`Assignment::model_sha256`]. A download that broke off, in an earlier process too, continues where it ended.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if the parent does not answer, or what it sends has another hash each time. Other
    /// [`ClientError`]s if the plan's model is invalid, the store fails or the parent refuses.
    pub async fn model(&self, assignment: &Assignment) -> Result<Bytes, ClientError> {
        let Context { state, coordinator, .. } = &self.context;
        let file = self.known(|secret| async move { plain_model(state, coordinator, &secret, assignment).await });
        Ok(file.await?.into())
    }

    /// SCAFFOLD's control variate beside that model: its f32 safetensors file, whose hash is in
    /// [`Assignment::control`]. `None` where it is zero, and for other algorithms.
    ///
    /// # Errors
    /// As [`Self::model`].
    pub async fn control(&self, assignment: &Assignment) -> Result<Option<Bytes>, ClientError> {
        let Context { state, coordinator, .. } = &self.context;
        let file = self.known(|secret| async move { control_file(state, coordinator, &secret, assignment).await });
        Ok(file.await?.map(Bytes::from))
    }

    /// Those of these jobs, 100 at most, that have ended at the parent, or that it does not have. Asked once.
    ///
    /// # Errors
    /// [`ClientError`] if the parent does not answer, or refuses.
    pub async fn ended(&self, jobs: Vec<JobId>) -> Result<Vec<JobId>, ClientError> {
        let jobs = &RelayJobs { jobs };
        let ask = |secret| async move { self.context.coordinator.ask_ended(&secret, jobs).await };
        Ok(self.timed(self.known(ask)).await?.jobs)
    }

    /// What the parent's running jobs require of examples. Asked once.
    ///
    /// # Errors
    /// [`ClientError`] if the parent does not answer, or refuses the token.
    pub async fn jobs(&self) -> Result<Vec<OpenJob>, ClientError> {
        Ok(self.context.coordinator.ask_jobs(&self.context.enrolment).await?.jobs)
    }

    /// Asks once whether the parent still waits for the report of an order. `None`: its round is over, or the parent
    /// knows no such order of this relay: its operator has deleted the job, or the parent has another database.
    ///
    /// # Errors
    /// [`ClientError`] if the parent does not answer, or refuses for another reason.
    pub async fn is_open(&self, id: AssignmentId) -> Result<Option<AssignmentStatus>, ClientError> {
        let ask = |secret| async move { self.context.coordinator.ask(&secret, id).await };
        match self.timed(self.known(ask)).await {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.ends_assignment() || is_unknown(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends what the reports of an order come to. The same bytes of a sum continue where an earlier delivery broke
    /// off, also one of an earlier process. A parent that refuses the part, and keeps the order open, gets a failure
    /// report.
    ///
    /// # Errors
    /// [`ClientError`] if the parent does not answer, or cannot take the part now: deliver it again later.
    pub async fn deliver(&self, id: AssignmentId, part: Part) -> Result<Delivered, ClientError> {
        let outgoing = Outgoing::from(part);
        let sent = self.known(|secret| self.send(secret, id, &outgoing)).await;
        let Err(error) = sent else { return Ok(Delivered::Counted) };
        if leaves_assignment_open(&error) {
            self.report(id, FailureReason::DoesNotFit, error.to_string()).await;
        }
        match error {
            error if !error.is_final() => Err(error),
            ClientError::Refused(problem) => Ok(Delivered::Refused(problem.to_string())),
            error => Ok(Delivered::Refused(error.to_string())),
        }
    }

    /// Says that no sum follows, so that the round does not wait for it. Of the detail, the parent's operator sees 1024
    /// bytes.
    ///
    /// # Errors
    /// [`ClientError`] if the parent does not answer. A round that is over is no error, and neither is a parent that
    /// refuses: it will never wait for the sum.
    pub async fn give_up(&self, id: AssignmentId, detail: &str) -> Result<(), ClientError> {
        self.post_failure(id, FailureReason::Other, detail.to_owned()).await
    }

    /// Sends what the parent does not have yet of a part.
    async fn send(&self, secret: Secret, id: AssignmentId, part: &Outgoing) -> Result<(), ClientError> {
        let coordinator = &self.context.coordinator;
        // Asked first, so that no bytes are sent to a round that has closed.
        if coordinator.status(&secret, id, true).await?.reported {
            return Ok(());
        }
        match part {
            Outgoing::Updates { body, sha256, query } => {
                // Whether an earlier process has sent some of it is unknown.
                let upload = Upload { id, figures: Figures::Sum(query), body, sha256: *sha256, begun: true };
                coordinator.upload(&secret, &upload).await?
            }
            Outgoing::Combination { body, sha256, query } => {
                let upload = Upload { id, figures: Figures::Update(query), body, sha256: *sha256, begun: true };
                coordinator.upload(&secret, &upload).await?
            }
            Outgoing::Evaluations { reports, report } => {
                coordinator.put_evaluation(&secret, id, Some(*reports), report).await?
            }
            Outgoing::Descriptions { reports, sums } => {
                coordinator.put_description(&secret, id, Some(*reports), sums).await?
            }
        };
        Ok(())
    }

    async fn post_failure(&self, id: AssignmentId, reason: FailureReason, detail: String) -> Result<(), ClientError> {
        let report = &FailureReport { reason, detail: cut(detail) };
        let post = |secret| async move { self.context.coordinator.post_failure(&secret, id, report).await };
        match self.known(post).await {
            Err(error) if !error.is_final() => Err(error),
            _ => Ok(()),
        }
    }

    /// Reports a failure. If the report is lost, the parent waits until its round's deadline, which is no error.
    async fn report(&self, id: AssignmentId, reason: FailureReason, detail: String) {
        if let Err(error) = self.post_failure(id, reason, detail).await {
            tracing::warn!(%error, "the parent does not learn that an order failed");
        }
    }

    /// Makes a call with the relay's secret.
    async fn known<T, F>(&self, call: impl Fn(Secret) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let mut identity = self.context.identity().await?;
        as_known(&self.context, &mut identity, |identity| call(identity.secret)).await
    }
}

/// A part on its way. The body of a sum is hashed once, however often it is sent.
enum Outgoing {
    Updates { body: Bytes, sha256: Sha256Hash, query: SumQuery },
    Combination { body: Bytes, sha256: Sha256Hash, query: UpdateQuery },
    Evaluations { reports: u32, report: EvaluationReport },
    Descriptions { reports: u32, sums: Description },
}

impl From<Part> for Outgoing {
    fn from(part: Part) -> Self {
        match part {
            Part::Updates { body, query } => {
                let sha256 = Sha256Hash::of(&body);
                Self::Updates { body: body.into(), sha256, query }
            }
            Part::Combination { body, query } => {
                let sha256 = Sha256Hash::of(&body);
                Self::Combination { body: body.into(), sha256, query }
            }
            Part::Evaluations { reports, report } => Self::Evaluations { reports, report },
            Part::Descriptions { reports, sums } => Self::Descriptions { reports, sums },
        }
    }
}

/// Whether the parent has no such order, or has it of another client: the relay has enrolled again.
fn is_unknown(error: &ClientError) -> bool {
    error.is(ProblemType::NotFound) || error.is(ProblemType::Forbidden)
}
