//! A model that arrays in Python look at.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tributary_protocol::model::Model;

/// The type of the values as numpy writes it.
const TYPE: &str = if cfg!(target_endian = "little") { "<f4" } else { ">f4" };

/// The values of a model as a read-only vector of numpy, without a copy.
///
/// The arrays hold this object, and it holds the values, which nothing changes while it does: a trainer may keep the
/// arrays for as long as it wants. Python's buffer protocol would do the same, but is no part of the stable ABI of 3.9.
#[pyclass(frozen, module = "tributary._core")]
pub(crate) struct LentModel {
    model: Model,
}

impl From<&Model> for LentModel {
    /// Shares the values.
    fn from(model: &Model) -> Self {
        Self { model: model.clone() }
    }
}

#[pymethods]
impl LentModel {
    /// Version 3 of <https://numpy.org/doc/stable/reference/arrays.interface.html>.
    #[getter(__array_interface__)]
    fn array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (values, is_read_only) = (self.model.values(), true);
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", TYPE)?;
        interface.set_item("shape", (values.len(),))?;
        interface.set_item("data", (values.as_ptr().expose_provenance(), is_read_only))?;
        Ok(interface)
    }
}
