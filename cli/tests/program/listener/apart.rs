//! Devices and operators on addresses of their own.

use std::net::SocketAddr;

use super::process::{Serving, answer_of};

/// The address of the operators' listener.
pub(super) fn operators(serving: &Serving) -> SocketAddr {
    let url = serving.event["operators_url"].as_str().unwrap();
    url.split_once("://").unwrap().1.trim_end_matches('/').parse().unwrap()
}

#[test]
fn the_address_of_devices_has_the_device_api_and_health_alone() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::start(directory.path(), &["--listen-operators", "127.0.0.1:0", "--join"], None);
    let (devices, operators) = (serving.address(), operators(&serving));
    let token = serving.event["operator_token"].as_str().unwrap();
    let status = |address, path: &str| {
        let answer = answer_of(address, "GET", path, &[("authorization", &format!("Bearer {token}"))], "");
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    for (path, at_devices, at_operators) in [
        ("/healthz", "200", "200"),
        ("/readyz", "200", "200"),
        ("/device/v1/jobs", "403", "404"),
        ("/join", "308", "404"),
        ("/operator/v1/me", "404", "200"),
        ("/operator/v1/login", "404", "200"),
        ("/metrics", "404", "200"),
        ("/openapi.json", "404", "200"),
        ("/docs", "404", "200"),
        ("/", "404", "200"),
    ] {
        assert_eq!((&*status(devices, path), &*status(operators, path)), (at_devices, at_operators), "{path}");
    }
    let refused = answer_of(devices, "GET", "/operator/v1/me", &[], "");
    assert!(refused.contains("the operator API and the dashboard have another address"), "{refused}");
    let page = serving.event["dashboard_url"].as_str().unwrap();
    assert!(page.starts_with(&format!("http://{operators}/#token=")), "{page}");

    // The page tells clients the address of the devices.
    let headers = [("authorization", &*format!("Bearer {token}")), ("content-type", "application/json")];
    let made = answer_of(operators, "POST", "/operator/v1/populations", &headers, r#"{"name":"shop"}"#);
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let body = r#"{"kind":"enrolment","population":"shop"}"#;
    let made = answer_of(operators, "POST", "/operator/v1/tokens", &headers, body);
    assert!(made.contains(&format!("\"server\":\"http://{devices}\"")), "{made}");
}

#[test]
fn both_addresses_have_the_same_tls() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::start(directory.path(), &["--listen-operators", "127.0.0.1:0", "--tls-dev"], None);
    let member = |name: &str| serving.event[name].as_str().unwrap_or_else(|| panic!("{name}: {}", serving.event));
    assert_eq!(member("operator_url"), member("operators_url").trim_end_matches('/'));
    assert!(member("client_command").contains(&format!("--server https://{}", serving.address())));
    let operator = format!("export TRIBUTARY_TOKEN={} TRIBUTARY_CA={}", member("operator_token"), member("ca_file"));
    let list = |server: &str| {
        let line = format!("{operator} TRIBUTARY_SERVER={server}; tributary population list");
        super::shell(directory.path(), &line)
    };
    assert!(super::succeeds(&list(member("operators_url"))).contains("default"));
    let refused = list(member("url"));
    assert_eq!(refused.status.code(), Some(3), "{}", String::from_utf8_lossy(&refused.stderr));
}
