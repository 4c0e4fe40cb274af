//! The class that `package/worker.js` uses.

use std::cell::RefCell;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{AlwaysOn, Builder, Client, Freshness, Locked, Name, Sets, Settings};
use tributary_protocol::id::IdError;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::clock::BrowserClock;
use crate::errands::Errands;
use crate::gpu::BrowserGpu;
use crate::model::BrowserModel;
use crate::outcome::{described, misused, thrown};
use crate::script::{Browser, console_error};
use crate::store::BrowserStore;
use crate::table::{BrowserTable, PageTable};
use crate::training::{ReportingTrainer, Results};
use crate::transport::{FetchTransport, Traffic};

thread_local! {
    /// The page that progress is reported to. A trainer may move between threads, and a value of JavaScript may not, so
    /// the trainer does not hold it.
    static PAGE: RefCell<Option<Browser>> = const { RefCell::new(None) };
}

/// Reports to the page how many batches are done.
fn report(batches: u64) {
    PAGE.with_borrow(|page| {
        if let Some(page) = page {
            page.progress(&json!({ "kind": "training", "batches": batches }).to_string());
        }
    });
}

/// What trains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Device {
    #[default]
    Cpu,
    /// The GPU where there is one, for trainings that have kernels.
    Auto,
    /// The GPU, or nothing.
    Gpu,
}

/// What only browsers have a setting for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Own {
    /// What trains.
    device: Device,
    /// Whether the page gives a table with each session.
    answers: bool,
}

/// The client's settings, and those of browsers.
fn parsed(settings: &str) -> serde_json::Result<(Settings, Own)> {
    let own = serde_json::from_str(settings)?;
    let mut settings: serde_json::Map<String, serde_json::Value> = serde_json::from_str(settings)?;
    settings.retain(|name, _| name != "device" && name != "answers");
    Ok((serde_json::from_value(settings.into())?, own))
}

/// One client of a coordinator.
#[derive(Debug)]
#[wasm_bindgen]
pub struct BrowserClient {
    client: Client,
    traffic: Traffic,
    /// `None` on the CPU.
    gpu: Option<BrowserGpu>,
    device: Device,
    table: Arc<PageTable>,
    clock: Arc<BrowserClock>,
}

#[wasm_bindgen]
impl BrowserClient {
    /// A client with these settings, as JSON. A worker has one.
    ///
    /// # Errors
    /// A JavaScript error for the setting that is wrong.
    #[wasm_bindgen(constructor)]
    pub fn new(settings: &str, browser: Browser) -> Result<Self, JsValue> {
        std::panic::set_hook(Box::new(|panic| console_error(&panic.to_string())));
        let (mut settings, Own { device, answers }) = parsed(settings).map_err(|error| misused(&error.to_string()))?;
        settings.sdk = Some("browser".to_owned());
        PAGE.set(Some(browser.clone()));
        let (errands, traffic) = (Errands::of(browser.clone()), Traffic::default());
        let clock = Arc::new(BrowserClock(errands.clone()));
        let gpu = browser.gpu().map(|_| BrowserGpu(errands.clone()));
        let table = Arc::new(PageTable::default());
        let mut builder = Builder::from(settings)
            .store(Arc::new(BrowserStore::read(&browser, errands.clone())))
            .transport(Arc::new(FetchTransport { errands, traffic: traffic.clone() }))
            .clock(Arc::clone(&clock) as Arc<_>);
        if answers {
            builder = builder.table(Arc::clone(&table) as Arc<_>);
        }
        Ok(Self { client: builder.build().map_err(|error| thrown(&error))?, traffic, gpu, device, table, clock })
    }

    /// The client's id. Enrols it first if it has none.
    ///
    /// # Errors
    /// A JavaScript error with a `kind`.
    pub async fn enrol(&self) -> Result<String, JsValue> {
        Ok(self.client.enrol().await.map_err(|error| thrown(&error))?.to_string())
    }

    /// Leaves: deletes what the page has stored, and has the coordinator do so. Whether the coordinator knows.
    ///
    /// # Errors
    /// A JavaScript error with a `kind`.
    pub async fn leave(&self) -> Result<bool, JsValue> {
        self.client.leave().await.map_err(|error| thrown(&error))
    }

    /// What the running jobs of the population require of examples, as JSON.
    ///
    /// # Errors
    /// A JavaScript error with a `kind`.
    #[wasm_bindgen(js_name = openJobs)]
    pub async fn open_jobs(&self) -> Result<String, JsValue> {
        let jobs = self.client.open_jobs().await.map_err(|error| thrown(&error))?;
        Ok(json!(jobs).to_string())
    }

    /// The model of a job that the client downloaded last, with its own personal parameters, as it was in the database
    /// when this client was made. None until it has taken part in a round of the job.
    ///
    /// # Errors
    /// A JavaScript error with a `kind`.
    pub fn model(&self, job: &str) -> Result<Option<BrowserModel>, JsValue> {
        Ok(self.client.model(job).map_err(|error| thrown(&error))?.map(BrowserModel::from))
    }

    /// The model that was released on a channel: `latest`, `local` or `local_then_update`.
    ///
    /// # Errors
    /// A JavaScript error with a `kind`.
    pub async fn released(&self, channel: &str, freshness: &str) -> Result<Option<BrowserModel>, JsValue> {
        let freshness: Freshness = freshness.parse().map_err(|error| thrown(&error))?;
        let released = self.client.released(channel, freshness, &AlwaysOn).await.map_err(|error| thrown(&error))?;
        let usable = released.map(|released| released.usable()).transpose().map_err(|error| thrown(&error))?;
        Ok(usable.map(BrowserModel::from))
    }

    /// Runs one session with these example sets, and a table that answers analyses. Returns the outcome as JSON.
    ///
    /// # Errors
    /// A JavaScript error with a `kind`.
    #[wasm_bindgen(js_name = runOnce)]
    pub async fn run_once(&self, examples: BrowserSets, table: BrowserTable) -> Result<String, JsValue> {
        self.table.set(table);
        let (mut sets, work) = (Sets::new(), Results::default());
        for (name, examples) in examples.0 {
            let (gpu, is_required, clock) = (self.gpu.clone(), self.device == Device::Gpu, Arc::clone(&self.clock));
            let trainer = ReportingTrainer::new(examples, gpu, is_required, (report, Arc::clone(&work)), clock);
            match name {
                None => sets.set_unnamed(Box::new(trainer)),
                Some(name) => {
                    sets.add(name, Box::new(trainer)).map_err(|error| misused(&error.to_string()))?;
                }
            }
        }
        let before = (self.traffic.sent(), self.traffic.received());
        let outcome = self.client.run_once(&mut sets, &AlwaysOn).await.map_err(|error| thrown(&error))?;
        let traffic = (self.traffic.sent() - before.0, self.traffic.received() - before.1);
        let work = work.locked().take();
        Ok(described(&outcome, work, traffic))
    }
}

/// The example sets of a session, one of them perhaps without a name.
#[derive(Debug, Default)]
#[wasm_bindgen]
pub struct BrowserSets(Vec<(Option<Name>, MemoryExamples)>);

#[wasm_bindgen]
impl BrowserSets {
    /// None yet.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a set, without a name if that is empty: inputs of this shape, one after the other, and a class for each.
    ///
    /// # Errors
    /// A JavaScript error for a text that is no name, and for examples that do not fit each other.
    pub fn add(&mut self, name: &str, shape: Vec<u32>, inputs: Vec<f32>, labels: Vec<u32>) -> Result<(), JsValue> {
        let name = match name {
            "" => None,
            name => Some(name.parse().map_err(|error: IdError| misused(&error.to_string()))?),
        };
        let shape = shape.into_iter().map(|length| length as usize).collect();
        let examples = MemoryExamples::new(shape, inputs, Targets::Classes(labels));
        self.0.push((name, examples.map_err(|error| misused(&error.to_string()))?));
        Ok(())
    }
}
