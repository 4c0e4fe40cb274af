//! Training in a group whose members exchange while they train: every n steps each of them goes on with the mean of all
//! models, so at the end all have the same one.
//!
//! The group forms before the training. A group that fails forms again with those that are left, at the exchange that
//! all of them have completed. When the coordinator lets members send their own updates, each goes on alone. While it
//! cannot be reached, members with models of their own train and mix on.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use tributary_collective::Reduced;
use tributary_protocol::device::Assignment;
use tributary_protocol::fixed::{Weight, quantise};
use tributary_protocol::group::messages::{RingAnswer, RingOutcome, RingReport, RingRoster};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::plan::{Exchange, Gossip};
use tributary_protocol::sharing::Part;
use tributary_protocol::sum::SumWriter;

use super::super::context::Context;
use super::super::made::keep_next_model;
use super::super::watch::Watch;
use super::joined::{Joined, Lost, alive_during};
use super::member::{Member, header, unusable};
use super::progress::Progress;
use crate::error::ClientError;
use crate::host::Host;
use crate::store::client_state::ClientState;
use crate::store::state::{Identity, Work};
use crate::tasks::{Completed, Exchanging, Given};
use crate::trainer::TrainError;

/// The pause before the coordinator is asked again that does not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// The kept vector of a member's own model.
const OWN: &str = "gossip";

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
    let Together { context, identity, given, exchange, examples, host, watch } = together;
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
        gossip: exchange.gossip,
        attempt: 0,
        group: None,
        told: None,
        away_since_ms: None,
        again: 0,
        is_alone: false,
        is_counted: None,
    };
    if exchange.gossip.is_some() {
        lockstep.begins_with_its_own();
    }
    lockstep.join().await?;
    if lockstep.is_alone && lockstep.is_counted.is_some() {
        // An earlier session of this client was in the group, whose sum is stored: nothing is left to train.
        watch.close(lockstep.is_counted.unwrap_or_default());
        return Err(TrainError::Interrupted.into());
    }
    // Of the trainings without the coordinator only the first one is an update.
    let mut first = None;
    loop {
        let Lockstep { group, progress, is_alone, again, .. } = &mut lockstep;
        let every = (!*is_alone).then_some(exchange.every);
        let exchanging = Exchanging { every, resume: progress.resume(), again: *again };
        match alive_during(group, || train(exchanging)).await {
            Err(TrainError::Paused(checkpoint)) => {
                lockstep.progress.comes(*checkpoint)?;
                if lockstep.exchange().await? {
                    continue;
                }
            }
            Err(error) => return Err(error.into()),
            Ok(completed) => drop(first.get_or_insert(completed)),
        }
        let Some(completed) = first.take() else { continue };
        if lockstep.agrees(&completed).await? {
            return Ok(lockstep.keeps(completed));
        }
        first = lockstep.told.is_some().then_some(completed);
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
    gossip: Option<Gossip>,
    /// The attempt that it saw last.
    attempt: u32,
    group: Option<Joined>,
    /// The sum of its group, which the coordinator has not answered to yet.
    told: Option<Told>,
    /// Since when the coordinator is away.
    away_since_ms: Option<u64>,
    /// Trainings that the group has begun meanwhile.
    again: u64,
    /// Whether it trains by itself: members send their own updates, or the sum of the others is stored.
    is_alone: bool,
    /// The time until the next check-in, once the sum of its group is stored.
    is_counted: Option<Duration>,
}

/// The sum of a group, and what its member says of it.
struct Told {
    roster: RingRoster,
    body: Bytes,
    outcome: RingOutcome,
}

impl Lockstep<'_> {
    /// Joins the next attempt, until the member is in one that all can reach, or trains alone.
    async fn join(&mut self) -> Result<(), ClientError> {
        while self.group.is_none() && !self.is_alone {
            let asked = self.member.ready(self.attempt, self.report, self.progress.exchanged()).await;
            match patient(&self.member, asked).await? {
                Some(RingAnswer::Formed(roster)) => self.connect(*roster).await?,
                Some(answer @ (RingAnswer::Done { .. } | RingAnswer::Star)) => {
                    if let RingAnswer::Done { retry_after_ms } = answer {
                        self.is_counted = Some(Duration::from_millis(retry_after_ms));
                    }
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
        match Joined::connect(&self.member, roster, self.gossip).await {
            Ok(joined) => self.group = Some(joined),
            Err(stall) => self.member.stalled(stall).await?,
        }
        Ok(())
    }

    /// Makes the exchange to which the training has come, in this group or the next one. False if there is no next
    /// one, because the coordinator has yet to hear of the sum of this one.
    async fn exchange(&mut self) -> Result<bool, ClientError> {
        while let Some(values) = self.progress.brings() {
            let Some(group) = &mut self.group else {
                if self.told.is_some() {
                    return Ok(false);
                }
                self.join().await?;
                continue;
            };
            let exchanged = match self.gossip {
                None => {
                    let mean = group.mean(&self.member, self.progress.anchor(), &values).await;
                    mean.map(|mean| (mean, None))
                }
                Some(gossip) => {
                    let scale = scale(&group.roster);
                    let mut model = moved(&self.progress, &self.base, &values, scale);
                    let mixed = group.mix(&self.member, gossip.mixes, &mut model).await;
                    mixed.map(|()| (valued(&self.base, &model, scale), Some(model)))
                }
            };
            match exchanged {
                Ok((values, exact)) => self.progress.completes(values, exact),
                Err(lost) => self.loses(lost).await?,
            }
        }
        Ok(true)
    }

    /// The group has ended.
    async fn loses(&mut self, lost: Lost) -> Result<(), ClientError> {
        match lost {
            Lost::Diverged => Err(TrainError::Diverged.into()),
            Lost::Stalled(stall) => {
                self.group = None;
                match self.told {
                    // It was complete when its sum was.
                    Some(_) => Ok(()),
                    None => self.member.stalled(stall).await,
                }
            }
        }
    }

    /// The training begins with the model that the member kept from its last round, if it has one.
    fn begins_with_its_own(&mut self) {
        let kept = self.given.state.kept(self.given.assignment).and_then(|mut kept| kept.take_last(OWN));
        if let Some(own) = kept.filter(|own| own.len() == self.base.len()) {
            self.progress.begins_with(own, self.given.base.model.values().to_vec());
        }
    }

    /// What the client keeps on the device besides: in gossip, its own model.
    fn keeps(self, mut completed: Completed) -> Completed {
        if self.gossip.is_some() && !self.is_alone {
            let own = self.own_model();
            match &mut completed.next_state {
                Some(state) => state.vectors.extend(own.vectors),
                none => *none = Some(own),
            }
        }
        completed
    }

    fn own_model(&self) -> ClientState {
        let Assignment { job, round, model_sha256, .. } = *self.given.assignment;
        let vectors = BTreeMap::from([(OWN.to_owned(), self.progress.anchor().to_vec())]);
        ClientState { job, round, model_sha256, vectors }
    }

    /// Tells the coordinator the sum. While it cannot be reached, the members train again, if none of those in the
    /// group reaches it: no answer then. One that does leaves the group.
    async fn tells(&mut self, outcome: &RingOutcome) -> Result<Option<RingAnswer>, ClientError> {
        let (member, is_first) = (&self.member, self.away_since_ms.is_none());
        let telling =
            async { if is_first { member.outcome(outcome).await } else { member.outcome_once(outcome).await } };
        let (Some(gossip), Some(group)) = (self.gossip, &mut self.group) else { return telling.await.map(Some) };
        // The others wait for this member before they train again.
        let away = match group.alive_while(telling).await {
            Err(error) if error.is_temporary() => error,
            told => return told.map(Some),
        };
        let now_ms = member.clock().now_ms();
        let ends_ms = self.away_since_ms.get_or_insert(now_ms).saturating_add(gossip.alone_ms);
        if now_ms >= ends_ms {
            return Err(away);
        }
        group.lasts_until(ends_ms);
        let asks = async {
            while member.may_continue() {
                member.clock().sleep(AGAIN).await;
                match member.outcome_once(outcome).await {
                    Err(error) if error.is_temporary() => {}
                    answer => return answer,
                }
            }
            Err(TrainError::Interrupted.into())
        };
        let met = match select(pin!(group.meets(member)), pin!(asks)).await {
            Either::Left((met, _)) => met.map_err(|_| Err(away)),
            Either::Right((answer, _)) => Err(answer),
        };
        match met {
            Ok(()) => {
                self.begins_again();
                Ok(None)
            }
            Err(answer) => {
                self.group = None;
                answer.map(Some)
            }
        }
    }

    /// Begins a training without the coordinator.
    fn begins_again(&mut self) {
        if let Err(error) = self.member.context.state.save_client_state(&self.own_model()) {
            tracing::warn!(%error, "a member's own model is not stored");
        }
        self.again += 1;
        tracing::info!(trainings = self.again, "the group trains without the coordinator");
        let own = self.progress.anchor().to_vec();
        self.progress.begins_with(own, self.given.base.model.values().to_vec());
    }

    /// Tells the coordinator the sum of the group, and brings it if it is asked to. False if training goes on, because
    /// others could not complete the last exchange, or because the coordinator is away.
    async fn agrees(&mut self, completed: &Completed) -> Result<bool, ClientError> {
        let Work::Update { query, .. } = &completed.work else { return Ok(true) };
        while !self.is_alone {
            let Some(told) = self.told.take() else {
                if self.group.is_some() {
                    self.adds_up(RingReport::from(query)).await?;
                    continue;
                }
                self.join().await?;
                if self.progress.brings().is_some() {
                    self.exchange().await?;
                    return Ok(false);
                }
                continue;
            };
            let Some(asked) = self.tells(&told.outcome).await.transpose() else {
                self.told = Some(told);
                return Ok(false);
            };
            let is_counted = match patient(&self.member, asked).await? {
                Some(RingAnswer::Upload(figures)) => {
                    match self.member.upload((&told.body, told.outcome.sha256), &figures.into()).await {
                        Ok(_) => true,
                        Err(error) if error.ends_assignment() => return Err(error),
                        Err(error) => {
                            // The coordinator says what became of the attempt.
                            tracing::warn!(%error, "the sum of a group was not taken");
                            self.told = Some(told);
                            continue;
                        }
                    }
                }
                Some(RingAnswer::Done { .. }) => true,
                Some(RingAnswer::Star) => return Ok(true),
                Some(RingAnswer::Over | RingAnswer::Formed(_)) => false,
                None => {
                    self.told = Some(told);
                    continue;
                }
            };
            if is_counted {
                keep_next_model(&self.member.context.state, self.given.assignment, &told.roster, &told.body);
                return Ok(true);
            }
            (self.group, self.away_since_ms) = (None, None);
        }
        Ok(true)
    }

    /// Makes the sum of the group, all of whose members have ended their training.
    async fn adds_up(&mut self, report: RingReport) -> Result<(), ClientError> {
        let Some(group) = &mut self.group else { return Ok(()) };
        let (body, distance) = match &self.progress.exact().map(<[i64]>::to_vec) {
            None => (sum(self.given.assignment, &group.roster, (self.progress.anchor(), &self.base))?, None),
            Some(own) => match group.sum(&self.member, own).await {
                Ok(reduced) => {
                    let (tag, contribution) = header(self.given.assignment, &group.roster);
                    let distance = distance(own, &reduced, &group.roster);
                    (reduced.body(tag, contribution), Some(distance))
                }
                Err(lost) => return self.loses(lost).await,
            },
        };
        let body = Bytes::from(body);
        let (bytes_sent, bytes_received) = group.traffic();
        let outcome = RingOutcome {
            attempt: group.roster.attempt,
            sha256: Sha256Hash::of(&body),
            bytes_sent,
            bytes_received,
            took_ms: self.member.clock().now_ms().saturating_sub(group.began_ms),
            sent_kbit_s: None,
            report: Some(report),
            distance,
        };
        self.told = Some(Told { roster: group.roster.clone(), body, outcome });
        Ok(())
    }
}

/// What an integer of a sum counts: 2^binary_point to a unit.
fn scale(roster: &RingRoster) -> f64 {
    Weight::examples(1).factor(roster.binary_point)
}

/// The body of the sum of members that all have this model: each member's update is the same one.
fn sum(assignment: &Assignment, roster: &RingRoster, (all, base): (&[f32], &[f32])) -> Result<Vec<u8>, ClientError> {
    let ((tag, contribution), scale) = (header(assignment, roster), scale(roster));
    let mut writer = SumWriter::new(tag, contribution, u32::try_from(base.len()).unwrap_or(u32::MAX));
    for (value, base) in all.iter().zip(base) {
        let integer = quantise(f64::from(value - base) * scale);
        if integer.unsigned_abs() > roster.value_max {
            return Err(TrainError::Diverged.into());
        }
        writer.push(&[integer * i64::from(contribution.updates)]);
    }
    writer.finish().map_err(|error| unusable(&error.to_string()))
}

/// How far a member's own model is from the version after its training, as integers. What it was before in fixed point
/// stays to the last bit.
fn moved(progress: &Progress<'_>, base: &[f32], values: &[f32], scale: f64) -> Vec<i64> {
    let since = |from: &[f32]| -> Vec<i64> {
        values
            .iter()
            .zip(from)
            .map(|(value, from)| (f64::from(value - from) * scale).round_ties_even() as i64)
            .collect()
    };
    match progress.exact() {
        None => since(base),
        Some(exact) => {
            since(progress.anchor()).iter().zip(exact).map(|(moved, exact)| exact.saturating_add(*moved)).collect()
        }
    }
}

/// The values of a model that is so far from the version.
fn valued(base: &[f32], exact: &[i64], scale: f64) -> Vec<f32> {
    base.iter().zip(exact).map(|(base, exact)| (f64::from(*base) + *exact as f64 / scale) as f32).collect()
}

/// The distance of a member's model from the mean of all.
fn distance(own: &[i64], sum: &Reduced, roster: &RingRoster) -> f64 {
    let mut all = vec![0i64; own.len()];
    sum.integers(&mut all);
    let (members, scale) = (roster.members.len() as f64, scale(roster));
    let apart = own.iter().zip(all).map(|(own, all)| ((*own as f64 - all as f64 / members) / scale).powi(2));
    apart.sum::<f64>().sqrt()
}

/// The answer; none, after a pause, where the coordinator cannot answer now.
async fn patient(
    member: &Member<'_>,
    asked: Result<RingAnswer, ClientError>,
) -> Result<Option<RingAnswer>, ClientError> {
    match asked {
        Err(error) if error.is_temporary() => {
            if !member.may_continue() {
                return Err(TrainError::Interrupted.into());
            }
            tracing::info!(%error, "the group waits for the coordinator");
            member.clock().sleep(AGAIN).await;
            Ok(None)
        }
        asked => asked.map(Some),
    }
}
