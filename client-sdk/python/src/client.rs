//! One client, and its sessions.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use tributary_client::blocking::Ended as Run;
use tributary_client::{
    BlockingClient, Builder, Client, ClientError, Freshness, Host, Locked, Outcome, Sets, SetsError, Settings, Trainer,
};
use tributary_protocol::device::DeviceState;

use crate::attest::PythonAttester;
use crate::errors::exception;
use crate::layers::LayerExamples;
use crate::model::Model;
use crate::progress::{Counting, Listener};
use crate::signals::interrupted;
use crate::table::PythonTable;
use crate::trainer::{PythonTrainer, Raised};

/// A client of one coordinator, with a runtime of its own.
#[pyclass(frozen, module = "tributary._core")]
pub(crate) struct Session {
    client: BlockingClient,
    listener: Arc<Listener>,
}

/// How a session ended: its kind, the number of the round, the seconds until the next session, and what the client
/// waits for as JSON.
type Ended = (&'static str, Option<u32>, f64, Option<String>);

#[pymethods]
impl Session {
    /// A client with these [`Settings`], as JSON. `listener(kind, number or None, text)` hears what sessions do;
    /// `attester(hash of the key or None) -> (platform, statement)` states something about the device;
    /// `table(names of columns) -> rows` answers analyses, and its exceptions reach the operator as those of trainers.
    #[new]
    fn new(
        py: Python<'_>,
        settings: &str,
        listener: Py<PyAny>,
        attester: Option<Py<PyAny>>,
        table: Option<Py<PyAny>>,
        reports_text: bool,
    ) -> PyResult<Self> {
        let settings = serde_json::from_str::<Settings>(settings);
        let settings = settings.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let listener = Arc::new(Listener(listener));
        let hears = Arc::clone(&listener);
        let mut builder = Builder::from(settings).sdk("python").on_progress(move |progress| hears.hear(progress));
        if let Some(attester) = attester {
            builder = builder.attestation(PythonAttester(attester));
        }
        if let Some(callable) = table {
            builder = builder.table(Arc::new(PythonTable { callable, reports_text }));
        }
        let client = builder.build().map_err(|error| exception(py, &error))?;
        Ok(Self { listener, client: BlockingClient::new(client).map_err(|error| exception(py, &error))? })
    }

    /// The client's id. Enrols the client if it has none.
    fn enrol(&self, py: Python<'_>) -> PyResult<String> {
        self.run(py, async |client| Ok(client.enrol().await?.to_string()))
    }

    /// Deletes the client's folder, and has the coordinator delete what it has stored. Whether the coordinator knows.
    fn leave(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, async |client| client.leave().await)
    }

    /// What the running jobs require of examples, as JSON.
    fn open_jobs(&self, py: Python<'_>) -> PyResult<String> {
        let jobs = self.run(py, async |client| client.open_jobs().await)?;
        serde_json::to_string(&jobs).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// The model of a job that the client downloaded last, from its folder.
    fn model(&self, py: Python<'_>, job: &str) -> PyResult<Option<Model>> {
        let found = py.detach(|| self.client.model(job));
        Ok(found.map_err(|error| exception(py, &error))?.map(Model::from))
    }

    /// The model that was released on a channel: `latest`, `local` or `local_then_update`.
    fn released(
        &self,
        py: Python<'_>,
        channel: &str,
        freshness: &str,
        host: Option<Py<PyAny>>,
    ) -> PyResult<Option<Model>> {
        let freshness: Freshness = freshness.parse().map_err(|error| exception(py, &error))?;
        let host = PythonHost { object: host };
        let found = self.run(py, async |client| {
            let released = client.released(channel, freshness, &host).await?;
            released.map(|released| released.usable()).transpose()
        });
        Ok(found?.map(Model::from))
    }

    /// Gets the newest releases of the channels that the client follows. Seconds until it may ask again.
    fn update_releases(&self, py: Python<'_>, host: Option<Py<PyAny>>) -> PyResult<f64> {
        let host = PythonHost { object: host };
        let again = self.run(py, async |client| client.update_releases(&host).await)?;
        Ok(again.as_secs_f64())
    }

    /// One session with trainers by the names of their example sets, one of them perhaps without a name: each is
    /// [`LayerExamples`], or an object with the methods that [`PythonTrainer`] calls. With `reports_text` the operator
    /// gets exceptions of the trainer as text, and not only their kind.
    fn run_once(
        &self,
        py: Python<'_>,
        trainers: Vec<(Option<String>, Py<PyAny>)>,
        host: Option<Py<PyAny>>,
        reports_text: bool,
    ) -> PyResult<Ended> {
        let host = PythonHost { object: host };
        let raised = Raised::default();
        let mut sets = Sets::new();
        for (name, trainer) in trainers {
            let trainer: Box<dyn Trainer> = match trainer.bind(py).cast::<LayerExamples>() {
                Ok(examples) => {
                    let listener = Arc::clone(&self.listener);
                    Box::new(Counting { trainer: examples.get().trainer(), listener })
                }
                Err(_) => Box::new(PythonTrainer::new(py, trainer, reports_text, Arc::clone(&raised))?),
            };
            let added = match name {
                Some(name) => name.parse().map_err(SetsError::from).and_then(|name| sets.add(name, trainer)),
                None => {
                    sets.set_unnamed(trainer);
                    Ok(())
                }
            };
            added.map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
        let ended = self.session(py, &mut sets, &host);
        let raised = raised.locked().take();
        raised.map_or(ended, Err)
    }
}

impl Session {
    fn session(&self, py: Python<'_>, trainer: &mut Sets, host: &PythonHost) -> PyResult<Ended> {
        let outcome = self.run(py, async |client| client.run_once(trainer, host).await)?;
        let retry_after_s = outcome.retry_after().as_secs_f64();
        Ok(match outcome {
            Outcome::Contributed { round, .. } => ("contributed", Some(round), retry_after_s, None),
            Outcome::Evaluated { round, .. } => ("evaluated", Some(round), retry_after_s, None),
            Outcome::Described { round, .. } => ("described", Some(round), retry_after_s, None),
            Outcome::TooLate { round, .. } => ("too_late", Some(round), retry_after_s, None),
            Outcome::NothingToDo { waits_for, .. } => {
                let waits_for = waits_for.and_then(|waits_for| serde_json::to_string(&waits_for).ok());
                ("nothing_to_do", None, retry_after_s, waits_for)
            }
            _ => ("interrupted", None, retry_after_s, None),
        })
    }

    /// Runs requests without Python's lock, and lets Python handle its signals meanwhile. What Ctrl-C interrupts is
    /// dropped, which the SDK allows at any time.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl AsyncFnOnce(&Client) -> Result<T, ClientError> + Send,
    ) -> PyResult<T> {
        match py.detach(|| self.client.run(work, interrupted())) {
            Ok(Run::Done(done)) => Ok(done),
            Ok(Run::Stopped(interrupt)) => Err(interrupt),
            Err(error) => Err(exception(py, &error)),
        }
    }
}

/// A host in Python: `may_continue() -> bool` and `device_state() -> dict as JSON`. Without an object, nothing stops a
/// session.
struct PythonHost {
    object: Option<Py<PyAny>>,
}

impl Host for PythonHost {
    fn may_continue(&self) -> bool {
        let Some(object) = &self.object else { return true };
        Python::attach(|py| {
            let answer = object.call_method0(py, "may_continue").and_then(|answer| answer.is_truthy(py));
            // A host that fails cannot say that training disturbs nobody.
            answer.unwrap_or_else(|raised| {
                raised.write_unraisable(py, Some(object.bind(py)));
                false
            })
        })
    }

    fn device_state(&self) -> DeviceState {
        let Some(object) = &self.object else { return DeviceState::default() };
        Python::attach(|py| {
            let state = object.call_method0(py, "device_state").and_then(|state| state.extract::<String>(py));
            let parsed = state
                .and_then(|text| serde_json::from_str(&text).map_err(|error| PyValueError::new_err(error.to_string())));
            parsed.unwrap_or_else(|raised| {
                raised.write_unraisable(py, Some(object.bind(py)));
                DeviceState::default()
            })
        })
    }
}
