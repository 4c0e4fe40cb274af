//! SDK clients of a masked job, over a transport that records their exchanges and makes some members give up.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tributary_client::transport::{Request, Response, TransportError};
use tributary_client::{
    AlwaysOn, Client, ClientError, EvaluateTask, Evaluated, HttpTransport, Outcome, TrainError, TrainTask, Trained,
    Trainer, Transport,
};
use tributary_protocol::problem::{Problem, ProblemType};

use super::exchanges::{Exchanges, call_of};
use crate::killed::fleet::{JumpingClock, OWN_STEP};

/// The calls before which a member gives up, in turn: in every fourth round nobody does.
const LEAVES_BEFORE: [Option<&str>; 4] = [Some("group/update"), None, Some("group/shares"), Some("group/survivors")];

/// Enrolled clients.
pub(super) struct Fleet {
    clients: Vec<Client>,
    _folder: TempDir,
}

impl Fleet {
    /// Enrols a client with each server, one after the other, so that their numbers follow their order.
    pub(super) async fn enrol(servers: &[String], token: &str, record: &Arc<Exchanges>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut clients = Vec::new();
        for (number, server) in servers.iter().enumerate() {
            let transport = Recorder {
                http: HttpTransport::with_defaults().unwrap(),
                record: Arc::clone(record),
                leaver: Leaver { number, clients: servers.len(), exchanges: Mutex::default() },
            };
            let builder = Client::builder(server, token).state_dir(folder.path().join(number.to_string()));
            let builder = builder.transport(Arc::new(transport)).clock(Arc::new(JumpingClock::default()));
            let client = builder.build().unwrap();
            client.enrol().await.unwrap();
            clients.push(client);
        }
        Self { clients, _folder: folder }
    }

    /// Runs session after session of every client until `ended`.
    pub(super) async fn run_until(self, ended: impl Future<Output = ()>) {
        let mut sessions = JoinSet::new();
        for (number, client) in self.clients.into_iter().enumerate() {
            sessions.spawn(async move {
                loop {
                    match client.run_once(&mut AddsOwn(number), &AlwaysOn).await {
                        Ok(Outcome::Contributed { .. } | Outcome::NothingToDo { .. } | Outcome::TooLate { .. }) => {}
                        Err(ClientError::Unreachable(_)) => {}
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
    }
}

/// "Trains" by adding [`OWN_STEP`] to the weight with its own number.
struct AddsOwn(usize);

impl Trainer for AddsOwn {
    fn examples(&self) -> u64 {
        10
    }

    fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let mut values = task.model.values().to_vec();
        values[self.0] += OWN_STEP;
        Ok(Trained::new(values, self.examples(), 1, 0.5))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

/// HTTP with a record of the exchanges.
#[derive(Debug)]
struct Recorder {
    http: HttpTransport,
    record: Arc<Exchanges>,
    leaver: Leaver,
}

/// In which of its exchanges a client gives up: at most one client of a round does.
#[derive(Debug)]
struct Leaver {
    number: usize,
    clients: usize,
    exchanges: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The assignments, in the order in which they came.
    assignments: Vec<String>,
    /// Those that the client has given up.
    left: BTreeSet<String>,
}

impl Leaver {
    fn leaves(&self, assignment: &str, call: &str) -> bool {
        let mut exchanges = self.exchanges.lock().unwrap();
        if !exchanges.assignments.iter().any(|known| known == assignment) {
            exchanges.assignments.push(assignment.to_owned());
        }
        let place = exchanges.assignments.iter().position(|known| known == assignment).unwrap();
        let is_turn = place % self.clients == self.number && LEAVES_BEFORE[place % LEAVES_BEFORE.len()] == Some(call);
        is_turn && !exchanges.left.contains(assignment)
    }

    fn has_left(&self, assignment: &str) -> bool {
        self.exchanges.lock().unwrap().left.contains(assignment)
    }

    fn left(&self, assignment: &str) {
        self.exchanges.lock().unwrap().left.insert(assignment.to_owned());
    }
}

impl Recorder {
    /// Sends a request; the answer has come whole.
    async fn answer(&self, request: Request) -> Result<(Response, Bytes), TransportError> {
        let mut response = self.http.send(request).await?;
        let body = std::mem::replace(&mut response.body, stream::empty().boxed());
        let pieces: Vec<Bytes> = body.try_collect().await?;
        Ok((response, pieces.concat().into()))
    }

    /// Gives the assignment of a request up.
    async fn give_up(&self, request: &Request, assignment: &str) -> Result<(), TransportError> {
        let (server, _) = request.url.split_once("/device/v1/").unwrap();
        let url = format!("{server}/device/v1/assignments/{assignment}/failure");
        let mut headers = request.headers.clone();
        headers.insert(reqwest::header::CONTENT_TYPE, reqwest::header::HeaderValue::from_static("application/json"));
        let body = Bytes::from_static(br#"{"reason":"interrupted"}"#);
        let (response, _) = self.answer(Request { method: Method::POST, url, headers, body }).await?;
        if response.status.is_server_error() {
            return Err(TransportError::Failed(format!("status {}", response.status)));
        }
        self.leaver.left(assignment);
        Ok(())
    }
}

/// What the coordinator answers to a client that has given up.
fn closed() -> Response {
    let problem = Problem::new(ProblemType::AssignmentClosed, "the client gave up");
    let body = Bytes::from(serde_json::to_vec(&problem).unwrap());
    let body = stream::once(async { Ok(body) }).boxed();
    Response { status: StatusCode::GONE, headers: HeaderMap::new(), body }
}

impl Transport for Recorder {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let url = request.url.clone();
            let Some((assignment, call)) = call_of(&url) else { return self.http.send(request).await };
            if self.leaver.leaves(assignment, call) {
                self.give_up(&request, assignment).await?;
            }
            if self.leaver.has_left(assignment) {
                return Ok(closed());
            }
            self.record.sent(&request.method, &url, &request.body);
            let (response, body) = self.answer(request).await?;
            self.record.told(&url, response.status, &body);
            Ok(Response { body: stream::once(async { Ok(body) }).boxed(), ..response })
        })
    }
}
