//! Notifications of a certificate that ends soon.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use serde_json::Value;

use super::process::{ANSWER_MAX, Serving};

/// Takes one notification, and hands its body on.
fn webhook() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, taken) = mpsc::channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let mut bytes = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                bytes = length.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; bytes];
        reader.read_exact(&mut body).unwrap();
        (&stream).write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        sender.send(serde_json::from_slice(&body).unwrap()).unwrap();
    });
    (url, taken)
}

#[test]
fn the_end_of_a_certificate_is_notified() {
    let directory = tempfile::tempdir().unwrap();
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = parameters.self_signed(&key).unwrap();
    std::fs::write(directory.path().join("cert.pem"), made.pem()).unwrap();
    std::fs::write(directory.path().join("key.pem"), key.serialize_pem()).unwrap();
    let (url, taken) = webhook();
    let arguments =
        ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--notify-secret", "5ecret", "--notify-url", &url];
    let _serving = Serving::start(directory.path(), &arguments, None);
    let body = taken.recv_timeout(ANSWER_MAX).unwrap();
    assert_eq!(body["kind"], "certificate_ends");
    assert!(body["text"].as_str().unwrap().starts_with("the TLS certificate of the coordinator ends in"), "{body}");
}
