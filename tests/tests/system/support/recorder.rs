//! Records exchanges while tests run: `scripts/examples` chooses those that the OpenAPI document shows.

use std::fs::OpenOptions;
use std::io::Write as _;

use serde_json::{Value, json};

/// Names the file to which exchanges are added, one to a line.
const FILE: &str = "TRIBUTARY_RECORD_EXCHANGES";

/// A request that is about to be sent.
pub(super) struct Asked {
    method: String,
    path: String,
    body: Value,
}

/// What is recorded of a request; none where nothing is recorded.
pub(super) fn asked(request: &reqwest::Request) -> Option<Asked> {
    std::env::var_os(FILE)?;
    let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
    let body = serde_json::from_slice(body).unwrap_or_default();
    Some(Asked { method: request.method().to_string(), path: request.url().path().to_owned(), body })
}

impl Asked {
    /// Adds the exchange, if it succeeded.
    pub(super) fn answered(self, status: u16, answer: &[u8]) {
        let (Some(file), true) = (std::env::var_os(FILE), (200..300).contains(&status)) else { return };
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let Self { method, path, body } = self;
        let line = json!({ "method": method, "path": path, "request": body, "answer": answer });
        let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
        // In one piece: tests run at the same time.
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}
