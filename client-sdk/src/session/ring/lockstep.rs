//! Training in a group whose members exchange while they train: every n steps each of them goes on with the mean of all
//! models, so at the end all have the same one.
//!
//! The group forms before the training. A group that fails forms again with those that are left, at the exchange that
//! all of them have completed. When the coordinator lets members send their own updates, each goes on alone.

use std::time::Duration;

use bytes::Bytes;
use tributary_protocol::fixed::{Contribution, Weight, quantise};
use tributary_protocol::group::messages::{RingAnswer, RingOutcome, RingReport, RingRoster};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::plan::Exchange;
use tributary_protocol::sharing::Part;
use tributary_protocol::sum::{SumWriter, tag};

use super::super::context::Context;
use super::super::made::keep_next_model;
use super::super::watch::Watch;
use super::joined::{Joined, Lost, alive_during};
use super::member::{Member, unusable};
use super::progress::Progress;
use crate::error::ClientError;
use crate::host::Host;
use crate::store::state::{Identity, Work};
use crate::tasks::{Completed, Exchanging, Given};
use crate::trainer::TrainError;

/// The pause before the coordinator is asked again that does not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// What a member of such a group is given.
pub(in crate::session) struct Together<'a> {
    pub(in crate::session) context: &'a Context,
    pub(in crate::session) identity: &'a Identity,
    pub(in crate::session) given: &'a Given<'a>,
    pub(in crate::session) exchange: Exchange,
    /// Examples that the client trains on.
    pub(in crate::session) examples: u64,
    pub(in crate::session) host: &'a dyn Host,
    pub(in crate::session) watch: &'a Watch,
}

/// Trains together with the others. The work that it gives is in the sum of the group, or goes to the coordinator by
/// itself.
///
/// # Errors
/// That of the training. One that was interrupted because the round has closed is noted in the watch.
pub(in crate::session) async fn together(
    together: Together<'_>,
    train: &mut (dyn FnMut(Exchanging<'_>) -> Result<Completed, TrainError> + Send),
) -> Result<Completed, TrainError> {
    let watch = together.watch;
    match trained(together, train).await {
        Ok(completed) => Ok(completed),
        Err(ClientError::Training(error)) => Err(error),
        Err(error) if error.ends_assignment() => {
            watch.close(error.retry_after().unwrap_or_default());
            Err(TrainError::Interrupted)
        }
        Err(error) => Err(TrainError::Other(error.to_string())),
    }
}

async fn trained(
    together: Together<'_>,
    train: &mut (dyn FnMut(Exchanging<'_>) -> Result<Completed, TrainError> + Send),
) -> Result<Completed, ClientError> {
    let Together { context, identity, given, exchange, examples, host, watch: _ } = together;
    let base = given.base;
    let weight = u32::try_from(examples).unwrap_or(u32::MAX).min(given.assignment.plan.weight_max);
    if weight == 0 {
        return Err(TrainError::NoExamples.into());
    }
    let mut lockstep = Lockstep {
        member: Member::begin(context, identity, given.assignment.id, host).await?,
        given,
        report: RingReport { weight, loss: None, steps: 0, train_ms: 0 },
        base: base.parts.take(Part::Shared, base.model.values()),
        progress: Progress::new(&base.parts, base.model.values()),
        attempt: 0,
        group: None,
        is_alone: false,
    };
    lockstep.join().await?;
    loop {
        let Lockstep { group, progress, is_alone, .. } = &mut lockstep;
        let every = (!*is_alone).then_some(exchange.every);
        let exchanging = Exchanging { every, resume: progress.resume() };
        match alive_during(group, || train(exchanging)).await {
            Err(TrainError::Paused(checkpoint)) => {
                lockstep.progress.comes(*checkpoint)?;
                lockstep.exchange().await?;
            }
            Err(error) => return Err(error.into()),
            Ok(completed) => {
                if lockstep.agrees(&completed).await? {
                    return Ok(completed);
                }
            }
        }
    }
}

/// A member on its way.
struct Lockstep<'a> {
    member: Member<'a>,
    given: &'a Given<'a>,
    /// What it can tell of its training before it has ended.
    report: RingReport,
    /// The shared values with which the training began.
    base: Vec<f32>,
    progress: Progress<'a>,
    /// The attempt that it saw last.
    attempt: u32,
    group: Option<Joined>,
    /// Whether it trains by itself: members send their own updates, or the sum of the others is stored.
    is_alone: bool,
}

impl Lockstep<'_> {
    /// Joins the next attempt, until the member is in one that all can reach, or trains alone.
    async fn join(&mut self) -> Result<(), ClientError> {
        while self.group.is_none() && !self.is_alone {
            let asked = self.member.ready(self.attempt, self.report, self.progress.exchanged()).await;
            match self.patient(asked).await? {
                Some(RingAnswer::Formed(roster)) => self.connect(*roster).await?,
                Some(RingAnswer::Done { .. } | RingAnswer::Star) => {
                    self.is_alone = true;
                    self.progress.goes_alone();
                }
                Some(RingAnswer::Over | RingAnswer::Upload(_)) | None => {}
            }
        }
        Ok(())
    }

    async fn connect(&mut self, roster: RingRoster) -> Result<(), ClientError> {
        self.attempt = roster.attempt;
        if !self.progress.goes_back(roster.exchanged) {
            return Err(unusable("its group goes on where this member is not"));
        }
        match Joined::connect(&self.member, roster).await {
            Ok(joined) => self.group = Some(joined),
            Err(stall) => self.member.stalled(stall).await?,
        }
        Ok(())
    }

    /// Makes the exchange to which the training has come, in this group or the next one.
    async fn exchange(&mut self) -> Result<(), ClientError> {
        while let Some(values) = self.progress.brings() {
            let Some(group) = &mut self.group else {
                self.join().await?;
                continue;
            };
            match group.mean(&self.member, self.progress.anchor(), &values).await {
                Ok(mean) => self.progress.completes(mean),
                Err(Lost::Diverged) => return Err(TrainError::Diverged.into()),
                Err(Lost::Stalled(stall)) => {
                    self.group = None;
                    self.member.stalled(stall).await?;
                }
            }
        }
        Ok(())
    }

    /// Tells the coordinator the sum of the group, and brings it if it is asked to. False if training goes on, because
    /// others could not complete the last exchange.
    async fn agrees(&mut self, completed: &Completed) -> Result<bool, ClientError> {
        let Work::Update { query, .. } = &completed.work else { return Ok(true) };
        while !self.is_alone {
            let Some(group) = &self.group else {
                self.join().await?;
                if self.progress.brings().is_some() {
                    self.exchange().await?;
                    return Ok(false);
                }
                continue;
            };
            let body = Bytes::from(self.sum(&group.roster)?);
            let outcome = RingOutcome {
                attempt: group.roster.attempt,
                sha256: Sha256Hash::of(&body),
                bytes_sent: group.sent_bytes,
                bytes_received: group.received_bytes,
                took_ms: self.member.clock().now_ms().saturating_sub(group.began_ms),
                report: Some(RingReport::from(query)),
            };
            let asked = self.member.outcome(&outcome).await;
            match self.patient(asked).await? {
                Some(RingAnswer::Upload(figures)) => {
                    match self.member.upload((&body, outcome.sha256), &figures.into()).await {
                        Ok(_) => {
                            self.keep_next_model(&group.roster, &body);
                            return Ok(true);
                        }
                        Err(error) if error.ends_assignment() => return Err(error),
                        // The coordinator says what became of the attempt.
                        Err(error) => tracing::warn!(%error, "the sum of a group was not taken"),
                    }
                }
                Some(RingAnswer::Done { .. }) => {
                    self.keep_next_model(&group.roster, &body);
                    return Ok(true);
                }
                Some(RingAnswer::Star) => return Ok(true),
                Some(RingAnswer::Over | RingAnswer::Formed(_)) => self.group = None,
                None => {}
            }
        }
        Ok(true)
    }

    /// The coordinator has the sum, and makes the next model of it, as this member does.
    fn keep_next_model(&self, roster: &RingRoster, body: &[u8]) {
        keep_next_model(&self.member.context.state, self.given.assignment, roster, body);
    }

    /// The body of the group's sum: each member's update is the same one.
    fn sum(&self, roster: &RingRoster) -> Result<Vec<u8>, ClientError> {
        let updates = u32::try_from(roster.members.len()).unwrap_or(u32::MAX);
        let contribution = Contribution { weight: Weight::of_units(roster.weight), updates };
        let assignment = self.given.assignment;
        let tag = tag(&assignment.job, assignment.model_version, roster.binary_point);
        let factor = Weight::examples(1).factor(roster.binary_point);
        let mut writer = SumWriter::new(tag, contribution, u32::try_from(self.base.len()).unwrap_or(u32::MAX));
        for (value, base) in self.progress.anchor().iter().zip(&self.base) {
            let integer = quantise(f64::from(value - base) * factor);
            if integer.unsigned_abs() > roster.value_max {
                return Err(TrainError::Diverged.into());
            }
            writer.push(&[integer * i64::from(updates)]);
        }
        writer.finish().map_err(|error| unusable(&error.to_string()))
    }

    /// The answer; none, after a pause, where the coordinator cannot answer now.
    async fn patient(&self, asked: Result<RingAnswer, ClientError>) -> Result<Option<RingAnswer>, ClientError> {
        match asked {
            Err(error) if error.is_temporary() => {
                tracing::info!(%error, "the group waits for the coordinator");
                self.member.clock().sleep(AGAIN).await;
                Ok(None)
            }
            asked => asked.map(Some),
        }
    }
}
