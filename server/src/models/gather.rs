//! The combined updates of a round that has closed: its running sum, or what the job's rule makes of the stored
//! updates.
//!
//! A rule that compares updates reads them in stripes: the values of the same parameters of all updates are in memory
//! at a time, at most [`STRIPE_BYTES`]. An update can only be decoded from its beginning, so each stripe decodes every
//! update up to the stripe's end. Decoding once into plain bodies on disk instead would write and read 4 bytes per
//! value of every update through the database, which takes longer than decoding again (1 to 5 ns per value) until there
//! are about twenty stripes. 32 updates of 10 million values take 20.
//!
//! Whatever the rule, its result takes 8 bytes per parameter, as a running sum does.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use tributary_engine::aggregate::{
    AggregateError, Distances, Facts, Gathering, Middle, Mixture, NormOf, Recipe, SharedCombined,
};
use tributary_engine::job::JobSpec;
use tributary_protocol::model::Companion;
use tributary_protocol::update::DeltaSink;

use super::companion::{CompanionReader, Followed};
use super::error::CommitError;
use super::norms::norms;
use crate::db::RoundRow;
use crate::runtime::lock::Locked;
use crate::runtime::offload::{Offload, blocking};
use crate::services::Services;
use crate::updates::parts::take_out_unfinished;
use crate::updates::rebuild::fold_missing;
use crate::updates::stored::{StoredUpdate, accepted, each};
use crate::updates::sums::{RoundSum, SharedSum, Sums};

/// Memory of a stripe: 64 MiB.
const STRIPE_BYTES: usize = 64 << 20;
/// Fewest parameters of a stripe. 1024 updates have stripes of 16,384 parameters.
const STRIPE_PARAMETERS_MIN: usize = 1 << 10;

/// The combined updates of a round that is aggregating.
pub(crate) async fn combined(
    services: &Services,
    sums: &Sums,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
) -> Result<SharedCombined, CommitError> {
    let gathering = spec.gathering_of_round(round.base_version, round.policy().clip_norm);
    if gathering.weighing().is_some() {
        return Ok(running_sum(services, sums, spec, round).await?);
    }
    let mut updates = accepted(&services.db, spec, round).await?;
    if updates.is_empty() {
        return Err(AggregateError::NoUpdates.into());
    }
    // Nothing is stored of norms where updates are hidden: those of the means of groups.
    if gathering.needs_norms() && spec.file.hides_updates() {
        let norms = norms(services, spec, &updates, &HashMap::new()).await?;
        for update in &mut updates {
            update.facts.figures.norm = norms.get(&update.assignment).map(NormOf::finish);
        }
    }
    combined_of(services, spec, round, &gathering, updates).await
}

/// The same of these updates, whose facts have what the rule reads, or of a shard's parts of them.
pub(super) async fn combined_of(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    gathering: &Gathering,
    mut updates: Vec<StoredUpdate>,
) -> Result<SharedCombined, CommitError> {
    updates.sort_by(|one, other| one.facts.order(&other.facts));
    Gather { services, spec, round, updates }.combined(gathering).await
}

/// The combined values of a round that is aggregating, as an update has them.
pub(crate) async fn combined_values(
    services: &Services,
    sums: &Sums,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
) -> Result<Vec<f32>, CommitError> {
    let (combined, total) = (combined(services, sums, spec, round).await?, spec.update.total());
    let values = blocking(move || combined.mean(0..total)).await.ok_or(AggregateError::NoUpdates)?;
    Ok(values.into_iter().map(|value| value as f32).collect())
}

/// The round's running sum, with every update that counts and no other.
pub(crate) async fn running_sum(
    services: &Services,
    sums: &Sums,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
) -> Result<SharedSum, CommitError> {
    loop {
        let sum = sums.get_or_open(round.key(), spec);
        // The round has closed: updates still in flight will be refused.
        sum.close().await;
        if !sum.is_invalid() {
            fold_missing(services, spec, round, &sum).await?;
            take_out_unfinished(services, spec, round, &sum).await?;
        }
        if !sum.is_invalid() {
            return Ok(sum);
        }
    }
}

/// The stored updates of a round, in the order in which rules see them.
struct Gather<'a> {
    services: &'a Services,
    spec: &'a Arc<JobSpec>,
    round: &'a RoundRow,
    updates: Vec<StoredUpdate>,
}

impl Gather<'_> {
    async fn combined(self, gathering: &Gathering) -> Result<SharedCombined, CommitError> {
        let facts: Vec<Facts> = self.updates.iter().map(|update| update.facts.clone()).collect();
        let centre = gathering.centre();
        let distances = match gathering.needs_distances() {
            true => Some(self.distances(centre).await?),
            false => None,
        };
        match gathering.recipe(&facts, distances.as_ref()) {
            Recipe::WeightedMean => {
                let sum = RoundSum::by_examples(self.spec);
                fold_missing(self.services, self.spec, self.round, &sum).await?;
                Ok(sum)
            }
            Recipe::Mixture(coefficients) => self.mixture(&coefficients, centre).await,
            Recipe::Coordinates { members, middle } => self.coordinates(&members, middle).await,
        }
    }

    /// The distances of all pairs of updates, and from the centre if the rule has one. Each stripe of every update is
    /// read once.
    async fn distances(&self, centre: Option<Companion>) -> Result<Distances, CommitError> {
        let mut centre = match centre {
            Some(companion) => Some(self.companion(companion).await?),
            None => None,
        };
        let vectors = self.updates.len() + usize::from(centre.is_some());
        let mut distances = Offload::new(Distances::zeros(vectors));
        let mut rows = Vec::new();
        for range in stripes(self.spec.values(), vectors) {
            rows = self.stripe(&self.updates, range.clone(), rows).await?;
            if let Some(centre) = &mut centre {
                rows.push(centre.take(range.len()).await?);
            }
            let add = move |distances: &mut Distances| {
                distances.add(&slices(&rows));
                rows
            };
            rows = distances.run(add).await;
        }
        Ok(distances.into_inner())
    }

    /// The middle of each coordinate over some of the updates.
    async fn coordinates(&self, members: &[usize], middle: Middle) -> Result<SharedCombined, CommitError> {
        let members: Vec<StoredUpdate> = members.iter().map(|member| self.updates[*member].clone()).collect();
        let total = self.spec.values();
        let mut combined = Vec::with_capacity(total);
        let mut rows = Vec::new();
        for range in stripes(total, members.len()) {
            rows = self.stripe(&members, range, rows).await?;
            let values;
            (values, rows) = blocking(move || (middle.combine(&slices(&rows)), rows)).await;
            combined.extend(values);
        }
        Ok(Arc::new(combined))
    }

    /// The sum of the updates times their coefficients. Updates without a coefficient are not read.
    async fn mixture(&self, coefficients: &[f64], centre: Option<Companion>) -> Result<SharedCombined, CommitError> {
        let total = self.spec.values();
        let mixture = Arc::new(Mixture::new(total, coefficients, self.spec.file.update.magnitude_max));
        let coefficient = |update: &StoredUpdate| {
            let same = |other: &StoredUpdate| other.assignment == update.assignment;
            self.updates.iter().position(same).map_or(0.0, |place| coefficients[place])
        };
        let blend = |update: &StoredUpdate| {
            let coefficient = coefficient(update);
            Ok((coefficient != 0.0).then(|| Blend { mixture: Arc::clone(&mixture), coefficient }))
        };
        each(self.services, self.spec, self.updates.clone(), blend, |_, _| ()).await?;
        if let (Some(companion), Some(coefficient)) = (centre, coefficients.last()) {
            let mut reader = self.companion(companion).await?;
            for range in stripes(total, 1 << 6) {
                let values = reader.take(range.len()).await?;
                mixture.add(range.start, &values, *coefficient);
            }
        }
        Ok(mixture)
    }

    /// The values of these parameters in each update. It uses the memory of an earlier stripe: the allocator would
    /// return it too late, and the next one would come on top of it.
    async fn stripe(
        &self,
        updates: &[StoredUpdate],
        range: Range<usize>,
        spare: Vec<Vec<f32>>,
    ) -> Result<Vec<Vec<f32>>, CommitError> {
        let is_last = range.end == self.spec.values();
        let is_framed = !self.spec.plan.codec.is_fixed_width();
        let spare = Mutex::new(spare);
        let sink = |_: &StoredUpdate| {
            let values = spare.locked().pop().unwrap_or_default();
            Ok(Some(Stripe::new(range.clone(), values, is_framed, is_last)))
        };
        Ok(each(self.services, self.spec, updates.to_vec(), sink, |stripe, _| stripe.values).await?)
    }

    async fn companion(&self, companion: Companion) -> Result<CompanionReader<'_>, CommitError> {
        CompanionReader::open(self.services, self.spec, self.round.base_version, Followed::vector(companion)).await
    }
}

fn slices(rows: &[Vec<f32>]) -> Vec<&[f32]> {
    rows.iter().map(Vec::as_slice).collect()
}

/// The parameters in stripes of at most [`STRIPE_BYTES`] for so many vectors.
fn stripes(total: usize, vectors: usize) -> impl Iterator<Item = Range<usize>> {
    let fitting = STRIPE_BYTES / (size_of::<f32>() * vectors.max(1));
    let parameters = (fitting / STRIPE_PARAMETERS_MIN).max(1) * STRIPE_PARAMETERS_MIN;
    (0..total).step_by(parameters).map(move |first| first..total.min(first + parameters))
}

/// Adds the decoded values of an update to a mixture.
#[derive(Debug)]
struct Blend {
    mixture: Arc<Mixture>,
    coefficient: f64,
}

impl DeltaSink for Blend {
    fn dense(&mut self, first: usize, values: &[f32]) {
        self.mixture.add(first, values, self.coefficient);
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        self.mixture.add_sparse(first, indices, values, self.coefficient);
    }
}

/// Keeps the values of some parameters.
#[derive(Debug)]
struct Stripe {
    range: Range<usize>,
    values: Vec<f32>,
    /// Values of the range that a dense body has yet to bring.
    missing: usize,
    /// Whether the values come in ascending order, with gaps where they are zero.
    is_framed: bool,
    /// Whether a value behind the range has come.
    is_passed: bool,
    /// The last stripe reads each body to its end, where its hash is checked.
    is_last: bool,
}

impl Stripe {
    /// `values` gives its memory.
    fn new(range: Range<usize>, mut values: Vec<f32>, is_framed: bool, is_last: bool) -> Self {
        values.clear();
        values.resize(range.len(), 0.0);
        let missing = range.len();
        Self { range, values, missing, is_framed, is_passed: false, is_last }
    }
}

impl DeltaSink for Stripe {
    fn dense(&mut self, first: usize, values: &[f32]) {
        let (from, to) = (first.max(self.range.start), (first + values.len()).min(self.range.end));
        self.is_passed |= first >= self.range.end;
        if from < to {
            let place = from - self.range.start;
            self.values[place..place + (to - from)].copy_from_slice(&values[from - first..to - first]);
            self.missing = self.missing.saturating_sub(to - from);
        }
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        self.is_passed |= first >= self.range.end;
        for (index, value) in indices.iter().zip(values) {
            let place = first + *index as usize;
            if self.range.contains(&place) {
                self.values[place - self.range.start] = *value;
            }
        }
    }

    fn is_full(&self) -> bool {
        !self.is_last && if self.is_framed { self.is_passed } else { self.missing == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_cover_all_parameters_and_fit_their_memory() {
        for (total, vectors) in [(1, 1), (10_000_000, 32), (10_000_000, 1024), (1 << 14, 3), (5_000, 100_000)] {
            let all: Vec<Range<usize>> = stripes(total, vectors).collect();
            assert!(all.iter().all(|range| range.len() * vectors * 4 <= STRIPE_BYTES.max(vectors * 4096)));
            assert_eq!(all.iter().map(ExactSizeIterator::len).sum::<usize>(), total);
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
        assert_eq!(stripes(10_000_000, 32).count(), 20);
    }

    #[test]
    fn a_stripe_keeps_its_parameters_and_knows_when_it_has_them() {
        let mut stripe = Stripe::new(3..6, vec![7.0; 9], false, false);
        stripe.dense(4, &[4.0, 5.0, 6.0]);
        stripe.dense(0, &[0.0, 1.0]);
        assert!(!stripe.is_full(), "tensors may come in any order");
        stripe.dense(2, &[2.0, 3.0]);
        assert!(stripe.is_full());
        assert_eq!(stripe.values, [3.0, 4.0, 5.0]);
        let mut framed = Stripe::new(3..6, Vec::new(), true, false);
        framed.sparse(0, &[1, 5], &[1.0, 5.0]);
        assert!(!framed.is_full());
        framed.sparse(6, &[0], &[6.0]);
        assert!(framed.is_full());
        assert_eq!(framed.values, [0.0, 0.0, 5.0]);
        let mut last = Stripe::new(3..6, vec![7.0; 1], true, true);
        last.dense(3, &[1.0; 3]);
        assert!(!last.is_full(), "the hash is at the end of the body");
    }
}
