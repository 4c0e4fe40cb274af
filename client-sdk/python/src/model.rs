//! An exported model, ready to predict.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tributary_client::inputs::prepared_rows;
use tributary_client::predict::UsableModel;
use tributary_protocol::job_model::JobModel;

/// The model of a file.
#[pyclass(frozen, module = "tributary._core")]
pub(crate) struct Model {
    model: UsableModel,
}

impl From<UsableModel> for Model {
    fn from(model: UsableModel) -> Self {
        Self { model }
    }
}

/// Outputs, probabilities, class and numbers of an example.
type Predicted = (Vec<f32>, Vec<f32>, Option<usize>, Vec<f64>);

#[pymethods]
impl Model {
    #[new]
    fn new(file: &Bound<'_, PyBytes>) -> PyResult<Self> {
        let model = UsableModel::from_bytes(file.as_bytes());
        Ok(Self { model: model.map_err(|error| PyValueError::new_err(error.to_string()))? })
    }

    /// What the file says of itself, as JSON.
    fn card(&self) -> PyResult<String> {
        serde_json::to_string(self.model.card()).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Raw values in the order of the columns, NaN where one is missing.
    #[pyo3(signature = (values))]
    fn predict(&self, py: Python<'_>, values: Vec<f64>) -> PyResult<Predicted> {
        let prediction = py.detach(|| self.model.predict(&values));
        let prediction = prediction.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((prediction.outputs, prediction.probabilities, prediction.class, prediction.numbers))
    }
}

/// The inputs of raw rows (f64, one after the other, with so many values each), as f32, by `[model]` of a job's file in
/// JSON.
#[pyfunction]
pub(crate) fn prepare<'py>(
    py: Python<'py>,
    model: &str,
    rows: &Bound<'py, PyBytes>,
    width: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let model: JobModel = serde_json::from_str(model).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let rows: Vec<f64> = rows.as_bytes().as_chunks().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect();
    let inputs = prepared_rows(&model, &rows, width).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let bytes: Vec<u8> = inputs.iter().flat_map(|input| input.to_ne_bytes()).collect();
    Ok(PyBytes::new(py, &bytes))
}
