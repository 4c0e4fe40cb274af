//! The demo's clients: real SDK clients in this process, of which one is too slow and one dies.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tributary_client::examples::{Examples, MemoryExamples};
use tributary_client::{
    Client, ClientError, EvaluateTask, Evaluated, Host, LayerTrainer, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::id::Secret;
use tributary_protocol::plan::Algorithm;

use super::attack::Attackers;
use super::stragglers::Stragglers;

/// How often a client that pretends to compute checks whether it should stop.
const SLOW_STEP: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Its training never ends by itself.
    Slow,
    /// It is silent from its first training on.
    Dies,
}

/// A client to start.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its name in reports and its attribute `name`.
    pub name: String,
    /// A further attribute.
    pub attribute: Option<(&'static str, &'static str)>,
    pub examples: MemoryExamples,
    pub fault: Fault,
    /// Whom it attacks with, if it sends something else than its update.
    pub attackers: Option<Arc<Attackers>>,
    /// Whether it has time for all of its epochs.
    pub stragglers: Option<Stragglers>,
}

/// Clients that run until they are stopped.
#[derive(Debug)]
pub(crate) struct Fleet {
    running: Arc<AtomicBool>,
    sessions: JoinSet<()>,
}

impl Fleet {
    /// Enrols the members one after the other, so that their numbers follow their order, and then runs them all. At
    /// most
    /// `threads` of them train at the same time.
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
                trainer: LayerTrainer::new(Arc::new(member.examples)),
                fault: member.fault,
                attackers: member.attackers,
                stragglers: member.stragglers,
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

    /// Stops every client at once, also while it trains.
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

/// A trainer with a fault.
struct Device {
    count: u64,
    trainer: LayerTrainer,
    fault: Fault,
    attackers: Option<Arc<Attackers>>,
    stragglers: Option<Stragglers>,
    slots: Arc<Slots>,
    running: Arc<AtomicBool>,
}

impl Trainer for Device {
    fn examples(&self) -> u64 {
        self.count
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        self.trainer.follows(algorithm)
    }

    fn exchanges(&self) -> bool {
        self.trainer.exchanges()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        match self.fault {
            Fault::None => {
                let _slot = self.slots.take();
                let trained = match &self.stragglers {
                    Some(stragglers) => stragglers.train(&mut self.trainer, task, should_stop)?,
                    None => self.trainer.train(task, should_stop)?,
                };
                match &self.attackers {
                    Some(attackers) => attackers.forge(task, trained),
                    None => Ok(trained),
                }
            }
            Fault::Slow => pretend(should_stop),
            // It ignores the deadline, too.
            Fault::Dies => pretend(&|| !self.running.load(Ordering::Relaxed)),
        }
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        let _slot = self.slots.take();
        self.trainer.evaluate(task, should_stop)
    }
}

/// Computes nothing until it should stop.
fn pretend(should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
    while !should_stop() {
        std::thread::sleep(SLOW_STEP);
    }
    Err(TrainError::Interrupted)
}

/// A semaphore for threads: limits how many clients compute at the same time.
#[derive(Debug)]
struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Frees its slot when it is dropped.
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
