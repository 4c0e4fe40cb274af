//! Requests that the coordinator sends: to an identity provider, and to webhooks of the operator.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Url, redirect};

/// A client for requests to the host of this URL. `timeout` is for all of a request, to the last byte of its answer.
/// `build` finishes it.
pub(crate) fn client(url: &str, timeout: Duration) -> ClientBuilder {
    tributary_tls::install();
    let client = Client::builder()
        .user_agent(concat!("tributary/", env!("CARGO_PKG_VERSION")))
        .timeout(timeout)
        // A redirect could lead to addresses that only this machine reaches.
        .redirect(redirect::Policy::none());
    if is_loopback(url) { client.no_proxy() } else { client }
}

/// Whether a URL leads to this machine itself.
pub(crate) fn is_loopback(url: &str) -> bool {
    let host = url.parse::<Url>().ok().and_then(|url| Some(url.host_str()?.to_owned()));
    host.is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for own in ["http://127.0.0.1:7/x", "http://[::1]/", "http://localhost:80"] {
            assert!(is_loopback(own), "{own}");
        }
        for other in [
            "http://id.example.org",
            "http://127.0.0.1.example.org",
            "http://127.example.org",
            "nonsense",
            "http://10.0.0.1",
        ] {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
