//! A real S3 client against a server that speaks S3: moto, from Python's registry.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use reqwest::{Method, Url};
use tributary_server::blob::{OpenedStore, open_store};

use super::objects;
use super::places::{play, read_large_model};
use crate::support::{http, within_reason};

/// A server that ends with the test.
struct Moto {
    server: Child,
    url: Url,
}

impl Drop for Moto {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Moto {
    /// Starts a server on a free port; none, after saying why, where moto is not installed and may be missing.
    async fn start() -> Option<Self> {
        let moto = python_folder().join("moto_server");
        if !moto.is_file() {
            #[expect(clippy::disallowed_methods, reason = "CI says in the environment that nothing may be missing")]
            let must_be_there = std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!must_be_there, "{} is missing: scripts/test installs it", moto.display());
            eprintln!("skipped: {} is missing; scripts/test installs it", moto.display());
            return None;
        }
        loop {
            // Whoever takes the port in between makes the server end at once: then another one is tried.
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = Command::new(&moto);
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
            let server = command.spawn().unwrap();
            let mut moto = Self { server, url: Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap() };
            if within_reason(moto.serves()).await {
                return Some(moto);
            }
        }
    }

    /// Waits until it answers; false when it ended instead.
    async fn serves(&mut self) -> bool {
        let http = http();
        loop {
            if self.server.try_wait().unwrap().is_some() {
                return false;
            }
            if http.get(self.url.clone()).send().await.is_ok() {
                return true;
            }
            tokio::task::yield_now().await;
        }
    }

    /// A bucket of this name, below a prefix.
    async fn bucket(&self, name: &str) -> OpenedStore {
        let made = http().request(Method::PUT, self.url.join(name).unwrap()).send().await.unwrap();
        assert!(made.status().is_success(), "{}", made.status());
        let settings = [
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT", self.url.as_str().trim_end_matches('/')),
            ("AWS_ALLOW_HTTP", "true"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        open_store(&format!("s3://{name}/fleet/one"), settings).unwrap()
    }
}

/// Where `scripts/test` installs Python's programs.
fn python_folder() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "scripts/test says in the environment where its Python is")]
    match std::env::var("TRIBUTARY_TEST_PYTHON") {
        Ok(python) => PathBuf::from(python).parent().unwrap().to_owned(),
        Err(_) => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/test-python/bin")),
    }
}

#[tokio::test]
async fn rounds_and_large_models_over_s3_are_those_of_the_database() {
    let Some(moto) = Moto::start().await else { return };
    let store = moto.bucket("rounds").await;
    assert_eq!(play(Some(store.clone())).await, play(None).await);
    let objects = objects(&store).await;
    assert!(objects.iter().all(|object| object.location.as_ref().starts_with("fleet/one/")), "{objects:?}");
    read_large_model(Some(moto.bucket("large").await)).await;
}
