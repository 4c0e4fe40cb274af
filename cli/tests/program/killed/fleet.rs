//! Real SDK clients whose training depends on the model and the seed only, and a record of it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::JoinSet;
use tributary_client::clock::Clock;
use tributary_client::{
    AlwaysOn, Builder, Client, ClientError, EvaluateTask, Evaluated, Outcome, TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::plan::Algorithm;
use tributary_protocol::problem::ProblemType;

/// How often each client trained with each seed, and client and round of every acknowledged update.
pub(crate) type Record = (BTreeMap<(u32, u64), u32>, Vec<(u32, u32)>);

/// Enrolled clients.
pub(crate) struct Fleet {
    clients: Vec<Client>,
    learns: Learns,
    _directory: TempDir,
}

impl Fleet {
    /// Enrols them one after the other, so that their numbers follow their order.
    pub(crate) async fn enrol(server: &str, enrolment: &str, count: u32, learns: Learns) -> Self {
        Self::enrol_at(&[server.to_owned()], enrolment, count, learns).await
    }

    /// The same at several coordinators, in turn.
    pub(crate) async fn enrol_at(servers: &[String], enrolment: &str, count: u32, learns: Learns) -> Self {
        Self::enrolled(servers, enrolment, count, learns, |builder| builder.clock(Arc::new(JumpingClock::default())))
            .await
    }

    /// Those that connect to each other. Their time is the machine's: a neighbour that is asked for too fast is not
    /// there yet.
    pub(crate) async fn listening(server: &str, enrolment: &str, count: u32) -> Self {
        let listens = |builder: Builder| builder.listen("127.0.0.1:0", None);
        Self::enrolled(&[server.to_owned()], enrolment, count, Learns::Drawn, listens).await
    }

    async fn enrolled(
        servers: &[String],
        enrolment: &str,
        count: u32,
        learns: Learns,
        made: impl Fn(Builder) -> Builder,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut clients = Vec::new();
        for (number, server) in (0..count).zip(servers.iter().cycle()) {
            let builder = Client::builder(server, enrolment).state_dir(directory.path().join(number.to_string()));
            let client = made(builder).build().unwrap();
            client.enrol().await.unwrap();
            clients.push(client);
        }
        Self { clients, learns, _directory: directory }
    }

    /// Runs session after session of every client until `ended`.
    pub(crate) async fn run_until(self, ended: impl Future<Output = ()>) -> Record {
        let trained = Arc::new(Mutex::new(BTreeMap::new()));
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let mut sessions = JoinSet::new();
        for (client, number) in self.clients.into_iter().zip(0..) {
            let acknowledged = Arc::clone(&acknowledged);
            let mut trainer = Draws { client: number, learns: self.learns, trained: Arc::clone(&trained) };
            sessions.spawn(async move {
                loop {
                    match client.run_once(&mut trainer, &AlwaysOn).await {
                        Ok(Outcome::Contributed { round, .. }) => acknowledged.lock().unwrap().push((number, round)),
                        Ok(Outcome::NothingToDo { .. }) | Err(ClientError::Unreachable(_)) => {}
                        // The job completes while others are still at work.
                        Ok(Outcome::TooLate { .. }) if trainer.learns == Learns::OwnWeight => {}
                        // A buffer closed while the coordinator was down: the next one is not open yet.
                        Err(ClientError::Refused(problem)) if problem.kind == ProblemType::Unavailable => {}
                        other => panic!("client {number}: {other:?}"),
                    }
                }
            });
        }
        tokio::select! {
            () = ended => {}
            Some(Err(failed)) = sessions.join_next() => std::panic::resume_unwind(failed.into_panic()),
        }
        sessions.shutdown().await;
        let trained = trained.lock().unwrap().clone();
        let mut acknowledged = acknowledged.lock().unwrap().clone();
        acknowledged.sort_unstable();
        (trained, acknowledged)
    }
}

/// What a client adds to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learns {
    /// Numbers drawn from the seed of its work.
    Drawn,
    /// [`OWN_STEP`] to the weight with its own number.
    OwnWeight,
}

/// What a client adds to its own weight.
pub(crate) const OWN_STEP: f32 = 0.5;

/// "Trains" without examples.
struct Draws {
    client: u32,
    learns: Learns,
    trained: Arc<Mutex<BTreeMap<(u32, u64), u32>>>,
}

impl Trainer for Draws {
    fn examples(&self) -> u64 {
        10 + u64::from(self.client)
    }

    fn follows(&self, _: &Algorithm) -> bool {
        true
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        *self.trained.lock().unwrap().entry((self.client, task.seed.0)).or_default() += 1;
        let mut stream = task.seed.stream();
        let mut values = task.model.values().to_vec();
        match self.learns {
            Learns::Drawn => values.iter_mut().for_each(|value| *value += stream.uniform(-1.0, 1.0)),
            Learns::OwnWeight => values[self.client as usize] += OWN_STEP,
        }
        for (value, constant) in values.iter_mut().zip(task.constant.unwrap_or_default()) {
            *value -= 0.1 * constant;
        }
        Ok(Trained::new(values, self.examples(), 1, 0.5))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

/// A clock that ends every wait at once.
#[derive(Debug, Default)]
pub(crate) struct JumpingClock {
    now_ms: AtomicU64,
}

impl Clock for JumpingClock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            self.now_ms.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
            tokio::task::yield_now().await;
        })
    }
}
