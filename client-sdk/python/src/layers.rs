//! Examples for networks that a job file describes: the SDK trains them itself.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tributary_client::LayerTrainer;
use tributary_client::examples::{MemoryExamples, Targets};

use crate::trainer::from_bytes;

/// Examples in memory, for any number of sessions.
#[pyclass(frozen, module = "tributary._core")]
pub(crate) struct LayerExamples {
    examples: MemoryExamples,
    threads: usize,
}

#[pymethods]
impl LayerExamples {
    /// `inputs` are f32, `classes` u32 or `values` f32 with `width` of them per example; all little-endian, row by row.
    #[new]
    #[pyo3(signature = (shape, inputs, classes, values, width, threads))]
    fn new(
        shape: Vec<usize>,
        inputs: &Bound<'_, PyBytes>,
        classes: Option<&Bound<'_, PyBytes>>,
        values: Option<&Bound<'_, PyBytes>>,
        width: usize,
        threads: usize,
    ) -> PyResult<Self> {
        let targets = match (classes, values) {
            (Some(classes), None) => {
                let (classes, _) = classes.as_bytes().as_chunks();
                Targets::Classes(classes.iter().map(|class| u32::from_le_bytes(*class)).collect())
            }
            (None, Some(values)) => Targets::Values { values: from_bytes(values.as_bytes()), width },
            _ => return Err(PyValueError::new_err("examples have either classes or values")),
        };
        let examples = MemoryExamples::new(shape, from_bytes(inputs.as_bytes()), targets);
        let examples = examples.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { examples, threads })
    }
}

impl LayerExamples {
    pub(crate) fn trainer(&self) -> LayerTrainer {
        LayerTrainer::new(Arc::new(self.examples.clone())).with_threads(self.threads)
    }
}
