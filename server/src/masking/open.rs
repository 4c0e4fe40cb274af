//! The sum of a group without its masks, as an update of its round.
//!
//! Bytes moved per value of a group of n: its packed bits are read once for each survivor and added to a word of 2 or 4
//! bytes. Then each mask that is left is made again: one of each survivor, and for each lost member those with its
//! neighbours. Keystreams are the limit; they are made on all cores.

use std::sync::Arc;

use bytes::Bytes;
use tributary_engine::job::JobSpec;
use tributary_engine::round::masking::masked_norm_max;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::secure::messages::Unmask;
use tributary_protocol::secure::open::{OpenError, Opened, Opening, Unmasks};
use tributary_protocol::secure::slots::{SLOTS, Totals};
use tributary_protocol::secure::{Context, Roster, Survivors};
use tributary_protocol::seed::Seed;
use tributary_protocol::state::{AssignmentState, GroupFailure};
use tributary_protocol::update::encode;

use super::bodies::Bodies;
use super::roster::{opened_share, quantiser_of, records_of, roster_of};
use crate::blob::update_key;
use crate::db::{AssignmentRow, DbError, RoundRow, SecureGroupRow, SecureMemberRow, ShareStage};
use crate::lifecycle::groups::Sum;
use crate::models::error::CommitError;
use crate::runtime::offload::blocking;
use crate::services::Services;

/// What opening a group came to.
pub(super) enum Outcome {
    Sum(Box<Sum>),
    Failed(GroupFailure),
}

/// A group that is being opened.
struct Group<'a> {
    services: &'a Services,
    row: &'a SecureGroupRow,
    members: &'a [SecureMemberRow],
    context: Context,
    roster: Roster,
    survivors: Survivors,
}

/// Opens the sum of a group whose secrets have their shares.
pub(super) async fn open(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    row: &SecureGroupRow,
    members: &[SecureMemberRow],
) -> Result<Outcome, CommitError> {
    let (context, roster) = roster_of(row, members)?;
    let survivors = row.survivors().ok_or_else(|| DbError::Corrupt(format!("{} has no survivors", row.id)))?;
    let group = Group { services, row, members, context, roster, survivors };
    let masks = match group.masks().await? {
        Ok(Opened { masks, liars }) => {
            for liar in liars {
                let client = members.get(usize::from(liar)).map(|member| member.number);
                tracing::warn!(?client, group = %row.id, "a member gave a false share");
            }
            masks
        }
        Err(OpenError::TooFewShares { .. }) => return Ok(Outcome::Failed(GroupFailure::TooFewShares)),
        Err(error) => {
            tracing::warn!(%error, group = %row.id, "a group cannot be opened");
            return Ok(Outcome::Failed(GroupFailure::FalseShares));
        }
    };
    let quantiser = quantiser_of(spec, round)?;
    let bodies =
        Bodies { services, members, context: &context, roster: group.roster.hash(), survivors: &group.survivors };
    let (mut values, mut slots) = bodies.sum(&quantiser).await?;
    let plan = spec.plan_of_round(round.goal, round.policy().clip_norm);
    let masking = plan.masking.ok_or_else(|| DbError::Corrupt(format!("{} masks nothing", round.job)))?;
    let noise = masking.member_noise(&quantiser, group.roster.members());
    let noise = noise.map_err(|error| DbError::corrupt("the noise of a group", error))?;
    let hash = group.roster.hash();
    let opened = blocking(move || {
        masks.apply_to_slots(&mut slots);
        masks.apply_on_all_cores(&mut values);
        (quantiser.restore(&values.signed(0..values.len()), &hash), slots)
    });
    let (sum, slots) = opened.await;
    let sum = sum.map_err(|error| DbError::corrupt("a sum", error))?;
    let count = u32::from(group.survivors.count());
    let slots = slots.try_into().unwrap_or([0; SLOTS]);
    let totals = noise.map_or_else(|| Totals::of(slots), |noise| Totals::noised(slots, &noise, count));
    // Of honest members each is at most as long as the clip, but for the rounding of its values.
    let norm = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
    let norm_max = masked_norm_max(count, (&masking, &quantiser), noise.as_ref(), sum.len() as u64);
    if totals.members != u64::from(count) || totals.whole > totals.members || norm.is_nan() || norm > norm_max {
        tracing::warn!(?totals, count, norm, norm_max, group = %row.id, "a group is longer than its members can make it");
        return Ok(Outcome::Failed(GroupFailure::Norm));
    }
    let mean: Vec<f32> = sum.iter().map(|value| (value / f64::from(count)) as f32).collect();
    group.summed(spec, round, mean, totals).await
}

impl Group<'_> {
    /// The masks that are left in the sum of the bodies, from the shares that came.
    async fn masks(&self) -> Result<Result<Opened, OpenError>, CommitError> {
        let Self { services, row, members, context, .. } = self;
        let mut tx = services.db.read().await?;
        let senders = tx.senders(row.id, ShareStage::Sharing).await?;
        let shares = tx.shares(row.id, ShareStage::Unmasking).await?;
        drop(tx);
        let mut unmasks = Unmasks::new();
        for row in &shares {
            let unmask = unmasks.entry(row.sender).or_insert_with(|| Unmask { shares: Vec::new() });
            unmask.shares.push(opened_share(row)?);
        }
        let (records, context) = (records_of(members)?, *context);
        let (roster, survivors) = (self.roster.clone(), self.survivors.clone());
        let opened = blocking(move || {
            let sharers = Survivors::new(roster.members(), senders);
            let opening = Opening {
                context: &context,
                roster: &roster,
                records: &records,
                sharers: &sharers,
                survivors: &survivors,
            };
            opening.open(&unmasks)
        });
        Ok(opened.await)
    }

    /// The sum as an update of its round: the mean of the survivors, which counts for all of them.
    async fn summed(
        &self,
        spec: &Arc<JobSpec>,
        round: &RoundRow,
        mean: Vec<f32>,
        totals: Totals,
    ) -> Result<Outcome, CommitError> {
        let Self { services, members, survivors, row, .. } = self;
        let survivors: Vec<SecureMemberRow> =
            survivors.indexes().map(|index| members[usize::from(index)].clone()).collect();
        let ids: Vec<String> = survivors.iter().map(|member| member.assignment.to_string()).collect();
        let assignments = services.db.read().await?.assignments_by_id(&ids).await?;
        let at_work = |member: &&SecureMemberRow| {
            let is_open = |row: &AssignmentRow| row.state == AssignmentState::Assigned;
            assignments.iter().any(|row| row.id == member.assignment && is_open(row))
        };
        // Nobody is left to stand for the sum, so nobody waits for it.
        let Some(first) = survivors.iter().find(at_work) else {
            return Ok(Outcome::Failed(GroupFailure::TooFewSurvivors));
        };
        let (first, base_version) = (first.assignment, first.base_version);
        if mean.iter().any(|value| value.abs() > spec.file.update.magnitude_max) {
            tracing::warn!(group = %row.id, "a value of a sum is above magnitude_max");
            return Ok(Outcome::Failed(GroupFailure::Norm));
        }
        let header = spec.update_header(base_version);
        let file = encode(&mean, &spec.update, &header, round.number, Seed(0));
        let body: Bytes = file.map_err(|error| DbError::corrupt("the sum of a group", error))?.into();
        let sha256 = Sha256Hash::of(&body);
        let bench = services.workbench();
        let body = bench.stage(update_key(first), body, services.clock.now_ms()).await?;
        let whole = u32::try_from(totals.whole).unwrap_or(u32::MAX);
        let plain_bytes = spec.plain_bytes;
        Ok(Outcome::Sum(Box::new(Sum { survivors, first, whole, loss: totals.loss, body, sha256, plain_bytes })))
    }
}
