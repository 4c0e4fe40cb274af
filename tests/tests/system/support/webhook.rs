//! A webhook that takes notifications, whose signatures must be right.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use ring::hmac;
use serde_json::Value;
use tokio::net::TcpListener;
use tributary_server::notify::{Format, NotifySettings, Webhook as Receiver};

const SECRET: &str = "5ecret";

/// Takes notifications, or answers what it is told to.
#[derive(Default)]
pub(crate) struct Webhook {
    pub(crate) answers: Mutex<VecDeque<StatusCode>>,
    pub(crate) taken: Mutex<Vec<(Value, String)>>,
}

impl Webhook {
    pub(crate) async fn start() -> (Arc<Self>, NotifySettings) {
        let (webhook, listener) = (Arc::<Self>::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let url = format!("http://{}/hook", listener.local_addr().unwrap()).parse().unwrap();
        let routes = Router::new().route("/hook", post(take)).with_state(Arc::clone(&webhook));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let everything = Some(Receiver { url, format: Format::Json });
        (webhook, NotifySettings { everything, populations: BTreeMap::new(), secret: SECRET.into(), abandoned: 3 })
    }

    pub(crate) fn kinds(&self) -> Vec<String> {
        self.taken.lock().unwrap().iter().map(|(body, _)| body["kind"].as_str().unwrap().to_owned()).collect()
    }
}

async fn take(State(webhook): State<Arc<Webhook>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let signature = headers["tributary-signature"].to_str().unwrap().to_owned();
    let (seconds, hex) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signed = [seconds.as_bytes(), b".", &body].concat();
    let tag: Vec<u8> = (0..32).map(|byte| u8::from_str_radix(&hex[byte * 2..byte * 2 + 2], 16).unwrap()).collect();
    hmac::verify(&key, &signed, &tag).expect("the signature covers time and body");
    let answer = webhook.answers.lock().unwrap().pop_front().unwrap_or(StatusCode::NO_CONTENT);
    if answer.is_success() {
        webhook.taken.lock().unwrap().push((serde_json::from_slice(&body).unwrap(), seconds.to_owned()));
    }
    answer
}
