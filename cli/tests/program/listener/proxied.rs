//! A coordinator behind nginx, with the configuration of `deploy/nginx.conf`: cookies are Secure, limits are by the
//! address of the person, and devices reach the device API only.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use reqwest::{Certificate, Client, Response, StatusCode};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::apart::operators;
use super::process::{ANSWER_MAX, Serving};
use crate::support::is_ci;

const PASSWORD: &str = "correct horse battery staple";
const STARTS_MAX: u32 = 10;

/// nginx; ended when dropped.
struct Nginx {
    child: Child,
    devices: SocketAddr,
    operators: SocketAddr,
    ca: Certificate,
}

impl Nginx {
    /// Starts it before a coordinator. `None` where it is not installed, which fails under CI.
    async fn start(directory: &Path, serving: &Serving) -> Option<Self> {
        let Some(program) = program() else {
            assert!(!is_ci(), "nginx is not installed");
            eprintln!("not run: nginx is not installed");
            return None;
        };
        let (certificate, key) = certificate(directory);
        let ca = Certificate::from_pem(&std::fs::read(&certificate).unwrap()).unwrap();
        // Another process may take the ports before nginx does; then it ends, and tries others.
        for _ in 0..STARTS_MAX {
            let [devices, operators_at] = free_addresses();
            let site = site(serving, [devices, operators_at], [certificate.as_path(), key.as_path()]);
            let file = directory.join("nginx.conf");
            std::fs::write(&file, whole(directory, &site)).unwrap();
            let mut command = Command::new(&program);
            command.arg("-p").arg(directory).arg("-c").arg(&file).arg("-e").arg("stderr").stdin(Stdio::null());
            let mut nginx = Self { child: command.spawn().unwrap(), devices, operators: operators_at, ca: ca.clone() };
            if nginx.listens().await {
                return Some(nginx);
            }
        }
        panic!("nginx has ended {STARTS_MAX} times");
    }

    /// Returns when it takes connections; false when it has ended.
    async fn listens(&mut self) -> bool {
        let listening = async {
            while TcpStream::connect(self.operators).await.is_err() {
                if self.child.try_wait().unwrap().is_some() {
                    return false;
                }
                tokio::task::yield_now().await;
            }
            true
        };
        timeout(ANSWER_MAX, listening).await.expect("nginx does not listen")
    }

    /// A person or a device that connects from this address.
    fn caller(&self, last: u8) -> Client {
        tributary_tls::install();
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        let client = Client::builder().no_proxy().local_address(from).timeout(ANSWER_MAX);
        let client = client.tls_certs_only([self.ca.clone()]).resolve("fl.example.org", self.devices);
        client.resolve("operators.example.org", self.operators).build().unwrap()
    }

    fn devices(&self, path: &str) -> String {
        format!("https://fl.example.org:{}{path}", self.devices.port())
    }

    fn operators(&self, path: &str) -> String {
        format!("https://operators.example.org:{}{path}", self.operators.port())
    }

    async fn sign_in(&self, from: u8, password: &str) -> Response {
        let login = self.caller(from).post(self.operators("/operator/v1/login"));
        // Who writes the header itself is not believed: the proxy appends the true address.
        let login = login.header("x-forwarded-for", "192.0.2.77").header("x-tributary-request", "test");
        let login = login.header("sec-fetch-site", "same-origin");
        login.json(&json!({ "account": "ada", "password": password })).send().await.unwrap()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-QUIT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// The configuration that deployments have, with these addresses and this certificate.
fn site(serving: &Serving, [devices, operators_at]: [SocketAddr; 2], [certificate, key]: [&Path; 2]) -> String {
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/nginx.conf");
    let mut site = std::fs::read_to_string(template).unwrap();
    let listens = |listen: &str, name: &str| format!("    listen {listen} ssl;\n    server_name {name}.example.org;");
    let mut replace = |from: &str, to: &str| {
        assert!(site.contains(from), "{from}");
        site = site.replace(from, to);
    };
    for (name, address) in [("fl", devices), ("operators", operators_at)] {
        replace(&listens("443", name), &listens(&address.to_string(), name));
    }
    replace(" 127.0.0.1:7300;", &format!(" {};", serving.address()));
    replace(" 127.0.0.1:7301;", &format!(" {};", operators(serving)));
    replace("/etc/nginx/tributary.pem", &certificate.display().to_string());
    replace("/etc/nginx/tributary.key", &key.display().to_string());
    site
}

/// A configuration whose files are all in this directory.
fn whole(directory: &Path, site: &str) -> String {
    let at = directory.display();
    let folders =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {at}/{name};\n"));
    format!(
        "daemon off;\nworker_processes 1;\npid {at}/nginx.pid;\nerror_log stderr warn;\nevents {{}}\n\
         http {{\naccess_log off;\n{}{site}\n}}\n",
        folders.concat()
    )
}

fn program() -> Option<PathBuf> {
    ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.exists())
}

/// A certificate of its own for both names.
fn certificate(directory: &Path) -> (PathBuf, PathBuf) {
    let names = ["fl.example.org", "operators.example.org"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let paths = (directory.join("nginx.pem"), directory.join("nginx.key"));
    std::fs::write(&paths.0, made.cert.pem()).unwrap();
    std::fs::write(&paths.1, made.signing_key.serialize_pem()).unwrap();
    paths
}

/// Addresses that were free a moment ago.
fn free_addresses() -> [SocketAddr; 2] {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

fn serving(directory: &Path) -> Serving {
    let arguments = ["--listen-operators", "127.0.0.1:0", "--behind-proxy", "--clients-url", "https://fl.example.org"];
    Serving::start(directory, &arguments, None)
}

async fn create_account(serving: &Serving) {
    tributary_tls::install();
    let client = Client::builder().no_proxy().timeout(ANSWER_MAX).build().unwrap();
    let url = format!("{}operator/v1/accounts", serving.event["operators_url"].as_str().unwrap());
    let token = serving.event["operator_token"].as_str().unwrap();
    let account = json!({ "name": "ada", "role": "viewer", "password": PASSWORD });
    let created = client.post(url).bearer_auth(token).json(&account).send().await.unwrap();
    assert_eq!(created.status(), StatusCode::CREATED);
}

async fn status(client: &Client, url: String) -> u16 {
    client.get(url).send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_nginx_cookies_are_secure_limits_are_by_real_address_and_devices_reach_their_api_only() {
    let directory = tempfile::tempdir().unwrap();
    let serving = serving(directory.path());
    create_account(&serving).await;
    let Some(nginx) = Nginx::start(directory.path(), &serving).await else { return };

    let signed_in = nginx.sign_in(2, PASSWORD).await;
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("__Host-tributary_session=") && cookie.contains("; Secure"), "{cookie}");
    let name_and_value = cookie.split(';').next().unwrap();
    let who = nginx.caller(2).get(nginx.operators("/operator/v1/me")).header("cookie", name_and_value).send().await;
    assert!(who.unwrap().text().await.unwrap().contains("account:ada"));

    // Five attempts from one address are the limit; another address has its own.
    let mut wrong = Vec::new();
    for _ in 0..6 {
        wrong.push(nginx.sign_in(3, "a wrong password").await.status().as_u16());
    }
    assert_eq!(wrong, [401, 401, 401, 401, 401, 429]);
    assert_eq!(nginx.sign_in(4, "a wrong password").await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(nginx.sign_in(4, PASSWORD).await.status(), StatusCode::OK);

    let device = nginx.caller(5);
    for (path, expected) in [("/healthz", 200), ("/operator/v1/login", 404), ("/metrics", 404), ("/", 404)] {
        assert_eq!(status(&device, nginx.devices(path)).await, expected, "{path}");
    }
    let enrol = device.post(nginx.devices("/device/v1/clients")).json(&json!({})).send().await.unwrap();
    assert_eq!(enrol.status(), StatusCode::UNAUTHORIZED, "the device API is there, and wants a token");
    assert_eq!(status(&nginx.caller(5), nginx.operators("/")).await, 200);
}
