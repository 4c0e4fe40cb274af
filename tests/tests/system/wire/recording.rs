//! A way to the coordinator that writes down what passes.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use tributary_client::transport::{Request, Response, TransportError};
use tributary_client::{HttpTransport, Transport};

use super::exchange::{Bearer, Content, Exchange, Recorded, Step, answer_headers, request_headers};
use crate::support::World;

#[derive(Debug)]
pub(super) struct Recorder {
    way: HttpTransport,
    server: String,
    enrolment: String,
    steps: Mutex<Vec<Step>>,
}

impl Recorder {
    pub(super) fn before(world: &World) -> Arc<Self> {
        let (server, enrolment) = (world.server(), world.enrolment.clone());
        Arc::new(Self { way: HttpTransport::new(world.http.clone()), server, enrolment, steps: Mutex::default() })
    }

    pub(super) fn recorded(&self) -> Recorded {
        Recorded { steps: self.steps.lock().unwrap().clone() }
    }

    /// The clock of the coordinator goes on.
    pub(super) async fn pass_ms(&self, world: &World, by_ms: i64) {
        world.pass_ms(by_ms).await;
        self.steps.lock().unwrap().push(Step::PassMs(by_ms));
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
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let call = format!("{} {}", request.method, request.url.strip_prefix(&self.server).unwrap());
            let (bearer, headers) = (self.bearer(&request), request_headers(&request.headers));
            let content = Content::of(&request.body);
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
            };
            self.steps.lock().unwrap().push(Step::Exchange(Box::new(exchange)));
            let body = stream::iter([Ok(axum::body::Bytes::from(body))]).boxed();
            Ok(Response { status, headers: told, body })
        })
    }
}
