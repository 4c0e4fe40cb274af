//! A gate between a client's process and the coordinator: it records exchanges, kills the client at seeded requests,
//! and starts it again with the same state folder.

use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tributary_client::Client;
use tributary_protocol::seed::Stream;

use super::exchanges::{Exchanges, call_of};
use crate::support::process;

/// Most requests of an exchange between two kills of a client. An exchange takes five; after a kill it begins again.
const GAP_MAX: u64 = 5;
/// Longest body: a masked update of few values.
const BODY_BYTES_MAX: usize = 1 << 20;

/// When a client is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Its request does not arrive.
    Before,
    /// Its request arrives, and it does not live to see the answer: the answer may be held for long.
    Meanwhile,
    /// Its request was handled, and the answer is lost.
    Handled,
    /// The answer is on its way: the client may have taken it, and stored what follows.
    Answered,
}

/// A client behind its gate. Killed when dropped.
pub(super) struct Gate {
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    coordinator: String,
    http: reqwest::Client,
    record: Arc<Exchanges>,
    arguments: Vec<String>,
    folder: PathBuf,
    plan: Mutex<Plan>,
    /// `None` between two processes, and after the last one.
    client: tokio::sync::Mutex<Option<Child>>,
}

/// The moments of the kills.
struct Plan {
    stream: Stream,
    requests_left: u64,
    kills_left: u32,
    kills: u32,
}

/// What a client's process is started with.
pub(super) struct Start {
    /// URL of the coordinator.
    pub(super) coordinator: String,
    pub(super) token: String,
    /// Where it runs: with its state and its examples.
    pub(super) folder: PathBuf,
    /// The table with its examples.
    pub(super) table: String,
}

impl Gate {
    /// Starts a client, which is killed so often, at moments that the stream draws.
    pub(super) async fn start(start: Start, record: &Arc<Exchanges>, (stream, kills): (Stream, u32)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let arguments = ["--json", "--server", &url, "--token", &start.token, "client", "run", "--state-dir", "state"];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
        arguments.extend(["--csv".to_owned(), start.table]);
        tributary_tls::install();
        let mut plan = Plan { stream, requests_left: 0, kills_left: kills, kills: 0 };
        plan.requests_left = plan.stream.below(GAP_MAX);
        let shared = Arc::new(Shared {
            coordinator: start.coordinator,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            record: Arc::clone(record),
            arguments,
            folder: start.folder,
            plan: Mutex::new(plan),
            client: tokio::sync::Mutex::new(None),
        });
        let routes = Router::new().fallback(hand_on).with_state(Arc::clone(&shared));
        let accepting = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        // Here, so that the numbers of clients follow the order in which they are started.
        let enrolling = Client::builder(url, start.token).state_dir(shared.folder.join("state")).build().unwrap();
        enrolling.enrol().await.unwrap();
        drop(enrolling);
        *shared.client.lock().await = Some(shared.spawn());
        Self { shared, accepting }
    }

    pub(super) fn kills(&self) -> u32 {
        self.shared.plan().kills
    }

    /// Kills the client for good.
    pub(super) async fn stop(self) {
        process::kill(self.shared.client.lock().await.take());
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.accepting.abort();
        if let Ok(mut client) = self.shared.client.try_lock() {
            process::kill(client.take());
        }
    }
}

impl Shared {
    fn plan(&self) -> std::sync::MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self) -> Child {
        process::client(&self.arguments, &self.folder)
    }

    /// Kills the client and starts it again. A separate task, because the end of the connection would cancel the one
    /// that asks for it.
    fn restart(self: &Arc<Self>) -> JoinHandle<()> {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let mut client = shared.client.lock().await;
            if let Some(running) = client.take() {
                process::kill(Some(running));
                *client = Some(shared.spawn());
            }
        })
    }

    /// Counts a request of an exchange; says when the client is killed, if it is.
    fn moment(&self) -> Option<Moment> {
        let mut plan = self.plan();
        if plan.kills_left == 0 {
            return None;
        }
        if plan.requests_left > 0 {
            plan.requests_left -= 1;
            return None;
        }
        plan.kills_left -= 1;
        plan.kills += 1;
        plan.requests_left = plan.stream.below(GAP_MAX);
        let moments = [Moment::Before, Moment::Meanwhile, Moment::Handled, Moment::Answered];
        Some(moments[plan.stream.below(4) as usize])
    }

    async fn answer(&self, parts: &axum::http::request::Parts, body: Bytes) -> (StatusCode, Response) {
        let url = format!("{}{}", self.coordinator, parts.uri);
        let mut request = self.http.request(parts.method.clone(), url).body(body);
        for (name, value) in parts.headers.iter().filter(|(name, _)| *name != "host" && *name != "content-length") {
            request = request.header(name, value);
        }
        // The coordinator lives as long as the test.
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = answer.bytes().await.unwrap();
        if parts.method != axum::http::Method::HEAD {
            self.record.told(parts.uri.path(), status, &body);
        }
        let mut response = (status, Body::from(body)).into_response();
        for name in ["content-type", "retry-after", "upload-offset", "upload-complete", "repr-digest"] {
            if let Some(value) = headers.get(name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        (status, response)
    }
}

/// Nobody reads it: its client is dead.
fn nothing() -> Response {
    StatusCode::BAD_GATEWAY.into_response()
}

async fn hand_on(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else { return nothing() };
    let moment = call_of(parts.uri.path()).and_then(|_| shared.moment());
    shared.record.sent(&parts.method, parts.uri.path(), &body);
    match moment {
        Some(Moment::Before) => {
            let _ = shared.restart().await;
            nothing()
        }
        Some(Moment::Meanwhile) => {
            let asking = Arc::clone(&shared);
            let answered = tokio::spawn(async move { asking.answer(&parts, body).await });
            let _ = shared.restart().await;
            // As when a server notices that a connection is gone.
            answered.abort();
            nothing()
        }
        Some(Moment::Handled) => {
            let asking = Arc::clone(&shared);
            // The client's end would cancel this task.
            let handled = tokio::spawn(async move {
                let _ = asking.answer(&parts, body).await;
                let _ = asking.restart().await;
            });
            let _ = handled.await;
            nothing()
        }
        Some(Moment::Answered) => {
            let (_, response) = shared.answer(&parts, body).await;
            drop(shared.restart());
            response
        }
        None => shared.answer(&parts, body).await.1,
    }
}
