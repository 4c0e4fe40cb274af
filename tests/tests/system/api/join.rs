//! The page with which a browser becomes a client: only where the operator wants it.

use reqwest::StatusCode;
use reqwest::header::{CONTENT_SECURITY_POLICY, LOCATION};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tributary_server::{Config, Coordinator};

use crate::support::World;

#[tokio::test]
async fn the_page_for_browsers_is_there_only_if_the_operator_wants_it() {
    let world = World::start_on_sqlite().await;
    for join in [false, true] {
        let folder = TempDir::new().unwrap();
        let database = folder.path().join("tributary.db").display().to_string().into();
        let coordinator = Coordinator::open(&Config { database, join, ..Config::default() }).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let router = coordinator.router();
        let served = tokio::spawn(async move { axum::serve(listener, router).await });
        let get = |path: &str| world.http.get(format!("{server}/{path}")).send();

        let moved = get("join").await.unwrap();
        if join {
            // To the folder of the page's files; the fragment with the token stays in the browser.
            assert_eq!(moved.url().path(), "/join/", "{:?}", moved.headers().get(LOCATION));
        } else {
            assert_eq!(moved.status(), StatusCode::NOT_FOUND);
            for path in ["join/", "join/index.html", "join/tributary/worker.js"] {
                assert_eq!(get(path).await.unwrap().status(), StatusCode::NOT_FOUND, "{path}");
            }
        }
        // Files are there only if the build made them. In no case may the page load from elsewhere or run inline code.
        let page = get("join/").await.unwrap();
        if page.status() == StatusCode::OK {
            let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
            assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
        }
        let missing = get("join/tributary/nothing.js").await.unwrap();
        assert_eq!(missing.status(), StatusCode::NOT_FOUND);
        let reason = missing.text().await.unwrap();
        assert_eq!(reason.contains("without the client for browsers"), join, "{reason}");
        served.abort();
    }
}
