//! A coordinator of an earlier release: it answers what was recorded.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use reqwest::header::{HeaderName, HeaderValue};
use tributary_client::Transport;
use tributary_client::transport::{Request, Response, TransportError};
use tributary_protocol::digest::REPR_DIGEST;
use tributary_protocol::id::{Secret, SecretKind};

use super::exchange::{Exchange, Recorded, Step};
use super::stories::Story;

const SERVER: &str = "http://127.0.0.1:1";

/// Answers in the recorded order.
#[derive(Debug)]
struct Script {
    name: String,
    exchanges: Mutex<VecDeque<Exchange>>,
    /// The digest of each recorded update, with that of the update which was announced now.
    digests: Mutex<Vec<[String; 2]>>,
}

/// Plays a session of this SDK with the recorded answers, and says how it ended.
pub(super) async fn play(name: &str, story: Story, recorded: &Recorded) -> &'static str {
    let exchanges = recorded.steps.iter().filter_map(|step| match step {
        Step::Exchange(exchange) => Some(Exchange::clone(exchange)),
        Step::PassMs(_) | Step::Release(_) => None,
    });
    let exchanges = Mutex::new(exchanges.collect());
    let script = Arc::new(Script { name: name.to_owned(), exchanges, digests: Mutex::default() });
    let token = Secret::from_random(SecretKind::Enrolment, [1; 32]).expose();
    let outcome = story.session(SERVER, &token, Arc::clone(&script) as Arc<_>, None).await;
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
            let mut digests = self.digests.lock().unwrap();
            if let (Some(before), Some(now)) = (exchange.headers.get(REPR_DIGEST), request.headers.get(REPR_DIGEST)) {
                digests.push([before.clone(), now.to_str().unwrap().to_owned()]);
            }
            if exchange.broke {
                return Err(TransportError::Failed("the connection broke".into()));
            }
            let headers = exchange.answer_headers.iter().map(|(name, value)| {
                let announced = digests.iter().find(|[before, _]| before == value);
                let value = announced.map_or(value, |[_, now]| now);
                (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
            });
            Ok(Response {
                status: exchange.status.try_into().unwrap(),
                headers: headers.collect(),
                body: stream::iter([Ok(Bytes::from(exchange.answer.bytes()))]).boxed(),
            })
        })
    }
}
