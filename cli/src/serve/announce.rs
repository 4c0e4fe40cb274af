//! The first output of `tributary serve`: where it serves, and the commands that come next.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Name, PinnedSecret, Secret};
use tributary_server::Coordinator;
use tributary_server::net::Tls;

/// The first line of the output. Programs rely on the names of its members.
#[derive(Serialize)]
pub(super) struct Serving {
    event: &'static str,
    url: String,
    node: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_token: Option<Secret>,
    #[serde(flatten)]
    ca: Option<Ca>,
    #[serde(flatten)]
    first_clients: Option<FirstClients>,
}

/// A private CA.
#[derive(Serialize)]
struct Ca {
    ca_file: PathBuf,
    ca_sha256: Sha256Hash,
    /// For commands on this machine.
    operator_url: String,
    /// For clients on other machines.
    client_url: String,
}

/// What a start with a private CA creates for the first clients.
#[derive(Serialize)]
struct FirstClients {
    population: Name,
    enrolment_token: PinnedSecret,
    client_command: String,
}

impl Serving {
    pub(super) fn new(coordinator: &Coordinator, address: SocketAddr) -> Self {
        let scheme = if coordinator.tls().is_some() { "https" } else { "http" };
        let ca = coordinator.tls().and_then(|tls| ca(tls, address));
        let first_clients = ca.as_ref().zip(coordinator.first_clients()).map(|(ca, first)| FirstClients {
            population: first.population.clone(),
            client_command: format!(
                "tributary client run --server {} --token {} --state-dir client --csv examples.csv",
                ca.client_url,
                first.token.expose()
            ),
            enrolment_token: first.token.clone(),
        });
        Self {
            event: "serving",
            url: format!("{scheme}://{address}/"),
            node: coordinator.node().clone(),
            operator_token: coordinator.first_operator_token().cloned(),
            ca,
            first_clients,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("serving at {} as {}", self.url, self.node);
        if let Some(Ca { ca_file, ca_sha256, .. }) = &self.ca {
            text += &format!("\nthe CA is {}, SHA-256 {ca_sha256}", ca_file.display());
        }
        if let Some(token) = &self.operator_token {
            text += &format!(
                "\n\nThis is the first start. The operator token, which is not shown again:\n\n  {}",
                token.expose()
            );
            if self.ca.is_none() {
                text += "\n\nnext: export TRIBUTARY_TOKEN=.. and `tributary population create NAME`";
            }
        }
        if let Some(ca) = &self.ca {
            let token = self.operator_token.as_ref().map_or("..".into(), Secret::expose);
            text += &format!(
                "\n\nCommands on this machine need:\n\n  \
                 export TRIBUTARY_SERVER={} TRIBUTARY_CA={} TRIBUTARY_TOKEN={token}",
                ca.operator_url,
                quoted(&ca.ca_file)
            );
        }
        if let Some(first) = &self.first_clients {
            text += &format!(
                "\n\nThere was no population, so this start created {:?} and an enrolment token for it. A client with the \
                 examples of a table, on any machine that reaches this one:\n\n  {}",
                first.population.as_str(),
                first.client_command
            );
        }
        text
    }
}

fn ca(tls: &Tls, listening: SocketAddr) -> Option<Ca> {
    let pinned = tls.ca()?;
    let names = tls.names();
    let is_named = |host: &String| names.is_empty() || names.contains(host);
    let listened = listening.ip().to_string();
    // Names are sorted by how well other machines know them.
    let elsewhere = if listening.ip().is_unspecified() { names.first().cloned() } else { None };
    let elsewhere = elsewhere.or_else(|| Some(listened).filter(is_named)).or_else(|| names.first().cloned());
    let client_url = url(&elsewhere.unwrap_or_else(|| "localhost".into()), listening.port());
    let here = Some("127.0.0.1".to_owned()).filter(|here| listening.ip().is_unspecified() && names.contains(here));
    Some(Ca {
        ca_file: std::path::absolute(&pinned.file).unwrap_or_else(|_| pinned.file.clone()),
        ca_sha256: pinned.fingerprint,
        operator_url: here.map_or_else(|| client_url.clone(), |here| url(&here, listening.port())),
        client_url,
    })
}

fn url(host: &str, port: u16) -> String {
    if host.contains(':') { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") }
}

/// As a word of the shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
    if is_plain { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_the_shell() {
        assert_eq!(quoted(Path::new("/var/lib/ca.pem")), "/var/lib/ca.pem");
        assert_eq!(quoted(Path::new("/my data/it's")), "'/my data/it'\\''s'");
    }

    #[test]
    fn an_ipv6_address_has_brackets() {
        assert_eq!(url("::1", 7300), "https://[::1]:7300");
        assert_eq!(url("fl.example.org", 443), "https://fl.example.org:443");
    }
}
