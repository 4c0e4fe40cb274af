//! The native part of the Python package `tributary-fl`: the SDK's client with Python's types.
//!
//! A model is lent to Python as it lies in memory, and a trainer's result comes back in small pieces. Settings are
//! JSON. The Python part makes arrays and objects of all that, so this part needs no numpy.

mod attest;
mod client;
mod errors;
mod layers;
mod lent;
mod local;
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
    use crate::lent::LentModel;
    #[pymodule_export]
    use crate::local::LocalModel;
    #[pymodule_export]
    use crate::model::{Model, prepare};
    #[pymodule_export]
    use crate::trainer::Stop;
}
