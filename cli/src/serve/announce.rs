//! The first output of `tributary serve`: where it serves, and the commands that come next.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
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
    /// The absolute path of the file, or the URL without user and password.
    database: String,
    tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_token: Option<Secret>,
    /// Opens the dashboard signed in: the token is in the fragment, which browsers do not send.
    #[serde(skip_serializing_if = "Option::is_none")]
    dashboard_url: Option<String>,
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
    /// `database` as the settings name it.
    pub(super) fn new(coordinator: &Coordinator, address: SocketAddr, database: &str) -> Self {
        let tls = coordinator.tls().is_some();
        let scheme = if tls { "https" } else { "http" };
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
        let operator_token = coordinator.first_operator_token().cloned();
        let page = ca.as_ref().map_or_else(|| format!("{scheme}://{}", local(address)), |ca| ca.operator_url.clone());
        Self {
            event: "serving",
            url: format!("{scheme}://{address}/"),
            node: coordinator.node().clone(),
            database: place(database),
            tls,
            dashboard_url: operator_token.as_ref().map(|token| format!("{page}/#token={}", token.expose())),
            operator_token,
            ca,
            first_clients,
        }
    }

    pub(super) fn text(&self) -> String {
        let tls = if self.tls { "with TLS" } else { "without TLS" };
        let mut text = format!("serving at {} as {}, {tls}\ndatabase {}", self.url, self.node, self.database);
        if let Some(Ca { ca_file, ca_sha256, .. }) = &self.ca {
            text += &format!("\nthe CA is {}, SHA-256 {ca_sha256}", ca_file.display());
        }
        if let Some(token) = &self.operator_token {
            text += &format!(
                "\n\nThis is the first start. The operator token, which is not shown again:\n\n  {}",
                token.expose()
            );
            if let Some(link) = &self.dashboard_url {
                text += &format!("\n\nThe dashboard, signed in with it:\n\n  {link}");
            }
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

/// An address of this machine under which a browser on it finds the listener.
fn local(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

/// Where a database is: the whole path of a file, or a URL without secrets.
fn place(database: &str) -> String {
    if let Ok(mut url) = database.parse::<reqwest::Url>()
        && database.contains("://")
        && !database.starts_with("sqlite:")
    {
        // Both fail only for URLs that cannot have a user, which have no password either.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        url.set_query(None);
        return url.to_string();
    }
    let path = database.strip_prefix("sqlite://").or_else(|| database.strip_prefix("sqlite:")).unwrap_or(database);
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
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
    fn a_database_is_named_whole_and_without_its_password() {
        let url = place("postgres://ada:5ecret@db.example.org:5432/fl?password=5ecret");
        assert_eq!(url, "postgres://db.example.org:5432/fl");
        let here = std::path::absolute("tributary.db").unwrap().display().to_string();
        for given in ["tributary.db", "sqlite:tributary.db", "sqlite://tributary.db"] {
            assert_eq!(place(given), here);
        }
    }

    #[test]
    fn a_browser_on_this_machine_reaches_a_listener_of_all_addresses() {
        let local = |text: &str| local(text.parse().unwrap()).to_string();
        assert_eq!(local("0.0.0.0:7300"), "127.0.0.1:7300");
        assert_eq!(local("[::]:7300"), "[::1]:7300");
        assert_eq!(local("10.0.0.7:7300"), "10.0.0.7:7300");
    }

    #[test]
    fn an_ipv6_address_has_brackets() {
        assert_eq!(url("::1", 7300), "https://[::1]:7300");
        assert_eq!(url("fl.example.org", 443), "https://fl.example.org:443");
    }
}
