//! The native part of the Python package `tributary-fl`: the SDK's client with Python's types.
//!
//! Models cross the border as bytes (f32, little-endian, in the order of the parameters) and settings as JSON: the
//! Python part makes arrays of them, so this part needs no numpy. A model is copied once in each direction.

mod attest;
mod client;
mod errors;
mod layers;
mod model;
mod progress;
mod signals;
mod table;
mod trainer;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::client::Session;
    #[pymodule_export]
    use crate::errors::{
        Diverged, DoesNotFit, Interrupted, NoExamples, Refused, Suspended, TributaryError, Unreachable, Untrusted,
    };
    #[pymodule_export]
    use crate::layers::LayerExamples;
    #[pymodule_export]
    use crate::model::{Model, prepare};
    #[pymodule_export]
    use crate::trainer::Stop;
}
