//! `tributary serve` as a separate process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest wait for an answer, so that a coordinator that answers nobody fails the test.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A coordinator; killed when dropped.
pub(crate) struct Serving {
    child: Child,
    /// The first line of its output.
    pub(crate) event: serde_json::Value,
}

impl Serving {
    /// Starts it in this directory, with these arguments. At most this many files may be open, if a limit is given.
    pub(crate) fn start(directory: &Path, arguments: &[&str], open_files: Option<u32>) -> Self {
        // The shell lowers the hard limit, which the program cannot raise.
        let limit = open_files.map(|files| format!("ulimit -n {files}; ")).unwrap_or_default();
        let mut child = Command::new("sh")
            .args(["-c", &format!("{limit}exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_tributary")])
            .args(["--json", "serve", "--listen", "127.0.0.1:0", "--log", "error"])
            .args(arguments)
            .current_dir(directory)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, event: serde_json::from_str(&line).expect("it did not start") }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let url = self.event["url"].as_str().unwrap();
        url.split_once("://").unwrap().1.trim_end_matches('/').parse().unwrap()
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The answer to a request without TLS.
    pub(crate) fn get(&self, path: &str) -> String {
        answer_of(self.address(), "GET", path, &[], "")
    }
}

/// The answer to a request without TLS.
pub(super) fn answer_of(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(ANSWER_MAX)).unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}");
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

impl Drop for Serving {
    /// SIGKILL.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
