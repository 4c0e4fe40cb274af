//! sslyze, a scanner of TLS servers, finds nothing weak in the listener.

use std::process::Command;

use reqwest::{Method, Version};
use serde_json::Value;

use super::{Listening, http};
use crate::support::{Answer, output, python, within_reason};

/// The suites with forward secrecy and authenticated encryption, as a certificate with an ECDSA key has them.
const SUITES_12: [&str; 3] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
];
const SUITES_13: [&str; 3] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
const CURVES: [&str; 3] = ["X25519", "secp256r1", "secp384r1"];

/// Sorted strings at a path below each item of a list.
fn names(list: &Value, path: &str) -> Vec<String> {
    let mut names: Vec<_> =
        list.as_array().unwrap().iter().map(|item| item.pointer(path).unwrap().as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scanner_finds_nothing_weak() {
    let Some(python) = python("sslyze") else { return };
    let listening = Listening::start().await;
    let report = listening.directory.path().join("report.json");
    let mut command = Command::new(python);
    // Besides what Mozilla's recommendation "intermediate" is about. Nothing here leaves the loopback address.
    command.args(["-m", "sslyze", "--mozilla_config", "intermediate", "--early_data"]);
    command.arg("--certinfo_ca_file").arg(&listening.ca.file).arg("--json_out").arg(&report);
    command.arg(listening.address.to_string()).current_dir(listening.directory.path());
    let output = within_reason(output(command)).await;
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("OK - Compliant"), "{told}");

    let report: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let server = &report["server_scan_results"][0];
    assert_eq!(server["scan_status"], "COMPLETED", "{told}");
    let found = |scan: &str| {
        let scan = &server["scan_result"][scan];
        assert_eq!(scan["status"], "COMPLETED", "{scan}");
        scan["result"].clone()
    };
    for old in ["ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1"] {
        let version = found(&format!("{old}_cipher_suites"));
        assert_eq!(
            (&version["is_tls_version_supported"], &version["accepted_cipher_suites"]),
            (&false.into(), &Value::Array(vec![])),
            "{old}"
        );
    }
    for (version, suites) in [("tls_1_2", SUITES_12), ("tls_1_3", SUITES_13)] {
        let accepted = &found(&format!("{version}_cipher_suites"))["accepted_cipher_suites"];
        assert_eq!(names(accepted, "/cipher_suite/name"), suites, "{version}");
    }
    assert_eq!(names(&found("elliptic_curves")["supported_curves"], "/name"), CURVES);
    for (scan, finding, expected) in [
        ("tls_compression", "supports_compression", false),
        ("tls_1_3_early_data", "supports_early_data", false),
        ("openssl_ccs_injection", "is_vulnerable_to_ccs_injection", false),
        ("heartbleed", "is_vulnerable_to_heartbleed", false),
        ("session_renegotiation", "is_vulnerable_to_client_renegotiation_dos", false),
        ("session_renegotiation", "supports_secure_renegotiation", true),
        ("tls_fallback_scsv", "supports_fallback_scsv", true),
        ("tls_extended_master_secret", "supports_ems_extension", true),
    ] {
        assert_eq!(found(scan)[finding], expected, "{finding}");
    }
    assert_eq!(found("robot")["robot_result"], "NOT_VULNERABLE_RSA_NOT_SUPPORTED");

    let deployments = found("certificate_info")["certificate_deployments"].clone();
    let [deployment] = deployments.as_array().unwrap().as_slice() else { panic!("{deployments}") };
    let chain = names(&deployment["received_certificate_chain"], "/subject/rfc4514_string");
    assert!(
        chain.len() == 2 && chain[1] == "CN=Tributary coordinator" && chain[0].starts_with("CN=Tributary CA "),
        "{chain:?}"
    );
    assert_eq!(deployment["received_chain_has_valid_order"], true);
    assert_eq!(deployment["verified_chain_has_sha1_signature"], false);
    assert_eq!(names(&deployment["received_certificate_chain"], "/signature_hash_algorithm/name"), ["sha256"; 2]);
    listening.stop().await;
}

#[tokio::test]
async fn the_client_chooses_between_http2_and_http1() {
    let listening = Listening::start().await;
    let offers: [(&[&[u8]], Version); 3] =
        [(&[b"h2", b"http/1.1"], Version::HTTP_2), (&[b"http/1.1"], Version::HTTP_11), (&[], Version::HTTP_11)];
    for (offered, expected) in offers {
        let request =
            http(listening.ca.fingerprint, offered).request(Method::GET, format!("{}/healthz", listening.url()));
        let response = request.send().await.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, expected), "{offered:?}");
    }
    assert_eq!(Answer::to(listening.operate(Method::GET, "/jobs")).await.status, 200);
    listening.stop().await;
}
