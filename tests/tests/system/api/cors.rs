//! Pages of other origins: they may use the device API where the operator names them, and nothing else.

use reqwest::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use reqwest::{Method, Response, StatusCode};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tributary_server::{Config, Coordinator};

use crate::support::World;

const APP: &str = "https://app.example.org";

/// A header in lower case; empty without it.
fn told(response: &Response, name: &reqwest::header::HeaderName) -> String {
    response.headers().get(name).map(|value| value.to_str().unwrap().to_ascii_lowercase()).unwrap_or_default()
}

#[tokio::test]
async fn named_origins_may_use_the_device_api_and_nothing_else_is_allowed() {
    let world = World::start_on_sqlite().await;
    let folder = TempDir::new().unwrap();
    let database = folder.path().join("tributary.db").display().to_string().into();
    let cors_origins = vec![APP.parse().unwrap(), "http://localhost:5173".parse().unwrap()];
    let coordinator = Coordinator::open(&Config { database, cors_origins, ..Config::default() }).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let router = coordinator.router();
    let served = tokio::spawn(async move { axum::serve(listener, router).await });
    let ask = async |method: Method, path: &str, origin: &str| {
        let request = world.http.request(method, format!("{server}{path}")).header(ORIGIN, origin);
        let request = request.header(ACCESS_CONTROL_REQUEST_METHOD, "PATCH");
        let request = request.header(ACCESS_CONTROL_REQUEST_HEADERS, "authorization,repr-digest,upload-offset");
        request.send().await.unwrap()
    };
    let update = format!("/device/v1/assignments/assignment_{}/update", "0".repeat(32));

    let preflight = ask(Method::OPTIONS, &update, APP).await;
    assert_eq!(preflight.status(), StatusCode::OK);
    assert_eq!(told(&preflight, &ACCESS_CONTROL_ALLOW_ORIGIN), APP);
    assert!(told(&preflight, &ACCESS_CONTROL_ALLOW_METHODS).contains("patch"));
    let headers = told(&preflight, &ACCESS_CONTROL_ALLOW_HEADERS);
    for name in
        ["authorization", "content-type", "range", "if-range", "repr-digest", "upload-offset", "upload-complete"]
    {
        assert!(headers.split(',').any(|allowed| allowed.trim() == name), "{name}: {headers}");
    }
    assert_eq!(told(&preflight, &ACCESS_CONTROL_ALLOW_CREDENTIALS), "");

    // A refusal can be read as well, with what the SDK reads of an answer.
    let refused = ask(Method::HEAD, &update, "http://localhost:5173").await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(told(&refused, &ACCESS_CONTROL_ALLOW_ORIGIN), "http://localhost:5173");
    assert!(told(&refused, &VARY).contains("origin"));
    let exposed = told(&refused, &ACCESS_CONTROL_EXPOSE_HEADERS);
    for name in ["upload-offset", "upload-complete", "repr-digest", "etag", "content-range", "tributary-ask-after-ms"] {
        assert!(exposed.split(',').any(|known| known.trim() == name), "{name}: {exposed}");
    }

    for (path, origin) in [
        (&*update, "https://app.example.org.evil.example"),
        (&*update, "http://app.example.org"),
        (&*update, "null"),
        ("/operator/v1/jobs", APP),
        ("/operator/v1/login", APP),
    ] {
        for method in [Method::OPTIONS, Method::GET] {
            let answer = ask(method.clone(), path, origin).await;
            assert_eq!(told(&answer, &ACCESS_CONTROL_ALLOW_ORIGIN), "", "{method} {path} from {origin}");
        }
    }
    served.abort();
}
