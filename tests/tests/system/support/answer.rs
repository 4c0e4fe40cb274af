//! An answer of the coordinator, and what tests ask of it.

use axum::body::Bytes;
use axum::http::HeaderMap;
use reqwest::RequestBuilder;
use serde_json::Value;
use tributary_protocol::problem::{CONTENT_TYPE, Problem, ProblemType};

use super::recorder;

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// Sends a request and takes its answer, whatever it is.
    pub(crate) async fn to(request: RequestBuilder) -> Self {
        let (client, request) = request.build_split();
        let request = request.unwrap();
        let asked = recorder::asked(&request);
        let response = client.execute(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.unwrap();
        if let Some(asked) = asked {
            asked.answered(status, &body);
        }
        Self { status, headers, body }
    }

    /// The JSON of a success.
    pub(crate) fn ok<T: serde::de::DeserializeOwned>(&self) -> T {
        assert!((200..300).contains(&self.status), "status {}: {}", self.status, self.text());
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The problem document of a refusal of this type; everything about it must be right.
    #[track_caller]
    pub(crate) fn refused(&self, kind: ProblemType) -> Problem {
        assert_eq!(self.status, kind.status(), "{}", self.text());
        assert_eq!(self.header("content-type"), CONTENT_TYPE, "{}", self.text());
        let problem: Problem = serde_json::from_slice(&self.body).unwrap();
        assert_eq!((problem.kind, problem.status), (kind, self.status), "{}", problem.detail);
        assert_eq!(problem.title, kind.title());
        assert!(!problem.detail.is_empty(), "a problem says what went wrong");
        problem
    }

    /// A header's text; empty when it is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The JSON as it is.
    pub(crate) fn value(&self) -> Value {
        self.ok()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
