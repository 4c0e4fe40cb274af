//! What the platform says about the device, as code in Python obtains it.

use std::fmt;
use std::pin::Pin;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tributary_client::{Attest, AttestError, Attestation};
use tributary_protocol::hash::Sha256Hash;

/// A callable `(hash of the key as bytes, or None) -> (platform, statement)`.
pub(crate) struct PythonAttester(pub(crate) Py<PyAny>);

impl fmt::Debug for PythonAttester {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PythonAttester")
    }
}

type Stated<'a> = Pin<Box<dyn Future<Output = Result<Attestation, AttestError>> + Send + 'a>>;

impl Attest for PythonAttester {
    fn attest(&self, key: Option<Sha256Hash>) -> Stated<'_> {
        let stated = Python::attach(|py| {
            let key = key.map(|key| PyBytes::new(py, &key.0));
            let (platform, statement) = self.0.call1(py, (key,))?.extract(py)?;
            Ok(Attestation { platform, statement })
        });
        Box::pin(std::future::ready(stated.map_err(|raised: PyErr| AttestError(raised.to_string()))))
    }
}
