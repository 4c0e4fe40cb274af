//! The listener of `tributary serve`: who may connect, and how.

mod apart;
mod elsewhere;
mod ends;
mod memory;
pub(crate) mod process;
mod proxied;

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};

use process::Serving;

/// Finding H4: a thousand silent connections, and nobody else was served.
#[test]
fn eleven_hundred_silent_connections_at_a_limit_of_1024_files_keep_nobody_out() {
    tributary_server::net::raise_open_files();
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::start(directory.path(), &[], Some(1024));
    let silent: Vec<TcpStream> = (0..1100).map(|_| TcpStream::connect(serving.address()).unwrap()).collect();
    for _ in 0..3 {
        let answer = serving.get("/healthz");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let metrics = serving.get("/metrics");
    let dropped = "tributary_connections_dropped_total{reason=\"displaced\"} ";
    let displaced: u32 = metrics.lines().find_map(|line| line.strip_prefix(dropped)).unwrap().parse().unwrap();
    // 768 of 1,024 files are for connections.
    assert!((332..400).contains(&displaced), "{displaced}");
    drop(silent);
}

/// A process that sends nothing else over TLS: the webhook alone has to set it up.
#[test]
fn a_coordinator_whose_only_requests_are_notifications_starts() {
    let directory = tempfile::tempdir().unwrap();
    let webhook = ["--notify-url", "https://127.0.0.1:9/hook", "--notify-secret", "0123456789abcdef0123456789abcdef"];
    let serving = Serving::start(directory.path(), &webhook, None);
    let answer = serving.get("/healthz");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Goal: a second coordinator on a SQLite file is refused with the process that has it, and a killed one blocks nobody.
#[test]
fn a_second_serve_on_a_database_file_is_refused_and_a_killed_one_does_not_block_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let first = Serving::start(directory.path(), &[], None);
    let second = "tributary serve --listen 127.0.0.1:0 --log error";
    let refused = shell(directory.path(), second);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{error}");
    let holder = format!("is served by another coordinator: process {} at {}", first.id(), first.address());
    assert!(error.contains("tributary.db") && error.contains(&holder) && error.contains("--database"), "{error}");
    assert!(first.get("/healthz").starts_with("HTTP/1.1 200"), "the first one serves on");
    let other = Serving::start(directory.path(), &["--database", "other.db"], None);
    assert!(other.get("/healthz").starts_with("HTTP/1.1 200"), "another file is another database");
    // SIGKILL: it says goodbye to nobody.
    drop(first);
    let next = Serving::start(directory.path(), &[], None);
    assert!(next.get("/healthz").starts_with("HTTP/1.1 200"));
}

const JOB: &str = "
name = 'circle'
population = 'default'
model = { input = [2], layers = [{ kind = 'linear', out_features = 2 }] }
training = { epochs = 1, optimizer = { kind = 'sgd', learning_rate = 0.1 } }
round = { updates_goal = 1, updates_min = 1, over_selection = 1.0 }
stop = { rounds = 1 }
";

/// Runs a line of the shell in which `tributary` is the program under test.
fn shell(directory: &Path, line: &str) -> Output {
    let line = format!("tributary() {{ \"$0\" \"$@\"; }}; {line}");
    let mut command = Command::new("sh");
    command.args(["-c", &line, env!("CARGO_BIN_EXE_tributary")]).current_dir(directory).env_clear();
    command.output().unwrap()
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Goal: after `serve --tls-dev`, one line of its output makes a client that trains over TLS, and who cannot verify the
/// coordinator sends it nothing.
#[test]
fn two_commands_make_an_encrypted_federation() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::start(directory.path(), &["--tls-dev"], None);
    let member = |name: &str| serving.event[name].as_str().unwrap_or_else(|| panic!("{name}: {}", serving.event));
    assert!(member("url").starts_with("https://127.0.0.1:"));
    assert_eq!(Path::new(member("ca_file")), directory.path().canonicalize().unwrap().join("tributary-tls/ca.pem"));

    std::fs::write(directory.path().join("circle.toml"), JOB).unwrap();
    std::fs::write(directory.path().join("examples.csv"), "x,y,inside\n0.1,0.2,1\n0.9,0.8,0\n").unwrap();
    let (server, token) = (member("operator_url"), member("operator_token"));
    let operator = format!("export TRIBUTARY_SERVER={server} TRIBUTARY_TOKEN={token}");
    let create = "tributary job create circle.toml";
    succeeds(&shell(directory.path(), &format!("{operator} TRIBUTARY_CA={}; {create}", member("ca_file"))));
    let without_ca = shell(directory.path(), &format!("{operator}; {create}"));
    assert_eq!(without_ca.status.code(), Some(5), "{}", String::from_utf8_lossy(&without_ca.stderr));

    let command = format!("{} --once", member("client_command"));
    let fingerprint = member("ca_sha256");
    let other = fingerprint.replace(|digit: char| digit.is_ascii_digit(), "f");
    // At the same time, because a client tries several times.
    std::thread::scope(|scope| {
        let wrong = [command.replace(&format!("_ca_{fingerprint}"), ""), command.replace(fingerprint, &other)];
        for (wrong, folder) in wrong.into_iter().zip(["unpinned", "pinned"]) {
            let directory = directory.path();
            scope.spawn(move || {
                let refused = shell(directory, &wrong.replace("--state-dir client", &format!("--state-dir {folder}")));
                let error = String::from_utf8_lossy(&refused.stderr).into_owned();
                assert!(refused.status.code() == Some(5) && error.contains("certificate"), "{wrong}: {error}");
            });
        }
    });
    let trained = succeeds(&shell(directory.path(), &command));
    assert!(trained.contains("contributed to round 1"), "{trained}");
}

#[test]
fn with_client_certificates_the_commands_stay_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::start(directory.path(), &["--tls-dev", "--client-auth", "certificate"], None);
    let member = |name: &str| serving.event[name].as_str().unwrap_or_else(|| panic!("{name}: {}", serving.event));
    std::fs::write(directory.path().join("circle.toml"), JOB).unwrap();
    std::fs::write(directory.path().join("examples.csv"), "x,y,inside\n0.1,0.2,1\n0.9,0.8,0\n").unwrap();
    let (server, token, ca) = (member("operator_url"), member("operator_token"), member("ca_file"));
    let operator = format!("export TRIBUTARY_SERVER={server} TRIBUTARY_TOKEN={token} TRIBUTARY_CA={ca}");
    succeeds(&shell(directory.path(), &format!("{operator}; tributary job create circle.toml")));
    let trained = succeeds(&shell(directory.path(), &format!("{} --once", member("client_command"))));
    assert!(trained.contains("contributed to round 1"), "{trained}");
    assert!(directory.path().join("client/device.key").exists());
}
