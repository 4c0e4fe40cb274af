//! The rounds of a training whose updates are masked: all clients train, join groups, and some are lost.
//!
//! Openings, rules, the server's optimiser, the forming of groups and the check of their sums are those of the engine,
//! clips and integers those of the clients. Masks are left out, because they cancel out in a sum modulo 2^bits; the
//! first group of a training is summed with real ones to show it.

use std::collections::VecDeque;

use clap::ValueEnum;
use serde::Serialize;
use tributary_engine::job::JobSpec;
use tributary_engine::round::Opening;
use tributary_engine::round::masking::{
    Forming, Joined, MaskingPolicy, PAST_ROUNDS, Past, masked_norm_max, next_group_apart,
};
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::plan::Masking;
use tributary_protocol::secure::Words;
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::seed::{SecretStream, Seed, Stream};
use tributary_protocol::update::{UpdateDecoder, UpdateLimits, encode};
use tributary_simulation::{Learner, Rounds, Trained, Update};

use super::group::Group;
use crate::error::BenchError;
use crate::simulated::failed;

/// The client that lies, where one does.
const LIAR: usize = 0;
/// By how much more than all members together may add a large lie is longer.
const LARGE: i64 = 4;

/// What a liar sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(super) enum Lie {
    /// Random integers modulo 2^bits.
    Random,
    /// Its negative update, as often as its group has members, so that the sum is no longer than honest ones may be.
    Reversed,
    /// Four times as much: about as far as integers modulo 2^bits go.
    Large,
}

/// A training.
pub(super) struct Course {
    pub(super) rounds: Rounds,
    pub(super) learner: Learner,
    pub(super) clients: usize,
    /// Sizes of groups: also of clients whose updates are not masked, so that the same ones are lost.
    pub(super) policy: MaskingPolicy,
    /// Share of each group that is lost after it formed.
    pub(super) lost: f64,
    /// What the liar sends in place of its update.
    pub(super) lie: Option<Lie>,
    /// Whether a sum that is longer than honest members could make it is dropped.
    pub(super) is_checked: bool,
    /// Whether clients of failed groups are grouped apart.
    pub(super) is_apart: bool,
    /// The groups of the last rounds: their members, and whether they came to a sum.
    pub(super) past: VecDeque<Vec<(Vec<usize>, bool)>>,
    pub(super) seed: Seed,
}

/// What became of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Played {
    /// Updates that count.
    pub(super) updates: u32,
    pub(super) groups: u32,
    pub(super) groups_failed: u32,
    /// Bits of a value in the largest group.
    pub(super) bits: u8,
    /// Of the means of groups: their number and the sum of their norms.
    pub(super) sums: u32,
    pub(super) norms: f64,
    pub(super) clip: Option<f64>,
}

/// What the sums of a round need.
struct Sums {
    masking: Masking,
    quantiser: Quantiser,
}

/// The sum of a group.
struct Summed {
    update: Update,
    /// Members whose updates were within the clip.
    whole: u32,
}

impl Course {
    /// Plays a round. Without enough updates it makes no version.
    pub(super) fn round(&mut self) -> Result<Played, BenchError> {
        let opening = self.rounds.opening();
        let sums = sums(self.rounds.spec(), &opening)?;
        let mut order: Vec<usize> = (0..self.clients).collect();
        let seed = self.seed.derive("groups", self.rounds.number().into());
        seed.stream().shuffle(&mut order);
        let apart = self.set_apart(&mut order);
        let mut ended = Vec::new();
        let mut played = Played { clip: sums.as_ref().map(|sums| sums.masking.clip), ..Played::default() };
        let (mut updates, mut whole) = (Vec::new(), 0);
        for (place, members) in groups(&self.policy, &order, apart).into_iter().enumerate() {
            let size = members.len();
            let members = survivors(&members, self.lost, self.lie.is_some());
            let mut trained = Vec::new();
            for client in &members {
                trained.push((*client, self.rounds.train(&mut self.learner, &opening, *client)?));
            }
            played.groups += 1;
            let Some(sums) = &sums else {
                for (client, trained) in trained {
                    updates.push(self.plain(client, trained, seed)?);
                }
                continue;
            };
            let seed = seed.derive("group", place as u64);
            if self.rounds.number() == 1 && place == 0 && self.lie.is_none() {
                self.check_masks(sums, size, &trained, seed)?;
            }
            let bits = bits(sums, size)?;
            played.bits = played.bits.max(bits);
            let summed = self.sum(sums, (bits, size as u16), trained, seed)?;
            ended.push((members, summed.is_some()));
            match summed {
                Some(summed) => {
                    whole += summed.whole;
                    played.sums += 1;
                    played.norms += summed.update.norm();
                    updates.push(summed.update);
                }
                None => played.groups_failed += 1,
            }
        }
        self.past.push_back(ended);
        if self.past.len() > PAST_ROUNDS as usize {
            self.past.pop_front();
        }
        played.updates = updates.iter().map(|update| update.contribution.updates).sum();
        let share = sums.map(|_| f64::from(whole) / f64::from(played.updates.max(1)));
        if played.updates < opening.policy.minimum {
            updates.clear();
        }
        self.rounds.end(&opening, updates, share)?;
        Ok(played)
    }

    /// Moves those that are grouped apart to the end. Returns their number.
    fn set_apart(&self, order: &mut [usize]) -> usize {
        if !self.is_apart {
            return 0;
        }
        let mut past = vec![Past::default(); self.clients];
        for (members, is_summed) in self.past.iter().flatten() {
            for client in members {
                past[*client].failed += u32::from(!is_summed);
                past[*client].summed += u32::from(*is_summed);
            }
        }
        order.sort_by_key(|client| past[*client].is_apart());
        order.iter().filter(|client| past[**client].is_apart()).count()
    }

    /// An update as it is sent without masks, and decoded.
    fn plain(&self, client: usize, trained: Trained, seed: Seed) -> Result<Update, BenchError> {
        let spec = self.rounds.spec();
        let (header, round) = (spec.update_header(self.rounds.version()), self.rounds.number());
        let file = encode(&trained.delta, &spec.update, &header, round, seed.derive("rounding", client as u64));
        let limits = UpdateLimits::of_magnitude(spec.file.update.magnitude_max);
        let mut decoder = UpdateDecoder::new(spec.update.clone(), header, limits);
        let mut update = Update::from(trained);
        decoder.push(&file.map_err(failed)?, &mut update.values).map_err(failed)?;
        decoder.finish().map_err(failed)?;
        Ok(update)
    }

    /// The mean of a group from the sum of its integers modulo 2^bits; none where the sum is too long.
    fn sum(
        &self,
        sums: &Sums,
        (bits, members): (u8, u16),
        trained: Vec<(usize, Trained)>,
        seed: Seed,
    ) -> Result<Option<Summed>, BenchError> {
        let Sums { masking, quantiser } = sums;
        let (roster, count) = (roster(seed), trained.len() as u32);
        let noise = masking.member_noise(quantiser, members).map_err(failed)?;
        let mut sum = Words::zeros(bits, quantiser.body_values(&roster));
        let (mut whole, mut loss) = (0, 0.0);
        for (client, Trained { delta, loss: of_client, .. }) in trained {
            let mut random = rounding(seed, client);
            let mut quantised = quantiser.quantise(&delta, &roster, &mut random).map_err(failed)?;
            if let Some(noise) = &noise {
                noise.add(&mut quantised, &mut random);
            }
            let lie = self.lie.filter(|_| client == LIAR);
            let values = lie.map(|lie| lie.values(&quantised.values, count, seed.derive("lie", 0).stream()));
            sum.add(0, &values.unwrap_or_else(|| Words::of(bits, &quantised.values).values(0..sum.len())));
            whole += u32::from(!quantised.is_clipped);
            loss += of_client / f64::from(count);
        }
        let sum = quantiser.restore(&sum.signed(0..sum.len()), &roster).map_err(failed)?;
        let norm = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
        if self.is_checked && norm > masked_norm_max(count, (masking, quantiser), noise.as_ref(), sum.len() as u64) {
            return Ok(None);
        }
        let values = sum.iter().map(|value| (value / f64::from(count)) as f32).collect();
        let contribution = Contribution { weight: Weight::examples(count), updates: count };
        Ok(Some(Summed { update: Update { values, contribution, loss, steps: 0 }, whole }))
    }

    /// Sums a group with real keys, shares and masks.
    fn check_masks(
        &self,
        Sums { masking, quantiser }: &Sums,
        size: usize,
        trained: &[(usize, Trained)],
        seed: Seed,
    ) -> Result<(), BenchError> {
        let noise = masking.member_noise(quantiser, size as u16).map_err(failed)?;
        let bits = masking.value_bits(quantiser, size as u16).ok_or_else(|| failed("too many bits"))?;
        let mut group = Group::join(size as u16, &self.policy, quantiser, bits)?;
        group.share()?;
        group.seats.truncate(trained.len());
        let update = |index: u16| {
            let (client, trained) = &trained[usize::from(index)];
            (trained.delta.clone(), rounding(seed, *client))
        };
        group.sum((quantiser, noise), update).map(drop)
    }
}

impl Lie {
    /// What the liar adds in place of its integers, in a sum of this many members.
    fn values(self, honest: &[i64], members: u32, mut stream: Stream) -> Vec<u64> {
        let times = |times: i64| honest.iter().map(|value| (-value * times).cast_unsigned()).collect();
        match self {
            Self::Random => honest.iter().map(|_| stream.next_u64()).collect(),
            Self::Reversed => times(members.into()),
            Self::Large => times(LARGE * i64::from(members)),
        }
    }
}

/// How updates of a round with this opening become integers; none where they are not masked.
fn sums(spec: &JobSpec, opening: &Opening) -> Result<Option<Sums>, BenchError> {
    let plan = spec.plan_of_round(opening.policy.goal, opening.policy.clip_norm);
    let Some(masking) = plan.masking else { return Ok(None) };
    let quantiser = Quantiser::new(spec.update.total(), masking.clip, masking.levels, masking.keep).map_err(failed)?;
    Ok(Some(Sums { masking, quantiser }))
}

fn bits(Sums { masking, quantiser }: &Sums, members: usize) -> Result<u8, BenchError> {
    masking.value_bits(quantiser, members as u16).ok_or_else(|| failed("too many bits"))
}

/// The groups that form of clients that join in this order, of which the last `apart` are grouped apart.
fn groups(policy: &MaskingPolicy, order: &[usize], apart: usize) -> Vec<Vec<usize>> {
    let (mut groups, mut lobby, mut joined) = (Vec::new(), Vec::new(), 0);
    loop {
        let (here, awaited) = (lobby.len() as u32, (order.len() - joined) as u32);
        let here_apart = joined.saturating_sub(order.len() - apart).min(lobby.len());
        let joining = Joined { here, awaited, until_ms: 1, ..Joined::default() };
        match next_group_apart(policy, &joining, here_apart as u32, 0) {
            (Forming::Form(members), first) => {
                groups.push(lobby.drain(first as usize..(first + members) as usize).collect());
            }
            _ if joined < order.len() => {
                lobby.push(order[joined]);
                joined += 1;
            }
            (Forming::Wait { .. } | Forming::LeaveOut | Forming::Nobody, _) => return groups,
        }
    }
}

/// The members of a group that are not lost. The order in which they joined is random, so the last ones are; a liar
/// stays.
fn survivors(members: &[usize], lost: f64, with_liar: bool) -> Vec<usize> {
    let mut members = members.to_vec();
    if with_liar {
        members.sort_by_key(|client| *client != LIAR);
    }
    members.truncate(members.len() - (lost * members.len() as f64) as usize);
    members
}

/// What stands for the hash of a roster.
fn roster(seed: Seed) -> Sha256Hash {
    Sha256Hash::of(&seed.0.to_le_bytes())
}

/// The random numbers of a client's rounding, which are secret where a measurement is not to be repeated.
fn rounding(seed: Seed, client: usize) -> SecretStream {
    SecretStream::of(Sha256Hash::of(&seed.derive("rounding", client as u64).0.to_le_bytes()).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_clients_form_the_groups_of_the_engine_and_a_liar_is_not_lost() {
        let policy = MaskingPolicy { group: 32, group_min: 8, ..MaskingPolicy::default() };
        let order: Vec<usize> = (0..100).rev().collect();
        let groups = groups(&policy, &order, 0);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [32, 32, 18, 18]);
        assert_eq!(groups.concat(), order);
        assert_eq!(survivors(&groups[3], 0.3, false), (5..=17).rev().collect::<Vec<_>>());
        let with_liar = survivors(&groups[3], 0.3, true);
        assert_eq!((with_liar.len(), with_liar[0]), (13, LIAR));
    }
}
