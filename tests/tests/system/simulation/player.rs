//! A client of the history: the real SDK on a store of its own, whose sessions stand still between requests.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tributary_client::clock::Clock;
use tributary_client::transport::{Request, TransportError};
use tributary_client::{
    AlwaysOn, Client, ClientError, EvaluateTask, Evaluated, MemoryStore, Outcome, TrainError, TrainTask, Trained,
    Trainer,
};
use tributary_protocol::id::ClientId;
use tributary_server::runtime::clock::ManualClock;

use super::ledger::{Ledger, noise, step, weight};
use super::network::{Call, Network, Reply, is_upload};
use crate::support::{WEIGHTS, World, within_reason};

/// How long a check-in is held.
pub(super) const WAIT_MS: i64 = 3_000;

/// A client and where its session stands.
pub(super) struct Player {
    number: usize,
    /// Who it is since the last enrolment whose answer it got.
    pub(super) id: Option<ClientId>,
    /// Its last upload, arrived or not.
    pub(super) last_upload: Option<Request>,
    pub(super) at: At,
    network: Arc<Network>,
    calls: mpsc::UnboundedReceiver<Call>,
    /// Outlives the sessions, like the disk of a device.
    store: Arc<MemoryStore>,
    session: Option<JoinHandle<Result<Outcome, ClientError>>>,
    naps: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    clock: Arc<NapClock>,
    ledger: Arc<Mutex<Ledger>>,
}

/// Where a session stands.
pub(super) enum At {
    /// There is none.
    Home,
    /// A request is in the network.
    Asking(Call),
    /// A retry pause; it ends when this is sent.
    Napping(oneshot::Sender<()>),
    /// The coordinator holds its check-in until this time.
    Held { call: Call, reply: JoinHandle<Result<Reply, TransportError>>, until_ms: i64 },
}

impl Player {
    pub(super) fn new(number: usize, world: &World, ledger: &Arc<Mutex<Ledger>>) -> Self {
        let (nap, naps) = mpsc::unbounded_channel();
        let (network, calls) = Network::build();
        Self {
            number,
            id: None,
            last_upload: None,
            at: At::Home,
            network: Arc::new(network),
            calls,
            store: Arc::default(),
            session: None,
            naps,
            clock: Arc::new(NapClock { server: Arc::clone(&world.hand), nap }),
            ledger: Arc::clone(ledger),
        }
    }

    /// Begins a session: a new process on the same store.
    pub(super) async fn begin(&mut self, world: &World) {
        assert!(self.session.is_none());
        let builder = Client::builder(world.server(), world.enrolment.clone()).store(Arc::clone(&self.store) as Arc<_>);
        let builder = builder.wait(Duration::from_millis(WAIT_MS as u64)).clock(Arc::clone(&self.clock) as Arc<_>);
        let client = builder.transport(Arc::clone(&self.network) as Arc<_>).build().unwrap();
        let mut learner = Learner { client: self.number, ledger: Arc::clone(&self.ledger) };
        self.session = Some(tokio::spawn(async move { client.run_once(&mut learner, &AlwaysOn).await }));
        self.settle().await;
    }

    /// Waits until the session stands still again.
    pub(super) async fn settle(&mut self) {
        let Some(session) = &mut self.session else { return };
        let next = async {
            tokio::select! {
                call = self.calls.recv() => At::Asking(call.unwrap()),
                nap = self.naps.recv() => At::Napping(nap.unwrap()),
                outcome = &mut *session => {
                    self.ledger.lock().unwrap().ended(self.number, &outcome.unwrap());
                    At::Home
                }
            }
        };
        self.at = within_reason(next).await;
        match &self.at {
            At::Home => self.session = None,
            At::Asking(call) if is_upload(&call.request) => self.last_upload = Some(call.request.clone()),
            _ => {}
        }
    }

    /// Takes the request out of the network, if there is one; ends a nap and begins a session for it.
    pub(super) async fn request(&mut self, world: &World) -> Option<Call> {
        if matches!(self.at, At::Home) {
            self.begin(world).await;
        }
        self.wake().await;
        match std::mem::replace(&mut self.at, At::Home) {
            At::Asking(call) => Some(call),
            other => {
                self.at = other;
                None
            }
        }
    }

    /// Ends a nap.
    pub(super) async fn wake(&mut self) {
        match std::mem::replace(&mut self.at, At::Home) {
            At::Napping(nap) => {
                nap.send(()).unwrap();
                self.settle().await;
            }
            other => self.at = other,
        }
    }

    /// Ends the process; its store stays.
    pub(super) async fn kill(&mut self) {
        if let Some(session) = self.session.take() {
            session.abort();
            let _ = within_reason(session).await;
        }
        while self.naps.try_recv().is_ok() {}
        // A check-in that is held stays held: nobody tells the coordinator.
        self.at = At::Home;
    }

    /// Brings an answer, or breaks the connection without one.
    pub(super) async fn answered(&mut self, call: Call, reply: Option<&Reply>) {
        match reply {
            Some(reply) => call.answer(reply),
            None => drop::<Call>(call),
        }
        self.settle().await;
    }
}

/// The coordinator's clock. How long a retry pause is, the SDK draws at random; so that a history can be repeated, a
/// pause lasts until the history continues with this client or moves the clock.
#[derive(Debug)]
struct NapClock {
    server: Arc<ManualClock>,
    nap: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

impl Clock for NapClock {
    fn now_ms(&self) -> u64 {
        tributary_server::runtime::clock::Clock::Manual(Arc::clone(&self.server)).now_ms() as u64
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let (wake, woken) = oneshot::channel();
        let _ = self.nap.send(wake);
        Box::pin(async move {
            let _ = woken.await;
        })
    }
}

/// Adds a power of two to the client's own weight of the model, and a part of it to each weight that is nobody's.
struct Learner {
    client: usize,
    ledger: Arc<Mutex<Ledger>>,
}

impl Trainer for Learner {
    fn examples(&self) -> u64 {
        weight(self.client)
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        if should_stop() {
            return Err(TrainError::Interrupted);
        }
        self.ledger.lock().unwrap().trained(self.client, task.seed);
        let mut values = task.model.values().to_vec();
        values[self.client] += step(task.seed);
        for (index, value) in values.iter_mut().enumerate().skip(WEIGHTS) {
            *value += step(task.seed) * noise(index);
        }
        Ok(Trained::new(values, weight(self.client), 1, 0.25))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        if should_stop() {
            return Err(TrainError::Interrupted);
        }
        Ok(Evaluated::new(weight(self.client), 0.5).with_accuracy(0.75))
    }
}
