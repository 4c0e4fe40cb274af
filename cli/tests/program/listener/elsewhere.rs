//! A coordinator and a client on two hosts: two network namespaces with a line between them.
//!
//! Namespaces need root and iproute2. `scripts/test` tries to make one, and sets `TRIBUTARY_TEST_NAMESPACES` if it can.
//! Otherwise it says at its end that this was not tested.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{JOB, succeeds};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary");

/// Two namespaces; deleted when dropped, and their interfaces with them.
struct Hosts {
    coordinator: String,
    client: String,
}

impl Hosts {
    fn new() -> Self {
        let name = |host: &str| format!("tributary-{}-{host}", std::process::id());
        let hosts = Self { coordinator: name("coordinator"), client: name("client") };
        let Self { coordinator, client } = &hosts;
        ip(&format!("netns add {coordinator}"));
        ip(&format!("netns add {client}"));
        for host in [coordinator, client] {
            ip(&format!("-n {host} link set lo up"));
        }
        ip(&format!("-n {coordinator} link add outside type veth peer name outside netns {client}"));
        // Like a bridge of containers: its address is the smallest, and no other host reaches it.
        ip(&format!("-n {coordinator} link add inside type veth peer name containers"));
        ip(&format!("-n {coordinator} address add 10.0.0.1/24 dev inside"));
        ip(&format!("-n {coordinator} link set containers up"));
        ip(&format!("-n {coordinator} link set inside up"));
        for (host, address) in [(coordinator, "198.51.100.1/24"), (client, "198.51.100.2/24")] {
            ip(&format!("-n {host} address add {address} dev outside"));
            ip(&format!("-n {host} link set outside up"));
        }
        ip(&format!("-n {coordinator} route add default via 198.51.100.2"));
        hosts
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in [&self.coordinator, &self.client] {
            let _ = Command::new("ip").args(["netns", "delete", host]).output();
        }
    }
}

#[track_caller]
fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A line of the shell on this host, in which `tributary` is the program under test.
fn shell(host: &str, directory: &Path, line: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", host, "sh", "-c", &format!("tributary() {{ \"$0\" \"$@\"; }}; {line}"), PROGRAM]);
    command.current_dir(directory).env_clear();
    command
}

/// A coordinator; killed when dropped.
struct Serving(Child);

impl Serving {
    /// Starts it, and returns its output up to its last line.
    fn start(host: &str, directory: &Path) -> (Self, String) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", host, PROGRAM, "serve", "--tls-dev", "--listen", "0.0.0.0:7300"]);
        command.args(["--log", "error"]).current_dir(directory).env_clear().stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut output, mut text) = (BufReader::new(child.stdout.take().unwrap()), String::new());
        while !text.contains("--tls-name") {
            assert!(output.read_line(&mut text).unwrap() > 0, "it did not start: {text}");
        }
        (Self(child), text)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The only line of a text that begins like this.
fn line<'t>(text: &'t str, begin: &str) -> &'t str {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| line.starts_with(begin)).collect();
    let [line] = lines[..] else { panic!("{begin}: {text}") };
    line
}

/// Goal: what a newcomer does with two machines works. Method: the lines that `serve` prints, word for word.
#[test]
fn the_printed_line_makes_a_client_on_another_host() {
    if std::env::var_os("TRIBUTARY_TEST_NAMESPACES").is_none() {
        eprintln!("not tried: TRIBUTARY_TEST_NAMESPACES is not set, which scripts/test does where namespaces work");
        return;
    }
    let directories = ["coordinator", "client"].map(|_| tempfile::tempdir().unwrap());
    let [here, there] = directories.each_ref().map(tempfile::TempDir::path);
    let hosts = Hosts::new();
    let (_serving, text) = Serving::start(&hosts.coordinator, here);
    assert!(
        text.starts_with("serving at https://127.0.0.1:7300/, for other machines at https://198.51.100.1:7300/,"),
        "{text}"
    );
    assert!(text.contains("also for 10.0.0.1"), "{text}");

    std::fs::write(here.join("circle.toml"), JOB).unwrap();
    let operator = line(&text, "export TRIBUTARY_SERVER=");
    let create = format!("{operator}; tributary job create circle.toml");
    succeeds(&shell(&hosts.coordinator, here, &create).output().unwrap());

    let client = line(&text, "TRIBUTARY_TOKEN=");
    assert!(client.contains("--server https://198.51.100.1:7300 "), "{client}");
    std::fs::write(there.join("examples.csv"), "x,y,inside\n0.1,0.2,1\n0.9,0.8,0\n").unwrap();
    let trained = succeeds(&shell(&hosts.client, there, &format!("{client} --once")).output().unwrap());
    assert!(trained.contains("contributed to round 1"), "{trained}");
}
