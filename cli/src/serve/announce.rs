//! The first output of `tributary serve`: where it serves, and the commands that come next.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Name, PinnedSecret, Secret};
use tributary_server::net::Tls;
use tributary_server::{Config, Coordinator};

/// The first line of the output. Programs rely on the names of its members.
#[derive(Serialize)]
pub(super) struct Serving {
    event: &'static str,
    url: String,
    /// Where the operator API, the dashboard and the metrics are, if they have an address of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    operators_url: Option<String>,
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

/// Where the coordinator listens: for devices, and for operators.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) main: SocketAddr,
    /// The same unless operators have a listener of their own.
    pub(super) operators: SocketAddr,
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
    /// Further names and addresses in the certificate, under which other machines may reach this one. Only where it
    /// listens on all addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_names: Option<Vec<String>>,
}

/// What a start with a private CA creates for the first clients.
#[derive(Serialize)]
struct FirstClients {
    population: Name,
    enrolment_token: PinnedSecret,
    client_command: String,
}

impl Serving {
    pub(super) fn new(coordinator: &Coordinator, addresses: Addresses, config: &Config) -> Self {
        let Addresses { main: address, operators } = addresses;
        let tls = coordinator.tls().is_some();
        let scheme = if tls { "https" } else { "http" };
        let mut ca = coordinator.tls().and_then(|tls| ca(tls, address));
        if let (Some(ca), Some(apart)) = (&mut ca, coordinator.tls().and_then(|tls| self::ca(tls, operators))) {
            ca.operator_url = apart.operator_url;
        }
        let client_url = ca.as_ref().map_or_else(|| format!("{scheme}://{address}"), |ca| ca.client_url.clone());
        let client_url = config.clients_url.clone().unwrap_or(client_url);
        let first_clients = coordinator.first_clients().map(|first| FirstClients {
            population: first.population.clone(),
            client_command: format!(
                // Not on the command line: other users of a machine can see those.
                "TRIBUTARY_TOKEN={} tributary client run --server {client_url} --state-dir client --csv examples.csv",
                first.token.expose()
            ),
            enrolment_token: first.token.clone(),
        });
        let operator_token = coordinator.first_operator_token().cloned();
        let page = ca.as_ref().map_or_else(|| format!("{scheme}://{}", local(operators)), |ca| ca.operator_url.clone());
        Self {
            event: "serving",
            url: format!("{scheme}://{address}/"),
            operators_url: (operators != address).then(|| format!("{page}/")),
            node: coordinator.node().clone(),
            database: place(config.database.expose()),
            tls,
            dashboard_url: operator_token.as_ref().map(|token| format!("{page}/#token={}", token.expose())),
            operator_token,
            ca,
            first_clients,
        }
    }

    pub(super) fn text(&self) -> String {
        let at = match &self.ca {
            // 0.0.0.0 is no address that anybody could open.
            Some(ca) if ca.other_names.is_some() => {
                format!("{}/, for other machines at {}/,", ca.operator_url, ca.client_url)
            }
            _ => self.url.clone(),
        };
        let tls = if self.tls { "with TLS" } else { "without TLS" };
        let mut text = format!("serving at {at} as {}, {tls}\ndatabase {}", self.node, self.database);
        if let Some(operators) = &self.operators_url {
            text += &format!("\noperators at {operators}: dashboard, operator API and metrics");
        }
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
            if self.ca.is_none() && self.first_clients.is_none() {
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
            let other_names = self.ca.as_ref().and_then(|ca| ca.other_names.as_deref());
            text += &other_names.map_or_else(String::new, if_reached_otherwise);
        }
        text
    }
}

fn ca(tls: &Tls, listening: SocketAddr) -> Option<Ca> {
    let pinned = tls.ca()?;
    let names = tls.names();
    let is_everywhere = listening.ip().is_unspecified();
    let is_named = |host: &String| names.is_empty() || names.contains(host);
    let listened = Some(listening.ip().to_string()).filter(|host| !is_everywhere && is_named(host));
    // Names are sorted by how well other machines know them.
    let mut served = names.iter().filter(|name| is_served(name, listening.ip()) && !is_local(name)).cloned();
    let elsewhere = if is_everywhere { served.next() } else { listened }.or_else(|| names.first().cloned());
    let client_url = url(&elsewhere.unwrap_or_else(|| "localhost".into()), listening.port());
    let here = Some("127.0.0.1".to_owned()).filter(|here| listening.ip().is_unspecified() && names.contains(here));
    Some(Ca {
        ca_file: std::path::absolute(&pinned.file).unwrap_or_else(|_| pinned.file.clone()),
        ca_sha256: pinned.fingerprint,
        operator_url: here.map_or_else(|| client_url.clone(), |here| url(&here, listening.port())),
        client_url,
        other_names: is_everywhere.then(|| served.collect()),
    })
}

/// What to do if the printed address is not the one by which other machines reach this one.
fn if_reached_otherwise(other_names: &[String]) -> String {
    let others = match other_names {
        [] => String::new(),
        names => format!("The certificate is also for {}. ", names.join(", ")),
    };
    format!("\n\n{others}If clients reach this machine by another name or address, start it with --tls-name NAME.")
}

/// Whether a listener on all addresses of its family has this one. Names lead to either family.
fn is_served(name: &str, listening: IpAddr) -> bool {
    listening.is_ipv6() || name.parse::<IpAddr>().map_or(true, |address| address.is_ipv4())
}

fn is_local(name: &str) -> bool {
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
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
    fn a_listener_of_ipv4_is_not_named_by_an_address_of_ipv6() {
        let (four, six) = ("0.0.0.0".parse().unwrap(), "::".parse().unwrap());
        for (name, on_four) in [("10.0.0.1", true), ("fd00::2", false), ("fl.example.org", true)] {
            assert_eq!((is_served(name, four), is_served(name, six)), (on_four, true), "{name}");
        }
        assert!(["localhost", "127.0.0.1", "::1"].iter().all(|name| is_local(name)));
        assert!(!is_local("10.0.0.1") && !is_local("localhost.example.org"));
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
