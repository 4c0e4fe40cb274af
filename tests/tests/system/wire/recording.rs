//! A way to the coordinator that writes down what passes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::header::HeaderValue;
use tributary_client::transport::{Request, Response, TransportError};
use tributary_client::{HttpTransport, Transport};
use tributary_protocol::device::UPLOAD_COMPLETE;

use super::exchange::{Bearer, Content, Exchange, Recorded, Step, answer_headers, request_headers};
use super::stories::release;
use crate::support::World;

#[derive(Debug)]
pub(super) struct Recorder {
    way: HttpTransport,
    server: String,
    enrolment: String,
    /// Whether the next update breaks off in its middle.
    breaks: AtomicBool,
    steps: Mutex<Vec<Step>>,
}

impl Recorder {
    pub(super) fn before(world: &World) -> Arc<Self> {
        let (server, enrolment) = (world.server(), world.enrolment.clone());
        let way = HttpTransport::new(world.http.clone());
        Arc::new(Self { way, server, enrolment, breaks: AtomicBool::new(false), steps: Mutex::default() })
    }

    pub(super) fn recorded(&self) -> Recorded {
        Recorded { steps: self.steps.lock().unwrap().clone() }
    }

    /// The clock of the coordinator goes on.
    pub(super) async fn pass_ms(&self, world: &World, by_ms: i64) {
        world.pass_ms(by_ms).await;
        self.steps.lock().unwrap().push(Step::PassMs(by_ms));
    }

    /// An operator releases a version.
    pub(super) async fn release(&self, world: &World, version: u32) {
        release(world, version).await;
        self.steps.lock().unwrap().push(Step::Release(version));
    }

    /// The connection of the next update breaks.
    pub(super) fn breaks_off(&self) {
        self.breaks.store(true, Ordering::SeqCst);
    }

    fn bearer(&self, request: &Request) -> Bearer {
        let secret = request.headers["authorization"].to_str().unwrap().trim_start_matches("Bearer ").to_owned();
        match secret {
            secret if secret == self.enrolment => Bearer::Enrolment,
            secret if secret == super::old_client::UNKNOWN => Bearer::Unknown,
            _ => Bearer::Client,
        }
    }
}

impl Transport for Recorder {
    fn send(&self, mut request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let call = format!("{} {}", request.method, request.url.strip_prefix(&self.server).unwrap());
            let (bearer, headers) = (self.bearer(&request), request_headers(&request.headers));
            let content = Content::of(&request.body);
            let broke = request.url.contains("/update?") && self.breaks.swap(false, Ordering::SeqCst);
            if broke {
                // What arrives of a connection that breaks: the coordinator keeps it as it keeps an announced part.
                request.body.truncate(request.body.len() / 2);
                request.headers.insert(UPLOAD_COMPLETE, HeaderValue::from_static("?0"));
            }
            let Response { status, headers: told, body } = self.way.send(request).await?;
            let pieces: Vec<axum::body::Bytes> = body.try_collect().await?;
            let body = pieces.concat();
            let exchange = Exchange {
                call,
                bearer,
                headers,
                request: content,
                status: status.as_u16(),
                answer_headers: answer_headers(&told),
                answer: Content::of(&body),
                broke,
            };
            self.steps.lock().unwrap().push(Step::Exchange(Box::new(exchange)));
            if broke {
                return Err(TransportError::Failed("the connection broke".into()));
            }
            let body = stream::iter([Ok(axum::body::Bytes::from(body))]).boxed();
            Ok(Response { status, headers: told, body })
        })
    }
}
