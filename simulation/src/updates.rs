//! The updates of an open training round, and their combination.

use std::sync::Arc;

use tributary_engine::aggregate::{
    Accumulator, Distances, Facts, Mixture, Recipe, SharedCombined, Weighing, diversity, effective_number, mean_loss,
};
use tributary_engine::job::JobSpec;
use tributary_engine::round::{DiverseRound, TaskPolicy};
use tributary_protocol::figures::Figures;
use tributary_protocol::fixed::{Contribution, Weight};

use crate::error::SimulationError;
use crate::learner::Trained;

/// An update, or the mean of those of a group.
pub struct Update {
    pub values: Vec<f32>,
    /// What it counts for, and the number of updates in it.
    pub contribution: Contribution,
    /// Mean loss of the training.
    pub loss: f64,
    /// Steps of the optimiser.
    pub steps: u64,
}

impl From<Trained> for Update {
    fn from(Trained { delta, examples, loss, steps }: Trained) -> Self {
        Self { values: delta, contribution: Contribution::of_one(Weight::examples(examples)), loss, steps }
    }
}

impl Update {
    /// L2 norm.
    pub fn norm(&self) -> f64 {
        self.values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt()
    }
}

/// The updates of a round: all of them for rules that need each, else their sum.
pub(crate) struct Updates {
    sum: Arc<Accumulator>,
    weighing: Option<Weighing>,
    /// Empty where there is a sum.
    values: Vec<Vec<f32>>,
    facts: Vec<Facts>,
    /// Weight and norm of each update in the sum.
    weighed: Vec<(Weight, f64)>,
}

impl Updates {
    pub(crate) fn new(spec: &JobSpec) -> Result<Self, SimulationError> {
        Ok(Self {
            sum: Arc::new(Accumulator::new(spec.update.total(), spec.caps)?),
            // A private sum is made of each update, also where its clients add the noise: here nobody else does.
            weighing: spec.weighing().filter(|_| spec.privacy.is_none()),
            values: Vec::new(),
            facts: Vec::new(),
            weighed: Vec::new(),
        })
    }

    /// Takes an update of a client that is this many versions behind.
    pub(crate) fn add(
        &mut self,
        spec: &JobSpec,
        update: Update,
        norm: f64,
        staleness: u32,
        enrolment: u64,
    ) -> Result<(), SimulationError> {
        let Update { values, contribution, loss, steps } = update;
        let figures = Figures { contribution, loss: Some(loss), norm: Some(norm), steps, ..Figures::default() };
        self.facts.push(Facts {
            figures,
            weight: spec.discount().weight(contribution.weight, staleness),
            enrolment,
            row: None,
        });
        match self.weighing {
            Some(weighing) => {
                let share = spec.discount().share(weighing, contribution, staleness);
                self.sum.add(0, &values, share.weight);
                self.sum.count(Contribution { weight: share.divisor, ..contribution })?;
                self.weighed.push((share.weight, norm));
            }
            None => self.values.push(values),
        }
        Ok(())
    }

    /// Each update with the number of its client, where there is no sum.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u64, &[f32])> {
        self.facts.iter().map(|facts| facts.enrolment).zip(self.values.iter().map(Vec::as_slice))
    }

    /// Updates, also those in the mean of a group.
    pub(crate) fn count(&self) -> u32 {
        self.facts.iter().map(|facts| facts.figures.contribution.updates).sum()
    }

    /// Mean loss of the trainings, weighted by examples; none without an update.
    pub(crate) fn loss(&self) -> Option<f64> {
        (!self.facts.is_empty()).then(|| mean_loss(&self.facts))
    }

    pub(crate) fn norms(&self) -> Vec<f64> {
        self.facts.iter().map(Facts::norm).collect()
    }

    /// The round's diversity, where the combination is a mean of this norm.
    pub(crate) fn diverse(&self, mean_norm: f64) -> Option<DiverseRound> {
        let total = self.sum.counted().weight.as_f64();
        let examples = self.facts.iter().map(|facts| facts.weight.as_f64() as u64).sum();
        let diversity = diversity(&self.weighed, mean_norm * total)?;
        let effective = effective_number(self.weighed.iter().map(|(weight, _)| *weight))?;
        Some(DiverseRound { updates: self.count(), effective, examples, diversity })
    }

    /// The combination that the job's rule makes of the updates.
    pub(crate) fn combined(&self, spec: &JobSpec, policy: &TaskPolicy, version: u32) -> SharedCombined {
        if self.weighing.is_some() {
            return Arc::clone(&self.sum) as SharedCombined;
        }
        let mut updates: Vec<(Facts, &[f32])> =
            self.facts.iter().cloned().zip(self.values.iter().map(Vec::as_slice)).collect();
        updates.sort_by(|(one, _), (other, _)| one.order(other));
        let (facts, rows): (Vec<Facts>, Vec<&[f32]>) = updates.into_iter().unzip();
        let gathering = spec.gathering_of_round(version, policy.clip_norm);
        let distances = gathering.needs_distances().then(|| {
            let mut distances = Distances::zeros(rows.len());
            distances.add(&rows);
            distances
        });
        match gathering.recipe(&facts, distances.as_ref()) {
            Recipe::WeightedMean => {
                let coefficients: Vec<f64> = facts.iter().map(|facts| facts.weight.as_f64()).collect();
                let total: f64 = coefficients.iter().sum();
                mixture(spec, &rows, &coefficients.iter().map(|weight| weight / total).collect::<Vec<_>>())
            }
            Recipe::Mixture(coefficients) => mixture(spec, &rows, &coefficients),
            Recipe::Coordinates { members, middle } => {
                let members: Vec<&[f32]> = members.into_iter().map(|member| rows[member]).collect();
                Arc::new(middle.combine(&members))
            }
        }
    }
}

fn mixture(spec: &JobSpec, rows: &[&[f32]], coefficients: &[f64]) -> SharedCombined {
    let mixture = Mixture::new(spec.update.total(), coefficients, spec.file.update.magnitude_max);
    for (row, coefficient) in rows.iter().zip(coefficients) {
        mixture.add(0, row, *coefficient);
    }
    Arc::new(mixture)
}
