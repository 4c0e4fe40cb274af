//! The demo's clients: real SDK clients in one process, one of them too slow, one that dies.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tributary_client::examples::{Examples, MemoryExamples};
use tributary_client::{
    BurnTrainer, Client, ClientError, EvaluateTask, Evaluated, Host, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::id::Secret;

/// How often a client that only pretends to compute looks whether it should stop.
const SLOW_STEP: Duration = Duration::from_millis(20);

/// What is wrong with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Its training never ends by itself.
    Slow,
    /// It is never heard of again once it has begun to train.
    Dies,
}

/// One client to start.
#[derive(Debug)]
pub(crate) struct Member {
    /// What it is called in reports, and its attribute `name`.
    pub(crate) name: String,
    /// A further attribute.
    pub(crate) attribute: Option<(&'static str, &'static str)>,
    /// What it learns from.
    pub(crate) examples: MemoryExamples,
    /// What is wrong with it.
    pub(crate) fault: Fault,
}

/// Clients that run until they are stopped.
#[derive(Debug)]
pub(crate) struct Fleet {
    running: Arc<AtomicBool>,
    sessions: JoinSet<()>,
}

impl Fleet {
    /// Enrols the members one after the other, so that their numbers follow their order, then lets them all run.
    /// `threads` of them train at the same time.
    ///
    /// # Errors
    /// [`ClientError`] of the first that could not enrol.
    pub(crate) async fn start(
        server: &str,
        enrolment: &Secret,
        folder: &Path,
        members: Vec<Member>,
        threads: usize,
        http: &reqwest::Client,
    ) -> Result<Self, ClientError> {
        let running = Arc::new(AtomicBool::new(true));
        let slots = Arc::new(Slots::new(threads));
        let mut ready = Vec::new();
        for member in members {
            let mut builder = Client::builder(server, enrolment.expose())
                .state_dir(folder.join(&member.name))
                .attribute("name", &member.name)
                .http_client(http.clone());
            if let Some((name, value)) = member.attribute {
                builder = builder.attribute(name, value);
            }
            let client = builder.build()?;
            client.enrol().await?;
            let trainer = Device {
                count: member.examples.len() as u64,
                trainer: BurnTrainer::new(Arc::new(member.examples)),
                fault: member.fault,
                slots: Arc::clone(&slots),
                running: Arc::clone(&running),
            };
            ready.push((client, trainer));
        }
        let mut sessions = JoinSet::new();
        for (client, mut trainer) in ready {
            let host = Power(Arc::clone(&running));
            sessions.spawn(async move { client.run(&mut trainer, &host, std::future::pending()).await });
        }
        Ok(Self { running, sessions })
    }

    /// Stops every client, wherever it is.
    pub(crate) async fn stop(mut self) {
        self.running.store(false, Ordering::Relaxed);
        self.sessions.shutdown().await;
    }
}

/// The switch of the whole fleet.
struct Power(Arc<AtomicBool>);

impl Host for Power {
    fn may_continue(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A trainer with its faults.
struct Device {
    count: u64,
    trainer: BurnTrainer,
    fault: Fault,
    slots: Arc<Slots>,
    running: Arc<AtomicBool>,
}

impl Trainer for Device {
    fn examples(&self) -> u64 {
        self.count
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        match self.fault {
            Fault::None => {
                let _slot = self.slots.take();
                self.trainer.train(task, should_stop)
            }
            Fault::Slow => pretend(should_stop),
            // Not even the deadline brings it back.
            Fault::Dies => pretend(&|| !self.running.load(Ordering::Relaxed)),
        }
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        let _slot = self.slots.take();
        self.trainer.evaluate(task, should_stop)
    }
}

/// Takes time until it is told to stop.
fn pretend(should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
    while !should_stop() {
        std::thread::sleep(SLOW_STEP);
    }
    Err(TrainError::Interrupted)
}

/// So many may compute at the same time.
#[derive(Debug)]
struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place among them.
struct Slot<'a>(&'a Slots);

impl Slots {
    fn new(count: usize) -> Self {
        Self { free: Mutex::new(count.max(1)), freed: Condvar::new() }
    }

    fn take(&self) -> Slot<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Slot(self)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
