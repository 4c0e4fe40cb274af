//! The model that a trainer in Python has reached.

use std::sync::Mutex;

use pyo3::prelude::*;
use tributary_client::Locked;

/// The values of a local model, which Python adds in small pieces: no second copy of the model is made.
#[pyclass(frozen, module = "tributary._core")]
pub(crate) struct LocalModel {
    values: Mutex<Vec<f32>>,
}

#[pymethods]
impl LocalModel {
    /// A model of so many values, none of which are there yet.
    #[new]
    fn new(total: usize) -> Self {
        Self { values: Mutex::new(Vec::with_capacity(total)) }
    }

    /// Adds the next values: f32, little-endian.
    fn add(&self, piece: &[u8]) {
        add_values(piece, &mut self.values.locked());
    }
}

impl LocalModel {
    /// All values that were added; none are left.
    pub(crate) fn take(&self) -> Vec<f32> {
        std::mem::take(&mut self.values.locked())
    }
}

/// Adds values from bytes; a rest that is no value is left out.
pub(crate) fn add_values(bytes: &[u8], values: &mut Vec<f32>) {
    let (added, _) = bytes.as_chunks();
    values.extend(added.iter().map(|value| f32::from_le_bytes(*value)));
}
