//! The real SDK with a trainer that needs no data and a clock that never waits.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tributary_client::clock::Clock;
use tributary_client::{
    Client, EvaluateTask, Evaluated, HttpTransport, TrainError, TrainTask, Trained, Trainer, Transport,
};
use tributary_engine::round::Candidate;
use tributary_protocol::abilities::Abilities;
use tributary_protocol::example_sets::ExampleSets;
use tributary_protocol::operator::{Client as Enrolled, Page};
use tributary_protocol::plan::Algorithm;
use tributary_protocol::update::CodecName;

use super::World;

/// "Trains" by adding a number to every weight.
#[derive(Clone, Debug)]
pub(crate) struct Adds {
    pub(crate) step: f32,
    pub(crate) examples: u64,
    /// How often it was asked to train.
    pub(crate) trained: u32,
    /// Whether it takes part in jobs of SCAFFOLD and FedDyn.
    follows: bool,
}

impl Adds {
    pub(crate) fn new(step: f32) -> Self {
        Self { step, examples: 10, trained: 0, follows: false }
    }

    pub(crate) fn following(self) -> Self {
        Self { follows: true, ..self }
    }
}

impl Trainer for Adds {
    fn examples(&self) -> u64 {
        self.examples
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        self.follows || !algorithm.corrects_gradients()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.trained += 1;
        if should_stop() {
            return Err(TrainError::Interrupted);
        }
        let values = task.model.values().iter().map(|value| value + self.step).collect();
        Ok(Trained::new(values, self.examples, 1, 0.25))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Ok(Evaluated::new(self.examples, 0.5).with_accuracy(0.75))
    }
}

/// Trains like [`Adds`], after something else has happened.
pub(crate) struct Meanwhile<F>(pub(crate) Adds, pub(crate) F);

impl<F: FnMut() -> Result<(), TrainError> + Send> Trainer for Meanwhile<F> {
    fn examples(&self) -> u64 {
        self.0.examples
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        (self.1)()?;
        self.0.train(task, should_stop)
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.0.evaluate(task, should_stop)
    }
}

/// Moves every weight by chance, so that its update hardly shrinks.
pub(crate) struct Scatters(pub(crate) Adds);

impl Trainer for Scatters {
    fn examples(&self) -> u64 {
        self.0.examples
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let mut trained = self.0.train(task, should_stop)?;
        let mut stream = task.seed.stream();
        trained.values.iter_mut().for_each(|value| *value += stream.uniform(-0.25, 0.25));
        Ok(trained)
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.0.evaluate(task, should_stop)
    }
}

/// A clock on which a wait is over at once: it jumps to its end.
#[derive(Debug, Default)]
pub(crate) struct JumpingClock {
    now_ms: AtomicU64,
}

impl JumpingClock {
    pub(crate) fn advance_ms(&self, by_ms: u64) {
        self.now_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for JumpingClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            self.advance_ms(time.as_millis() as u64);
            tokio::task::yield_now().await;
        })
    }
}

/// A client of this world's coordinator whose state is in `directory`.
pub(crate) fn sdk_client(world: &World, directory: &Path) -> Client {
    sdk_client_over(world, directory, Arc::new(HttpTransport::new(world.http.clone())))
}

/// The same, whose requests take this way.
pub(crate) fn sdk_client_over(world: &World, directory: &Path, transport: Arc<dyn Transport>) -> Client {
    sdk_client_at(world, directory, transport, Arc::new(JumpingClock::default()))
}

/// The same with a clock of the test.
pub(crate) fn sdk_client_at(
    world: &World,
    directory: &Path,
    transport: Arc<dyn Transport>,
    clock: Arc<JumpingClock>,
) -> Client {
    let builder = Client::builder(world.server(), world.enrolment.clone()).state_dir(directory);
    builder.transport(transport).clock(clock).build().unwrap()
}

/// Lets all clients be drawn; each finds its assignment at its next check-in.
pub(crate) async fn draw_everybody(world: &World) {
    let enrolled: Page<Enrolled> = world.look("/clients?population=devices").await.ok();
    let seats: Vec<_> = enrolled
        .items
        .into_iter()
        .map(|client| {
            let candidate = Candidate {
                client: client.id,
                number: client.number,
                attributes: client.attributes,
                examples: client.examples,
                sets: ExampleSets::default(),
                codecs: CodecName::ALL.to_vec(),
                abilities: Abilities::ALL,
                schema: None,
                answers: true,
                masks: true,
                signs: true,
                relay: None,
                share: None,
            };
            world.app().fleet.lobby.enter(client.population, Arc::new(candidate))
        })
        .collect();
    world.drive().await;
    drop(seats);
}
