//! A model version from blocks: values of the base version and the combined updates in, values of the next version out.
//!
//! Blocks of any length give the same bits, so a coordinator that streams files and a simulation that holds a model in
//! memory make the same versions.

use std::sync::Arc;

use tributary_protocol::model::ParameterList;
use tributary_protocol::update::{ModelDeltaSurvey, ModelDeltaWriter, UpdateHeader};

use super::combine::SharedCombined;
use super::optimizer::{AggregateError, ControlStep, Optimizer, advance, means, rounded, step};
use super::statistics::Norm;

/// Values of a block: its means are 64 KiB, which stay in the processor's cache.
pub const BLOCK_VALUES: usize = 1 << 13;

/// Makes the shared parameters of a version and its companions, block by block.
pub struct Maker {
    combined: SharedCombined,
    optimizer: Box<dyn Optimizer>,
    /// How the control variate moves on, if the job has one.
    control: Option<ControlStep>,
    /// Whether the combined updates are themselves a companion of the new version.
    keeps_centre: bool,
    delta: Delta,
    /// Of the combined updates.
    mean_norm: Norm,
    /// Of the step.
    step_norm: Norm,
}

/// The file of the step, which clients download instead of the model. Its scales precede its values, so the whole step
/// is looked at first.
enum Delta {
    None,
    Survey { survey: ModelDeltaSurvey, values: usize },
    Writer(ModelDeltaWriter),
}

/// The next values of a version.
#[derive(Debug, Default)]
pub struct Made {
    /// Of the model, as many as the base block has.
    pub model: Vec<f32>,
    /// Of each companion: those of the optimiser, then the control variate or the centre, if the job has one.
    pub companions: Vec<Vec<f32>>,
    /// Of the delta's file.
    pub delta: Vec<u8>,
}

/// L2 norms of a version that was made.
#[derive(Clone, Copy, Debug)]
pub struct MadeNorms {
    /// Of the combined updates, which clients sent.
    pub mean: f64,
    /// Of what the optimiser made of them.
    pub step: f64,
}

impl Maker {
    pub fn new(
        combined: SharedCombined,
        optimizer: Box<dyn Optimizer>,
        control: Option<ControlStep>,
        keeps_centre: bool,
    ) -> Self {
        let norm = Norm::default;
        Self { combined, optimizer, control, keeps_centre, delta: Delta::None, mean_norm: norm(), step_norm: norm() }
    }

    /// Rounds the step to what the file of a model delta over these parameters holds. Then every block is surveyed
    /// before the first is made.
    pub fn with_delta(self, shared: Arc<ParameterList>) -> Self {
        Self { delta: Delta::Survey { survey: ModelDeltaSurvey::new(shared), values: 0 }, ..self }
    }

    pub fn optimizer(&self) -> &dyn Optimizer {
        &*self.optimizer
    }

    /// Looks at the next block of the step. `companions` are the base version's values of the same parameters.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub fn survey(&mut self, parameters: usize, mut companions: Vec<Vec<f64>>) -> Result<(), AggregateError> {
        let Delta::Survey { survey, values } = &mut self.delta else { return Ok(()) };
        companions.truncate(self.optimizer.companions().len());
        let block = *values..*values + parameters;
        survey.look(&rounded(step(&*self.optimizer, &*self.combined, block, &mut companions)?, *values)?);
        *values += parameters;
        Ok(())
    }

    /// Fixes the scales of the delta that was surveyed. Returns the beginning of its file.
    pub fn begin_delta(&mut self, header: &UpdateHeader) -> Vec<u8> {
        match std::mem::replace(&mut self.delta, Delta::None) {
            Delta::Survey { survey, .. } => {
                let (writer, beginning) = survey.finish(header);
                self.delta = Delta::Writer(writer);
                beginning
            }
            other => {
                self.delta = other;
                Vec::new()
            }
        }
    }

    /// Makes the next block of shared parameters, of which the first has the index `first`. `companions` are the base
    /// version's values of the same parameters, in the order of [`Made::companions`] without the centre.
    ///
    /// # Errors
    /// [`AggregateError::NoUpdates`], [`AggregateError::WrongLength`], [`AggregateError::NotFinite`].
    pub fn make(&mut self, base: &[f32], first: usize, mut companions: Vec<Vec<f64>>) -> Result<Made, AggregateError> {
        let block = first..first + base.len();
        let centre = match self.keeps_centre {
            true => Some(self.combined.mean(block.clone()).ok_or(AggregateError::NoUpdates)?),
            false => None,
        };
        let (own, others) = companions.split_at_mut(self.optimizer.companions().len());
        let mut step = means(&*self.combined, block)?;
        self.mean_norm.add(&step);
        self.optimizer.step(&mut step, own);
        if let (Some(step), [control]) = (self.control, others) {
            step.apply(&*self.combined, first, control)?;
        }
        let mut made = Made::default();
        made.model = match &mut self.delta {
            Delta::Writer(writer) => {
                let mut step = rounded(step, first)?;
                writer.write(&mut step, &mut made.delta);
                self.step_norm.add(&step);
                advance(base, &step, first)?
            }
            Delta::None | Delta::Survey { .. } => {
                self.step_norm.add(&step);
                advance(base, &step, first)?
            }
        };
        let companions = companions.into_iter().chain(centre);
        made.companions = companions.map(|values| rounded(values, first)).collect::<Result<_, _>>()?;
        Ok(made)
    }

    pub fn norms(&self) -> MadeNorms {
        MadeNorms { mean: self.mean_norm.finish(), step: self.step_norm.finish() }
    }
}
