//! The task `train` in a coded round: one training for each part of the data that the client holds, and what their
//! updates come to together.

use std::collections::BTreeMap;

use tributary_protocol::body::shrink;
use tributary_protocol::coded::{CodedTerms, SumTerms};
use tributary_protocol::device::{Assignment, UpdateQuery};
use tributary_protocol::fixed::{Contribution, Weight, quantise};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::relay::SumQuery;
use tributary_protocol::scalars::Scalars;
use tributary_protocol::sum::{SumWriter, tag};

use super::completed::Completed;
use super::encode::{encode, sent};
use super::given::Given;
use super::train::train;
use crate::store::state::Work;
use crate::trainer::{TrainError, Trainer};

/// Values that are written at a time.
const PIECE: usize = 1 << 14;

/// Trains on each part from the same model, and makes the exact sum of the updates, or their combination. A trainer
/// that has to be waited for is called again with what the parts before have come to.
///
/// In memory are the values of one update, and 8 bytes a value of the sum.
///
/// # Errors
/// As [`train`]; [`TrainError::NoExamples`] if the client no longer has a part.
pub(crate) fn train_parts<T: Trainer + ?Sized>(
    trainer: &mut T,
    given: &Given<'_>,
    (terms, together): (&CodedTerms, &mut PartsSoFar),
    should_stop: &dyn Fn() -> bool,
) -> Result<Completed, TrainError> {
    for part in terms.parts.iter().skip(together.parts as usize) {
        if trainer.sets().get(&part.data).is_none() {
            return Err(TrainError::NoExamples);
        }
        let data = Some(part.data.clone());
        let assignment = Assignment { data, seed: part.seed, coded: None, ..given.assignment.clone() };
        let trained = train(trainer, &Given { assignment: &assignment, ..*given }, should_stop)?;
        let Work::Update { query, .. } = trained.work else {
            return Err(TrainError::DoesNotFit("a part has no update".to_owned()));
        };
        let values = sent(&trained.body, &assignment)?;
        together.count(query);
        match terms.sum {
            Some(terms) => together.add(&values, terms),
            None => together.combine(&values, part.factor),
        }
    }
    let together = std::mem::take(together);
    match terms.sum {
        Some(terms) => together.into_sum(given.assignment, terms),
        None => together.into_combination(given),
    }
}

/// What the parts so far come to.
#[derive(Default)]
pub(crate) struct PartsSoFar {
    parts: u32,
    /// Of an exact sum.
    integers: Vec<i64>,
    /// Of a combination.
    values: Vec<f64>,
    query: Option<UpdateQuery>,
    examples: u64,
    /// Weight of the part that was counted last.
    weight: u32,
}

impl PartsSoFar {
    /// Counts the figures of the update of a part.
    fn count(&mut self, part: UpdateQuery) {
        self.parts += 1;
        self.weight = part.weight;
        self.examples += u64::from(part.weight);
        let share = f64::from(part.weight) / self.examples.max(1) as f64;
        self.query = Some(match self.query.take() {
            None => part,
            Some(before) => UpdateQuery {
                weight: before.weight.saturating_add(part.weight),
                loss: before.loss.zip(part.loss).map(|(before, part)| before + share * (part - before)),
                steps: before.steps.saturating_add(part.steps),
                // Counted from the beginning of the assignment.
                train_ms: part.train_ms,
                metrics: mean(&before.metrics, &part.metrics, share),
            },
        });
    }

    /// Adds the integers that the coordinator would add.
    fn add(&mut self, values: &[f32], terms: SumTerms) {
        let weight = if terms.uniform { 1 } else { self.weight };
        let factor = Weight::examples(weight).factor(terms.binary_point);
        self.integers.resize(values.len(), 0);
        for (integer, value) in self.integers.iter_mut().zip(values) {
            *integer = integer.saturating_add(quantise(f64::from(*value) * factor));
        }
    }

    fn combine(&mut self, values: &[f32], factor: f64) {
        self.values.resize(values.len(), 0.0);
        self.values.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * f64::from(*value));
    }

    fn into_sum(self, assignment: &Assignment, terms: SumTerms) -> Result<Completed, TrainError> {
        let Self { parts, integers, query, examples, .. } = self;
        let query = query.ok_or(TrainError::NoExamples)?;
        let fits = |what: &dyn std::fmt::Display| TrainError::DoesNotFit(what.to_string());
        let units = if terms.uniform { u64::from(parts) } else { examples };
        let weight = Weight::of_examples(units).ok_or_else(|| fits(&"more examples than a sum can weigh"))?;
        let values = u32::try_from(integers.len()).map_err(|error| fits(&error))?;
        let tag = tag(&assignment.job, assignment.model_version, terms.binary_point);
        let mut writer = SumWriter::new(tag, Contribution { weight, updates: parts }, values);
        let mut body = Vec::new();
        for piece in integers.chunks(PIECE) {
            writer.push(piece);
            body.append(&mut writer.take());
        }
        body.append(&mut writer.finish().map_err(|error| fits(&error))?);
        let UpdateQuery { loss, steps, train_ms, metrics, .. } = query;
        let query = SumQuery { examples, loss, steps, train_ms, metrics, bytes_below: None, round_trip_ms: None };
        let sha256 = Sha256Hash::of(&body);
        Ok(Completed { work: Work::Sum { query, sha256 }, body: body.into(), next_state: None })
    }

    fn into_combination(self, given: &Given<'_>) -> Result<Completed, TrainError> {
        let Given { assignment, base, .. } = *given;
        let query = self.query.ok_or(TrainError::NoExamples)?;
        let query = UpdateQuery { weight: query.weight.min(assignment.plan.weight_max), ..query };
        let values = self.values.into_iter().map(|value| value as f32).collect();
        let update = encode(values, assignment, base.parts.shared(), None)?;
        let body = shrink(update.file);
        let sha256 = Sha256Hash::of(&body);
        Ok(Completed { work: Work::Update { query, sha256 }, body: body.into(), next_state: None })
    }
}

/// The metrics that both have, of which the second ones count for this share.
fn mean(before: &Scalars, part: &Scalars, share: f64) -> Scalars {
    let both = before.iter().filter_map(|(name, value)| {
        let other = part.get(name.as_str())?;
        Some((name.clone(), value + share * (other - value)))
    });
    both.collect::<BTreeMap<_, _>>().try_into().unwrap_or_default()
}
