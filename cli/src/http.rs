//! HTTP clients with our time limits and TLS, and answers that cannot fill the memory.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Client, Response, Url, redirect};

/// Time to reach a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence in the middle of an answer. Long polls wait less.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A client for this server. Redirects are followed only where they are expected: a token must not travel elsewhere.
///
/// # Errors
/// When TLS cannot be set up, for example because no root certificates can be read.
pub(crate) fn client(server: &Url, redirects: redirect::Policy) -> Result<Client, reqwest::Error> {
    // The provider is process-wide: a second installation fails, and the first one stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("tributary/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .redirect(redirects);
    if is_loopback(server) {
        // HTTP_PROXY is meant for the world outside.
        builder = builder.no_proxy();
    }
    builder.build()
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// The connection failed.
    #[error("{}", causes(.0))]
    Connection(#[from] reqwest::Error),
    /// More bytes than the caller wanted.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

/// Reads a whole body of at most `bytes_max` bytes; a longer one is given up without being held.
///
/// # Errors
/// [`BodyError`] for a lost connection or a body that is too long.
pub(crate) async fn read_body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > bytes_max {
            return Err(BodyError::TooLong(bytes_max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What really happened, which reqwest hides behind several layers of causes: the innermost two of them.
pub(crate) fn causes(error: &reqwest::Error) -> String {
    let first = std::error::Error::source(error);
    let causes: Vec<String> = std::iter::successors(first, |cause| cause.source()).map(ToString::to_string).collect();
    match &causes[..] {
        [] => error.to_string(),
        [.., outer, inner] if !outer.contains(inner) && !outer.starts_with("client error") => {
            format!("{outer}: {inner}")
        }
        [.., inner] => inner.clone(),
    }
}

fn is_loopback(server: &Url) -> bool {
    server.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for (url, expected) in [
            ("http://127.0.0.1:7300", true),
            ("http://[::1]:7300", true),
            ("http://localhost", true),
            ("https://fl.example.org", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&url.parse().unwrap()), expected, "{url}");
        }
    }
}
