//! A server that is not the coordinator cannot write control characters to the terminal.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use tributary_protocol::id::{Secret, SecretKind};
use tributary_protocol::text::is_visible;

/// What clears the screen, sets the title of the window and writes to the clipboard, in C0 and C1.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;mine\u{7}\u{9b}2J\r\nerror: none";

/// A server that refuses every request with that.
fn hostile_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let problem = serde_json::json!({
        "type": "urn:tributary:problem:forbidden", "title": HOSTILE, "status": 403, "detail": HOSTILE,
    });
    let body = problem.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 8192];
            let _ = stream.read(&mut request);
            let _ = write!(
                stream,
                "HTTP/1.1 403 x\r\nconnection: close\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}

#[test]
fn a_refusal_of_a_hostile_server_does_not_act_on_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "x,y\n1,0\n2,1\n").unwrap();
    let server = hostile_server();
    let secret = |kind| Secret::from_random(kind, [1; 32]).expose();
    let operator = ["job", "list", "--token", &secret(SecretKind::Operator)].map(str::to_owned);
    let client = ["client", "run", "--csv", "a.csv", "--state-dir", "state", "--token", &secret(SecretKind::Enrolment)];
    for arguments in [operator.to_vec(), client.map(str::to_owned).to_vec()] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(&arguments).args(["--server", &server]).current_dir(folder.path()).env_clear();
        let output = command.stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains("mine"), "{arguments:?}: {error:?}");
        assert!(error.lines().all(|line| line.chars().all(is_visible)), "{arguments:?}: {error:?}");
        assert!(!error.lines().any(|line| line == "error: none"), "{arguments:?}: {error:?}");
    }
}
