//! A coordinator of an earlier release: it answers what was recorded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use reqwest::header::{HeaderName, HeaderValue};
use tributary_client::Transport;
use tributary_client::transport::{Request, Response, TransportError};
use tributary_protocol::id::{Secret, SecretKind};

use super::exchange::{Exchange, Recorded, Step};
use super::stories::Story;

const SERVER: &str = "http://127.0.0.1:1";

/// Answers in the recorded order.
#[derive(Debug)]
struct Script {
    name: String,
    exchanges: Mutex<VecDeque<Exchange>>,
}

/// Plays a session of this SDK with the recorded answers, and says how it ended.
pub(super) async fn play(name: &str, story: Story, recorded: &Recorded) -> &'static str {
    let exchanges = recorded.steps.iter().filter_map(|step| match step {
        Step::Exchange(exchange) => Some(Exchange::clone(exchange)),
        Step::PassMs(_) => None,
    });
    let script = Arc::new(Script { name: name.to_owned(), exchanges: Mutex::new(exchanges.collect()) });
    let token = Secret::from_random(SecretKind::Enrolment, [1; 32]).expose();
    let outcome = story.session(SERVER, &token, Arc::clone(&script) as Arc<_>).await;
    let left = script.exchanges.lock().unwrap();
    assert!(left.is_empty(), "{name}: not asked for: {left:?}");
    outcome
}

impl Transport for Script {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let next = self.exchanges.lock().unwrap().pop_front();
            let asked = format!("{} {}", request.method, request.url.strip_prefix(SERVER).unwrap());
            let Some(exchange) = next else { panic!("{}: nothing follows, and not {asked}", self.name) };
            let call = |text: &str| text.split('?').next().unwrap().to_owned();
            assert_eq!(call(&asked), call(&exchange.call), "{}", self.name);
            let headers = exchange
                .answer_headers
                .iter()
                .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()));
            Ok(Response {
                status: exchange.status.try_into().unwrap(),
                headers: headers.collect(),
                body: stream::iter([Ok(Bytes::from(exchange.answer.bytes()))]).boxed(),
            })
        })
    }
}
