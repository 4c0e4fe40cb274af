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

#[cfg(test)]
mod tests {
    use tributary_protocol::model::ParameterSpec;
    use tributary_protocol::update::{add_model_delta, model_delta_header};

    use super::*;
    use crate::aggregate::Sgd;

    const BASE: [f32; 4] = [10.0, 20.0, 30.0, 40.0];
    const MOMENTUM: Sgd = Sgd { rate: 1.0, momentum: 0.5, nesterov: false };

    /// The mean of four parameters, then that of the changes of their control vectors.
    fn maker(keeps_centre: bool, control: Option<ControlStep>) -> Maker {
        let combined = Arc::new(vec![1.0, -2.0, 0.5, 4.0, 8.0, 16.0, -8.0, 4.0]);
        Maker::new(combined, Box::new(MOMENTUM), control, keeps_centre)
    }

    /// Makes the version in blocks of this length, of a velocity of (2, 4, 6, 8) and a control variate of (1, 2, 3, 4).
    fn make(maker: &mut Maker, length: usize, has_control: bool) -> Made {
        let companions = [[2.0, 4.0, 6.0, 8.0], [1.0, 2.0, 3.0, 4.0]];
        let mut whole = Made::default();
        for first in (0..4).step_by(length) {
            let block = first..(first + length).min(4);
            let former = companions.iter().take(1 + usize::from(has_control));
            let former = former.map(|values| values[block.clone()].to_vec()).collect();
            let made = maker.make(&BASE[block], first, former).unwrap();
            whole.model.extend(made.model);
            whole.delta.extend(made.delta);
            whole.companions.resize(made.companions.len(), Vec::new());
            whole.companions.iter_mut().zip(made.companions).for_each(|(whole, values)| whole.extend(values));
        }
        whole
    }

    #[test]
    fn blocks_of_any_length_make_the_same_version_with_its_companions() {
        for length in [1, 3, 4] {
            let mut maker = maker(false, Some(ControlStep { share: 0.25, first: 4 }));
            let made = make(&mut maker, length, true);
            // v = v / 2 + D is the step, and c moves on by a quarter of its change.
            assert_eq!(made.model, [12.0, 20.0, 33.5, 48.0], "{length}");
            assert_eq!(made.companions, [[2.0, 0.0, 3.5, 8.0], [3.0, 6.0, 1.0, 5.0]]);
            assert!(made.delta.is_empty());
            let norms = maker.norms();
            assert_eq!((norms.mean, norms.step), (21.25f64.sqrt(), 80.25f64.sqrt()));
        }
        let made = make(&mut maker(true, None), 3, false);
        assert_eq!(made.companions, [[2.0, 0.0, 3.5, 8.0], [1.0, -2.0, 0.5, 4.0]], "the centre is last");
    }

    #[test]
    fn the_file_of_the_step_leads_from_the_base_to_the_version() {
        let shared = Arc::new(ParameterList::new(vec![ParameterSpec::new("w", [4])]).unwrap());
        let header = model_delta_header("job", 3);
        for length in [1, 3, 4] {
            let mut maker = maker(false, None).with_delta(Arc::clone(&shared));
            for block in [0..1, 1..4] {
                let velocity = [2.0, 4.0, 6.0, 8.0][block.clone()].to_vec();
                maker.survey(block.len(), vec![velocity, vec![9.0; block.len()]]).unwrap();
            }
            let mut file = maker.begin_delta(&header);
            let made = make(&mut maker, length, false);
            file.extend(made.delta);
            let mut model = BASE;
            add_model_delta(&mut model, &file, &shared, header.clone()).unwrap();
            assert_eq!(made.model, model, "{length}");
            // 2, 0, 3.5 and 8 as multiples of 8 / 127 that is rounded up to 8 bits: 2^-4 (1 + 2 / 128).
            let step = [32.0, 0.0, 55.0, 126.0].map(|number| number * 130.0 / 2048.0);
            assert_eq!(made.model, [0, 1, 2, 3].map(|at| BASE[at] + step[at]));
            let squares: f64 = step.iter().map(|value: &f32| f64::from(*value).powi(2)).sum();
            assert_eq!(maker.norms().step, squares.sqrt());
            assert!(maker.begin_delta(&header).is_empty(), "the file has begun");
        }
        let mut without = maker(false, None);
        without.survey(4, vec![vec![0.0; 4]]).unwrap();
        assert!(without.begin_delta(&header).is_empty());
    }

    #[test]
    fn a_version_that_cannot_be_made_is_refused_with_the_reason() {
        let wrong = |first: usize, base: &[f32]| maker(false, None).make(base, first, vec![vec![0.0; base.len()]]);
        assert_eq!(wrong(6, &BASE).unwrap_err(), AggregateError::WrongLength { model: 10, updates: 8 });
        assert_eq!(wrong(2, &[1.0, f32::INFINITY]).unwrap_err(), AggregateError::NotFinite { index: 3 });
    }
}
