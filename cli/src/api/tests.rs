//! The calls against small servers: coordinators, gateways, and servers that are neither.

use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::routing::{get, post};
use axum::{Json, Router};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tributary_protocol::id::SecretKind;
use tributary_protocol::problem::ProblemType;

use super::*;
use crate::error::Failure;
use crate::testing::{refuse, serve};

fn some_job() -> JobId {
    JobId::from_random([9; 16])
}

#[tokio::test]
async fn a_call_carries_the_token_and_keeps_the_path_of_the_site() {
    let echo = |request: Request| async move {
        let token = request.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
        Json(Page { items: Vec::<Job>::new(), next: Some(format!("{} {token}", request.uri())) })
    };
    let server = serve(Router::new().route("/fl/operator/v1/jobs", get(echo))).await;
    let token = Secret::from_random(SecretKind::Operator, [1; 32]);
    let api = Api::new(server.join("/fl/").unwrap(), Some(token.clone())).unwrap();
    let population = "demo".parse().unwrap();
    let page = PageQuery { limit: Some(5), after: Some("a&b".into()) };
    let echoed = api.jobs(Some(&population), page).await.unwrap().next.unwrap();
    let uri = "/fl/operator/v1/jobs?limit=5&after=a%26b&population=demo";
    assert_eq!(echoed, format!("{uri} Bearer {}", token.expose()));
}

#[tokio::test]
async fn a_problem_document_becomes_a_typed_error() {
    let routes = Router::new().route("/operator/v1/jobs/{id}/stop", post(async || refuse(ProblemType::WrongState)));
    let api = Api::new(serve(routes).await, None).unwrap();
    let Err(ApiError::Problem(problem)) = api.change_job(some_job(), JobChange::Stop).await else {
        panic!("must be a problem");
    };
    assert_eq!(*problem, Problem::new(ProblemType::WrongState, "by the test"));
}

#[tokio::test]
async fn answers_of_something_else_are_told_apart_from_no_answer() {
    let page = "<html>not a coordinator</html>";
    let routes = Router::new()
        .route("/other/operator/v1/jobs", get(async move || page))
        .route("/gateway/operator/v1/jobs", get(async move || (StatusCode::BAD_GATEWAY, page)));
    let server = serve(routes).await;
    let ask = async |server: Url| Api::new(server, None).unwrap().jobs(None, PageQuery::default()).await.unwrap_err();
    for (path, is_unreachable) in [("/other", false), ("/missing", false), ("/gateway", true)] {
        let error = ask(server.join(path).unwrap()).await;
        assert_eq!(matches!(error, ApiError::Unreachable { .. }), is_unreachable, "{path}: {error}");
    }
    // A port that was free a moment ago.
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let error = ask(closed.parse().unwrap()).await.to_string();
    assert!(error.contains(&closed) && error.to_lowercase().contains("refused"), "{error}");
}

#[tokio::test]
async fn plain_http_to_a_port_with_tls_is_said_at_the_first_failure() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let alerting = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; 5]).await.unwrap();
        // A fatal alert of TLS: protocol_version.
        stream.write_all(&[21, 3, 3, 0, 2, 2, 70]).await.unwrap();
    });
    let error = Api::new(server, None).unwrap().jobs(None, PageQuery::default()).await.unwrap_err();
    alerting.await.unwrap();
    let hint = error.hint().unwrap();
    assert!(hint.contains("expects TLS: try https://"), "{error}: {hint}");
    assert!(!error.is_temporary(), "commands that follow a job do not try again");
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_token() {
    let routes = Router::new().fallback(async || (StatusCode::TEMPORARY_REDIRECT, [("location", "/elsewhere")]));
    let api = Api::new(serve(routes).await, Some(Secret::from_random(SecretKind::Operator, [1; 32]))).unwrap();
    let error = api.job(some_job()).await.unwrap_err();
    assert!(matches!(error, ApiError::BadAnswer { .. }), "{error}");
}
