//! The rows from which the client answers analyses, as code in Python gives them.

use std::fmt;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tributary_client::{Cell, Table, TrainError};

use crate::errors::told;

/// A callable `(names of columns) -> rows`, each a sequence of as many values: numbers, texts or `None`.
pub(crate) struct PythonTable {
    pub(crate) callable: Py<PyAny>,
    /// Whether the operator gets exceptions as text, and not only their kind.
    pub(crate) reports_text: bool,
}

impl fmt::Debug for PythonTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PythonTable")
    }
}

impl Table for PythonTable {
    fn rows(&self, columns: &[&str]) -> Result<Vec<Vec<Cell>>, TrainError> {
        Python::attach(|py| {
            let rows = self.callable.bind(py).call1((columns.to_vec(),)).and_then(|rows| rows.try_iter());
            let rows = rows.and_then(|rows| rows.map(|row| row.and_then(|row| cells(&row))).collect());
            rows.map_err(|raised: PyErr| told(py, &raised, self.reports_text))
        })
    }
}

fn cells(row: &Bound<'_, PyAny>) -> PyResult<Vec<Cell>> {
    row.try_iter()?.map(|value| value.and_then(|value| cell(&value))).collect()
}

fn cell(value: &Bound<'_, PyAny>) -> PyResult<Cell> {
    if value.is_none() {
        return Ok(Cell::Missing);
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(Cell::Text(text));
    }
    // Numbers of numpy, too.
    value.extract().map(Cell::Number).map_err(|_| {
        let kind = value.get_type();
        PyTypeError::new_err(format!("a value of a row is a number, a text or None, not of {kind}"))
    })
}
