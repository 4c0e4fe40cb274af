//! Examples and labels in memory, which the SDK trains on by itself.

use std::sync::Arc;

use tributary_client::LayerTrainer;
use tributary_client::examples::{MemoryExamples, Targets};

use crate::errors::TributaryError;
use crate::floats::Floats;

/// Examples for jobs whose model is a list of layers. An app that passes them needs no code for training.
#[derive(Debug, uniffi::Object)]
pub struct Examples(MemoryExamples);

#[uniffi::export]
impl Examples {
    /// Examples of classes: `inputs` are those of all examples one after another, each with the values of `shape`;
    /// `labels` are numbers from 0, one for each example.
    ///
    /// # Errors
    /// [`TributaryError::BadInput`] if they do not fit each other or a value is not finite.
    #[uniffi::constructor]
    pub fn of_classes(shape: Vec<u64>, inputs: Floats, labels: Vec<u32>) -> Result<Arc<Self>, TributaryError> {
        Self::new(shape, inputs, Targets::Classes(labels))
    }

    /// Examples of numbers: `targets` has `width` of them for each example.
    ///
    /// # Errors
    /// [`TributaryError::BadInput`] if they do not fit each other or a value is not finite.
    #[uniffi::constructor]
    pub fn of_values(
        shape: Vec<u64>,
        inputs: Floats,
        targets: Floats,
        width: u64,
    ) -> Result<Arc<Self>, TributaryError> {
        let width = usize::try_from(width).map_err(|error| TributaryError::bad_input(error.to_string()))?;
        Self::new(shape, inputs, Targets::Values { values: targets.0, width })
    }
}

impl Examples {
    fn new(shape: Vec<u64>, inputs: Floats, targets: Targets) -> Result<Arc<Self>, TributaryError> {
        let shape: Result<Vec<usize>, _> = shape.into_iter().map(usize::try_from).collect();
        let shape = shape.map_err(|error| TributaryError::bad_input(error.to_string()))?;
        Ok(Arc::new(Self(MemoryExamples::new(shape, inputs.0, targets)?)))
    }

    pub(crate) fn trainer(&self) -> LayerTrainer {
        LayerTrainer::new(Arc::new(self.0.clone()))
    }
}
