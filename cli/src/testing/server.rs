//! Small HTTP servers.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use reqwest::Url;
use tributary_protocol::problem::{self, Problem, ProblemType};

/// Serves on a free port until the test ends.
pub(crate) async fn serve(routes: Router) -> Url {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    format!("http://{address}").parse().unwrap()
}

/// A problem document.
pub(crate) fn refuse(kind: ProblemType) -> Response {
    let status = StatusCode::from_u16(kind.status()).unwrap();
    (status, [(CONTENT_TYPE, problem::CONTENT_TYPE)], Json(Problem::new(kind, "by the test"))).into_response()
}
