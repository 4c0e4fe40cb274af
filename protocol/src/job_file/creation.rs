//! What a job must satisfy when it is created. A stored job of an earlier release that does not is read all the same.

use super::error::require;
use super::evaluation::PLACE;
use super::{EvaluationPlace, JobFile, JobFileError};
use crate::device::ATTRIBUTES_MAX;
use crate::layers::{Layer, ModelSpec};

/// Most values that one example may take where the coordinator evaluates: 2^24, which is 64 MiB of f32.
pub const COORDINATOR_VALUES_MAX: usize = 1 << 24;
/// Most values that one batch of a training may take on a client: 2^28, which is 1 GiB of f32.
pub const BATCH_VALUES_MAX: usize = 1 << 28;

impl JobFile {
    /// Number of values that one example takes in memory, of the input and all layers. `None` for an app's own network.
    ///
    /// # Errors
    /// [`JobFileError::Model`] names the layer that is wrong.
    pub fn values_per_example(&self) -> Result<Option<usize>, JobFileError> {
        match &self.model.spec {
            ModelSpec::Layers(network) => Ok(Some(network.values()?)),
            ModelSpec::Parameters(_) => Ok(None),
        }
    }

    /// Checks what only a new job must satisfy: its memory, and settings that no job needs.
    ///
    /// # Errors
    /// [`JobFileError`] names the first setting that fails.
    pub fn check_new(&self) -> Result<(), JobFileError> {
        if let Some(values) = self.values_per_example()? {
            self.check_memory(values)?;
        }
        if let ModelSpec::Layers(network) = &self.model.spec {
            let mut epsilons = network.layers.iter().filter_map(|layer| match layer {
                Layer::LayerNorm { epsilon } | Layer::BatchNorm { epsilon, .. } => Some(*epsilon),
                _ => None,
            });
            require(epsilons.all(|epsilon| epsilon <= 1.0), "[model] epsilon", "at most 1")?;
        }
        let few = |count: usize, setting| require(count <= ATTRIBUTES_MAX, setting, "at most 32");
        few(self.eligibility.attributes.len(), "the number of [eligibility] attributes")?;
        let evaluators = self.evaluation.as_ref().map_or(0, |evaluation| evaluation.attributes.len());
        few(evaluators, "the number of [evaluation] attributes")
    }

    fn check_memory(&self, values: usize) -> Result<(), JobFileError> {
        let on_coordinator =
            self.evaluation.as_ref().is_some_and(|policy| policy.place == EvaluationPlace::Coordinator);
        let range = format!(
            "\"clients\" here: the layers have {values} values for one example, and the coordinator computes at most \
             {COORDINATOR_VALUES_MAX}"
        );
        require(!on_coordinator || values <= COORDINATOR_VALUES_MAX, PLACE, &range)?;
        // Without a size a batch has all examples of a client, whose number is not known here.
        let batch = self.training.batch_size.map_or(1, |size| size as usize).saturating_mul(values);
        let range = format!(
            "smaller, or the network: the layers have {values} values for one example, {batch} for a batch, and a batch \
             may have {BATCH_VALUES_MAX}"
        );
        require(batch <= BATCH_VALUES_MAX, "[training] batch_size", &range)
    }
}
