//! HTTP clients with time limits and TLS, and bodies of limited size.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Response, Url, redirect};
use tributary_client::transport::TransportError;
use tributary_client::{HttpTransport, Trust, TrustError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence within an answer. Long polls wait less.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Why an HTTP client cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientSetupError {
    #[error("{}", causes(.0))]
    Http(#[from] reqwest::Error),
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// A client for one server that trusts the system's CAs. Calls with a token must not follow redirects, which could send
/// the token elsewhere. Fails when TLS cannot be set up, for example without readable root certificates.
pub(crate) fn client(server: &Url, redirects: redirect::Policy) -> Result<Client, ClientSetupError> {
    client_trusting(server, redirects, &Trust::System)
}

/// The same with other CAs.
pub(crate) fn client_trusting(
    server: &Url,
    redirects: redirect::Policy,
    trust: &Trust,
) -> Result<Client, ClientSetupError> {
    tributary_tls::install();
    let mut builder = limited(Client::builder(), server).redirect(redirects);
    if let Some(config) = trust.client_config()? {
        builder = builder.tls_backend_preconfigured(config);
    }
    Ok(builder.build()?)
}

/// The way of a client of the device API to its coordinator, which can present a certificate.
pub(crate) fn transport(server: &Url, trust: &Trust) -> Result<HttpTransport, TransportError> {
    let server = server.clone();
    HttpTransport::with_settings(trust, move |builder| limited(builder, &server))
}

/// With our time limits.
fn limited(builder: ClientBuilder, server: &Url) -> ClientBuilder {
    let builder = builder
        .user_agent(concat!("tributary/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT);
    // HTTP_PROXY is meant for servers outside this machine.
    if is_loopback(server) { builder.no_proxy() } else { builder }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("{}", causes(.0))]
    Connection(#[from] reqwest::Error),
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

/// Reads a body of at most `bytes_max` bytes. Of a longer body no more than that is held in memory.
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

/// The two innermost causes. reqwest's own message says only that a request failed.
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
