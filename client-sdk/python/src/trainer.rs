//! A trainer in Python.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use serde_json::json;
use tributary_client::trainer::apart;
use tributary_client::{
    Checkpoint, EvaluateTask, Evaluated, Locked, StopFlags, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::model::Model;
use tributary_protocol::plan::Algorithm;
use tributary_protocol::scalars::Scalars;

use crate::errors::told;
use crate::lent::LentModel;
use crate::local::{LocalModel, add_values};
use crate::signals::handle_signals;

/// Whether a training should stop. Python looks before each batch.
#[pyclass(frozen, module = "tributary._core")]
pub(crate) struct Stop {
    flags: Arc<StopFlags>,
}

#[pymethods]
impl Stop {
    fn is_over(&self) -> bool {
        self.flags.is_over()
    }

    fn is_set(&self) -> bool {
        self.flags.is_set()
    }

    fn checkpoint_is_due(&self) -> bool {
        self.flags.checkpoint_is_due()
    }

    /// Keeps where the training is: a number of steps, the sum of their losses, and bytes of the trainer.
    fn keep(&self, steps: u64, losses: f64, state: Vec<u8>) {
        self.flags.keep(Checkpoint::new(steps, losses).with_bytes(state));
    }
}

/// An argument of a method in Python: a [`LentModel`], bytes, or `None`.
#[derive(Clone, Copy)]
enum Argument<'a> {
    Model(&'a Model),
    Values(&'a [f32]),
    Bytes(&'a [u8]),
    None,
}

/// Calls the methods of a Python object: `examples() -> int`, `corrects_gradients() -> bool`,
/// `train(model, constants or None, checkpoint or None, task, stop) -> (model, examples, steps, loss, metrics)` and
/// `evaluate(model, task, stop) -> (examples, loss, accuracy or None, metrics, classes or None)`. A model is a
/// [`LentModel`], and a [`LocalModel`] where it is returned. Constants and checkpoints are bytes, tasks and counts by
/// class are JSON, metrics are numbers by name.
pub(crate) struct PythonTrainer {
    object: Py<PyAny>,
    examples: u64,
    corrects_gradients: bool,
    /// Whether the operator gets exceptions as text, and not only their kind.
    reports_text: bool,
    raised: Raised,
}

/// The exception that ended a training, which the session raises again. The trainers of a session share it.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

impl PythonTrainer {
    /// # Errors
    /// What `examples()` raises.
    pub(crate) fn new(py: Python<'_>, object: Py<PyAny>, reports_text: bool, raised: Raised) -> PyResult<Self> {
        let examples = object.call_method0(py, "examples")?.extract(py)?;
        let corrects_gradients = object.call_method0(py, "corrects_gradients")?.extract(py)?;
        Ok(Self { object, examples, corrects_gradients, reports_text, raised })
    }

    /// Calls a method with these arguments, a task and a [`Stop`] on a thread of its own. This thread meanwhile asks
    /// whether it should stop, and lets Python handle its signals: Ctrl-C arrives at the main thread, which may be this
    /// one.
    fn call<T: Send>(
        &mut self,
        method: &'static str,
        arguments: &[Argument<'_>],
        (training, task): (Option<&TrainTask<'_>>, &str),
        should_stop: &dyn Fn() -> bool,
        extract: impl for<'py> Fn(Bound<'py, PyAny>) -> PyResult<T> + Sync,
    ) -> Result<T, TrainError> {
        let (object, signal) = (&self.object, RefCell::new(None));
        let work = |flags: &Arc<StopFlags>| {
            Python::attach(|py| {
                let argument = |argument: &Argument<'_>| match argument {
                    Argument::Model(model) => Ok(Bound::new(py, LentModel::from(*model))?.into_any()),
                    Argument::Values(values) => Ok(as_bytes(py, values)?.into_any()),
                    Argument::Bytes(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
                    Argument::None => Ok(py.None().into_bound(py)),
                };
                let mut arguments = arguments.iter().map(argument).collect::<PyResult<Vec<_>>>()?;
                arguments.push(PyString::new(py, task).into_any());
                arguments.push(Bound::new(py, Stop { flags: Arc::clone(flags) })?.into_any());
                let result = object.call_method1(py, method, PyTuple::new(py, arguments)?)?;
                extract(result.into_bound(py))
            })
        };
        let should_stop = || {
            let mut signal = signal.borrow_mut();
            if signal.is_none() {
                *signal = Python::attach(handle_signals).err();
            }
            signal.is_some() || should_stop()
        };
        let result = apart(training, &should_stop, work)?;
        match (result, signal.into_inner()) {
            (Ok(_), Some(signal)) => {
                *self.raised.locked() = Some(signal);
                Err(TrainError::Interrupted)
            }
            (Ok(result), None) => Ok(result),
            (Err(exception), signal) => Err(Python::attach(|py| {
                let told = told(py, &exception, self.reports_text);
                let is_quiet = exception.is_instance_of::<crate::errors::Interrupted>(py);
                *self.raised.locked() = signal.or(if is_quiet { None } else { Some(exception) });
                told
            })),
        }
    }
}

impl Trainer for PythonTrainer {
    fn examples(&self) -> u64 {
        self.examples
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        self.corrects_gradients || !algorithm.corrects_gradients()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let specs = task.model.parameters().specs().iter().enumerate();
        let frozen: Vec<&str> =
            specs.filter(|(index, _)| task.is_frozen(*index)).map(|(_, spec)| spec.name.as_str()).collect();
        // Without bytes it is one of another trainer.
        let resume = task.resume.filter(|checkpoint| !checkpoint.bytes.is_empty());
        let told = json!({
            "job": task.job,
            "data": task.data,
            "parameters": task.model.parameters().specs(),
            "model": task.table(),
            "training": task.training,
            "seed": task.seed,
            "frozen": frozen,
            "pull": task.correction().pull,
            "may_suspend": task.may_suspend,
            "steps": resume.map(|checkpoint| checkpoint.steps),
            "losses": resume.map(|checkpoint| checkpoint.losses),
        });
        let total = task.model.values().len();
        let arguments = [
            Argument::Model(task.model),
            task.constant.map_or(Argument::None, Argument::Values),
            resume.map_or(Argument::None, |checkpoint| Argument::Bytes(&checkpoint.bytes)),
        ];
        self.call("train", &arguments, (Some(task), &told.to_string()), should_stop, |result| {
            let (model, examples, steps, loss, metrics): (Bound<'_, LocalModel>, u64, u64, f64, Named) =
                result.extract()?;
            let values = model.get().take();
            if values.len() != total {
                let text = format!("the trainer returned {} values of {total}", values.len());
                return Err(crate::errors::DoesNotFit::new_err(text));
            }
            Ok(Trained::new(values, examples, steps, loss).with_metrics(checked(metrics)?))
        })
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        let told = json!({
            "job": task.job,
            "data": task.data,
            "parameters": task.model.parameters().specs(),
            "model": task.table(),
            "loss": task.loss,
        });
        let arguments = [Argument::Model(task.model)];
        self.call("evaluate", &arguments, (None, &told.to_string()), should_stop, |result| {
            let (examples, loss, accuracy, metrics, classes): (u64, f64, Option<f64>, Named, Option<String>) =
                result.extract()?;
            let classes = classes.map(|text| serde_json::from_str(&text)).transpose();
            let classes = classes.map_err(|error| crate::errors::DoesNotFit::new_err(error.to_string()))?;
            Ok(Evaluated::new(examples, loss)
                .with_accuracy(accuracy)
                .with_metrics(checked(metrics)?)
                .with_classes(classes))
        })
    }
}

/// Named scalars of a report.
type Named = BTreeMap<String, f64>;

fn checked(metrics: Named) -> PyResult<Scalars> {
    let metrics = metrics.iter().try_fold(Scalars::new(), |metrics, (name, value)| metrics.with(name, *value));
    metrics.map_err(|error| crate::errors::DoesNotFit::new_err(error.to_string()))
}

/// Values as f32, little-endian.
fn as_bytes<'py>(py: Python<'py>, values: &[f32]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, size_of_val(values), |bytes| {
        for (place, value) in bytes.chunks_exact_mut(size_of::<f32>()).zip(values) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    })
}

/// Values from bytes; a rest that is no value is left out.
pub(crate) fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    let mut values = Vec::with_capacity(bytes.len() / size_of::<f32>());
    add_values(bytes, &mut values);
    values
}
