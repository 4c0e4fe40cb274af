//! The newest version of a job, with its companions.

use std::sync::Arc;

use tributary_engine::aggregate::{BLOCK_VALUES, MadeNorms, Maker, SharedCombined};
use tributary_engine::job::JobSpec;
use tributary_protocol::model::Model;

use crate::error::SimulationError;

#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) number: u32,
    pub(crate) model: Arc<Model>,
    /// Values of each companion, with their number per parameter.
    companions: Vec<(Vec<f32>, usize)>,
}

impl Version {
    /// Version 0 of a job.
    pub(crate) fn first(spec: &JobSpec) -> Result<Self, SimulationError> {
        let optimizer = spec.optimizer(0, 0);
        let companion = |companion| {
            let width = optimizer.width(companion);
            (vec![optimizer.initial(companion) as f32; spec.shared().total() * width], width)
        };
        Ok(Self {
            number: 0,
            model: Arc::new(spec.file.model.spec.initial_model(spec.seed().derive("model", 0))?),
            companions: optimizer.companions().iter().copied().map(companion).collect(),
        })
    }

    /// Makes the next version from the combination of this many updates.
    pub(crate) fn advance(
        &mut self,
        spec: &JobSpec,
        combined: SharedCombined,
        updates: u32,
    ) -> Result<MadeNorms, SimulationError> {
        let mut maker = Maker::new(combined, spec.optimizer(self.number, updates), None, false);
        let mut values = Vec::with_capacity(self.model.values().len());
        for (block, base) in self.model.values().chunks(BLOCK_VALUES).enumerate() {
            let first = block * BLOCK_VALUES;
            let range = |width: usize| width * first..width * (first + base.len());
            let former = self
                .companions
                .iter()
                .map(|(values, width)| values[range(*width)].iter().copied().map(f64::from).collect());
            let made = maker.make(base, first, former.collect())?;
            values.extend(made.model);
            for ((values, width), next) in self.companions.iter_mut().zip(made.companions) {
                values[range(*width)].copy_from_slice(&next);
            }
        }
        self.model = Arc::new(Model::new(Arc::clone(&spec.model), values)?);
        self.number += 1;
        Ok(maker.norms())
    }
}
