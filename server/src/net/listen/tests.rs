//! Connections over loopback sockets. Where a time limit is tested, tokio's clock is paused: it jumps to the next timer
//! when every task waits.

use std::net::SocketAddr;

use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::*;
use crate::metrics::MetricsAccess;
use crate::net::Kept;

/// The preface and an empty SETTINGS frame.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// More than the buffers of a connection hold.
static LARGE: [u8; 32 << 20] = [0; 32 << 20];
const GET_LARGE: &[u8] = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    metrics: Arc<Metrics>,
    /// A request to be held has arrived.
    arrived: Arc<Notify>,
    /// Lets a held request go.
    release: Arc<Notify>,
    serving: tokio::task::JoinHandle<()>,
}

async fn served() -> Served {
    served_within(Limits { max: 100, per_address: 100 }).await
}

async fn served_within(limits: Limits) -> Served {
    served_with(limits, None).await
}

async fn served_with(limits: Limits, tls: Option<Arc<Tls>>) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let (arrived, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let hold = (Arc::clone(&arrived), Arc::clone(&release));
    let router = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/large", get(|| async { Bytes::from_static(&LARGE) }))
        .route("/peer", get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.to_string() }))
        .route("/link", get(echo))
        .route(
            "/held",
            post(move || async move {
                hold.0.notify_one();
                hold.1.notified().await;
            }),
        );
    let metrics = Metrics::new(MetricsAccess::Open, 0);
    let connections = Connections::new(limits, metrics.connections());
    let shared = Shared { router, tls, patience: Patience::default(), stop: stop.clone() };
    let serving = tokio::spawn(async move { accept(listener, &connections, Arc::new(shared)).await });
    Served { address, stop, metrics, arrived, release, serving }
}

/// Becomes a connection that sends back what it gets, and keeps its place until its end.
async fn echo(mut request: axum::extract::Request) -> axum::response::Response {
    let kept = request.extensions_mut().remove::<Kept>();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let _kept = kept;
        let (mut read, mut write) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
        let _ = tokio::io::copy(&mut read, &mut write).await;
    });
    let headers = [("connection", "upgrade"), ("upgrade", "echo")];
    (axum::http::StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn connect_and_send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// A connection whose request is held.
    async fn held(&self) -> TcpStream {
        let stream = self.connect_and_send(b"POST /held HTTP/1.1\r\nhost: x\r\n\r\n").await;
        self.arrived.notified().await;
        stream
    }

    fn assert_metric(&self, line: &str) {
        let text = self.metrics.render(0, 0).unwrap();
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

/// Reads an answer with this body.
async fn answered(stream: &mut TcpStream, body: &str) {
    let mut answer = String::new();
    while !answer.ends_with(&format!("\r\n\r\n{body}")) {
        let mut bytes = [0; 512];
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "the connection ended after {answer:?}");
        answer += std::str::from_utf8(&bytes[..read]).unwrap();
    }
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

/// Reads to the end.
async fn ended(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A connection that is dropped with unread bytes is reset.
    let _ = stream.read_to_end(&mut rest).await;
    rest
}

#[tokio::test]
async fn either_version_is_answered_however_its_first_bytes_arrive() {
    let served = served().await;
    let mut stream = served.connect().await;
    stream.set_nodelay(true).unwrap();
    for byte in GET {
        stream.write_all(&[*byte]).await.unwrap();
    }
    answered(&mut stream, "here").await;

    let mut stream = served.connect_and_send(HTTP2).await;
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4, "the server's own SETTINGS come first");
}

#[tokio::test]
async fn a_handler_sees_the_callers_address() {
    let served = served().await;
    let mut stream = served.connect_and_send(b"GET /peer HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let own = stream.local_addr().unwrap().to_string();
    answered(&mut stream, &own).await;
}

#[tokio::test]
async fn a_stop_ends_idle_and_silent_connections() {
    let served = served().await;
    let silent = served.connect().await;
    let mut idle = served.connect_and_send(GET).await;
    answered(&mut idle, "here").await;
    served.stop.cancel();
    served.serving.await.unwrap();
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_dropped_and_so_is_who_stops_in_the_middle_of_a_head() {
    let served = served().await;
    for bytes in [&b""[..], b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n"] {
        let mut stream = served.connect_and_send(bytes).await;
        let rest = ended(&mut stream).await;
        assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
    }
    served.assert_metric("tributary_connections_dropped_total{reason=\"silent\"} 1");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_and_a_held_request_is_not() {
    let served = served().await;
    let mut idle = served.connect_and_send(GET).await;
    answered(&mut idle, "here").await;
    let mut held = served.held().await;
    assert!(ended(&mut idle).await.is_empty());
    // The longest hold of a check-in, twice.
    tokio::time::sleep(Duration::from_secs(120)).await;
    served.release.notify_one();
    answered(&mut held, "").await;
}

#[tokio::test(start_paused = true)]
async fn an_http2_connection_without_requests_is_closed() {
    let served = served().await;
    let mut stream = served.connect_and_send(HTTP2).await;
    // The client answers no frame, as one that is gone.
    let bytes = ended(&mut stream).await;
    let (mut types, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        types.push(head[3]);
        rest = &after[usize::from(head[1]) << 8 | usize::from(head[2])..];
    }
    const GOAWAY: u8 = 7;
    assert!(types.contains(&GOAWAY), "{types:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_system_ends_connections_whose_client_is_gone_or_takes_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    prepare(&stream, Patience::default()).unwrap();
    let socket = SockRef::from(&stream);
    assert!(socket.keepalive().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(60));
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(60)));
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_and_an_http2_connection_has_so_many_requests() {
    let served = served().await;
    let head = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(4 * READ_BYTES_MAX));
    let mut stream = served.connect_and_send(head.as_bytes()).await;
    let rest = ended(&mut stream).await;
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&rest));

    let mut stream = served.connect_and_send(HTTP2).await;
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.unwrap();
    let mut settings = vec![0; usize::from(frame[2])];
    stream.read_exact(&mut settings).await.unwrap();
    let setting = |id: u8| {
        let found = settings.chunks(6).find(|setting| setting[..2] == [0, id]).expect("it is set");
        u32::from_be_bytes([found[2], found[3], found[4], found[5]])
    };
    // SETTINGS_MAX_CONCURRENT_STREAMS and SETTINGS_MAX_HEADER_LIST_SIZE.
    assert_eq!((setting(3), setting(6)), (STREAMS_MAX, HEAD_BYTES_MAX));
}

impl Served {
    fn has_dropped_a_slow_reader(&self) -> bool {
        let text = self.metrics.render(0, 0).unwrap();
        text.lines().any(|line| line == "tributary_connections_dropped_total{reason=\"slow_reader\"} 1")
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_reads_nothing_or_next_to_nothing_is_dropped() {
    for bytes_at_once in [0, 1] {
        let served = served().await;
        let mut stream = served.connect_and_send(GET_LARGE).await;
        let mut waited = Duration::ZERO;
        while !served.has_dropped_a_slow_reader() {
            tokio::time::sleep(Duration::from_secs(10)).await;
            waited += Duration::from_secs(10);
            assert!(waited < Duration::from_secs(200), "{bytes_at_once}");
            stream.read_exact(&mut vec![0; bytes_at_once]).await.unwrap();
        }
        assert!(waited > Duration::from_secs(100), "{bytes_at_once}: {waited:?}");
        let mut new = served.connect_and_send(GET).await;
        answered(&mut new, "here").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_slow_gets_all_of_its_answer() {
    let served = served().await;
    let mut stream = served.connect_and_send(GET_LARGE).await;
    let mut left = LARGE.len();
    let mut bytes = vec![0; 256 << 10];
    while left > 0 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "{left} bytes are missing");
        left = left.saturating_sub(read);
    }
    assert!(!served.has_dropped_a_slow_reader());
}

#[tokio::test(start_paused = true)]
async fn an_http2_client_that_answers_pings_and_grants_no_window_is_dropped() {
    const PING: u8 = 6;
    const ACK: u8 = 1;
    let served = served().await;
    let mut stream = served.connect_and_send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    // SETTINGS_INITIAL_WINDOW_SIZE (4) is 0.
    stream.write_all(b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0").await.unwrap();
    // HEADERS: GET, http, the path / and the authority x; the stream and its head end here.
    stream.write_all(b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x01\x01x").await.unwrap();
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut payload).await.unwrap();
        if head[3] == PING && head[4] & ACK == 0 {
            head[4] = ACK;
            stream.write_all(&[&head[..], &payload].concat()).await.unwrap();
        }
    }
    assert!(served.has_dropped_a_slow_reader());
}

#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    let served = served_within(Limits { max: 4, per_address: 4 }).await;
    let mut held = served.held().await;
    let mut idle = served.connect_and_send(GET).await;
    answered(&mut idle, "here").await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(served.connect().await);
    }
    let mut new = served.connect_and_send(GET).await;
    answered(&mut new, "here").await;
    assert!(ended(&mut silent[0]).await.is_empty());
    idle.write_all(GET).await.unwrap();
    answered(&mut idle, "here").await;
    served.release.notify_one();
    answered(&mut held, "").await;
    served.assert_metric("tributary_connections_open 4");
    // 20 silent ones and the new one came to two free places.
    served.assert_metric("tributary_connections_dropped_total{reason=\"displaced\"} 19");
}

#[tokio::test]
async fn where_all_connections_are_at_work_a_new_one_is_refused() {
    let served = served_within(Limits { max: 1, per_address: 1 }).await;
    let mut held = served.held().await;
    let mut refused = served.connect_and_send(GET).await;
    assert!(ended(&mut refused).await.is_empty());
    served.assert_metric("tributary_connections_dropped_total{reason=\"limit\"} 1");
    served.release.notify_one();
    answered(&mut held, "").await;
}

/// What a connection has become counts as work, and as a connection, until it ends.
#[tokio::test]
async fn an_upgraded_connection_is_not_displaced_and_keeps_its_place() {
    let served = served_within(Limits { max: 1, per_address: 1 }).await;
    let upgrade = b"GET /link HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    let mut link = served.connect_and_send(upgrade).await;
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        link.read_exact(&mut byte).await.unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    for _ in 0..3 {
        let mut refused = served.connect_and_send(GET).await;
        assert!(ended(&mut refused).await.is_empty());
    }
    link.write_all(b"still here").await.unwrap();
    let mut back = [0; 10];
    link.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"still here");
    link.shutdown().await.unwrap();
    assert!(ended(&mut link).await.is_empty());
    // Its place is free once its task has ended.
    while !served.metrics.render(0, 0).unwrap().contains("tributary_connections_open 0") {
        tokio::task::yield_now().await;
    }
    let mut new = served.connect_and_send(GET).await;
    answered(&mut new, "here").await;
}

mod tls {
    use std::io::BufRead;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::client::Resumption;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::version::{TLS12, TLS13};
    use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::*;
    use crate::net::{AcmeSettings, TlsSource};
    use crate::runtime::clock::Clock;

    /// A listener with a CA of its own, in a directory that lives as long.
    async fn served() -> (Served, ClientConfig, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let source = TlsSource::Dev { directory: directory.path().to_owned(), names: Vec::new() };
        let tls = Tls::open(&source, false, Clock::System.now_ms()).unwrap();
        let config = client(&[&TLS13, &TLS12], &tls.ca().unwrap().file);
        (served_with(Limits { max: 100, per_address: 100 }, Some(tls)).await, config, directory)
    }

    fn client(versions: &[&'static SupportedProtocolVersion], ca: &Path) -> ClientConfig {
        client_of(versions, CertificateDer::from_pem_file(ca).unwrap())
    }

    fn client_of(versions: &[&'static SupportedProtocolVersion], ca: CertificateDer<'static>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(ca).unwrap();
        let builder = ClientConfig::builder_with_provider(tributary_tls::provider());
        builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots).with_no_client_auth()
    }

    async fn shake(served: &Served, config: &Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::clone(config)).connect(name, served.connect().await).await
    }

    async fn asked(stream: &mut TlsStream<TcpStream>) {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("here"), "{answer}");
    }

    #[tokio::test]
    async fn both_versions_are_spoken_and_both_resume_a_session() {
        let (served, _, directory) = served().await;
        for (version, spoken) in [(&TLS13, ProtocolVersion::TLSv1_3), (&TLS12, ProtocolVersion::TLSv1_2)] {
            let config = Arc::new(client(&[version], &directory.path().join("ca.pem")));
            for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
                let mut stream = shake(&served, &config).await.unwrap();
                asked(&mut stream).await;
                let session = stream.get_ref().1;
                assert_eq!((session.protocol_version(), session.handshake_kind()), (Some(spoken), Some(kind)));
            }
        }
        served.assert_metric("tributary_tls_handshakes_total{outcome=\"full\"} 2");
        served.assert_metric("tributary_tls_handshakes_total{outcome=\"resumed\"} 2");
    }

    #[tokio::test]
    async fn the_client_chooses_the_version_of_http() {
        let (served, config, _directory) = served().await;
        for (offered, spoken) in
            [(&[&b"h2"[..], b"http/1.1"][..], Some(&b"h2"[..])), (&[b"http/1.1"], Some(b"http/1.1")), (&[], None)]
        {
            let mut config = config.clone();
            config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
            let mut stream = shake(&served, &Arc::new(config)).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), spoken);
            if spoken == Some(b"h2") {
                stream.write_all(HTTP2).await.unwrap();
                let mut frame = [0; 9];
                stream.read_exact(&mut frame).await.unwrap();
                assert_eq!(frame[3], 4, "SETTINGS");
            } else {
                asked(&mut stream).await;
            }
        }
        let mut config = config;
        config.alpn_protocols = vec![b"smtp".to_vec()];
        assert!(shake(&served, &Arc::new(config)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_stop_in_a_handshake_are_dropped_and_delay_nobody() {
        let (served, mut config, _directory) = served().await;
        config.resumption = Resumption::disabled();
        let config = Arc::new(config);
        let mut stopped = Vec::new();
        for _ in 0..20 {
            // A whole first flight, and then nothing.
            let name = ServerName::try_from("localhost").unwrap();
            let mut hello = Vec::new();
            rustls::ClientConnection::new(Arc::clone(&config), name).unwrap().write_tls(&mut hello).unwrap();
            stopped.push(served.connect_and_send(&hello).await);
        }
        let mut stream = shake(&served, &config).await.unwrap();
        asked(&mut stream).await;
        for mut stream in stopped {
            ended(&mut stream).await;
        }
        served.assert_metric("tributary_tls_handshakes_total{outcome=\"slow\"} 20");
    }

    /// An ACME server for tests; killed when dropped.
    struct Pebble(Child);

    impl Drop for Pebble {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Pebble {
        /// Starts it on a port, with its certificate's CA in `ca.pem`. It verifies names at the challenge's port. None
        /// where it is not installed (under CI that is a failure).
        async fn start(directory: &Path, port: u16, challenges: u16) -> Option<Self> {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
            let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
            write("ca.pem", ca.pem());
            write("pebble.pem", params.signed_by(&key, &ca).unwrap().pem());
            write("pebble.key", key.serialize_pem());
            let config = serde_json::json!({ "pebble": {
                "listenAddress": format!("127.0.0.1:{port}"),
                "managementListenAddress": "127.0.0.1:0",
                "certificate": directory.join("pebble.pem"),
                "privateKey": directory.join("pebble.key"),
                "httpPort": challenges,
                "tlsPort": challenges,
            } });
            write("pebble.json", config.to_string());
            let mut command = Command::new("pebble");
            command.arg("-config").arg(directory.join("pebble.json")).current_dir(directory);
            // It would wait at random, and refuse requests at random.
            command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "0");
            let Ok(mut child) = command.stdout(Stdio::piped()).spawn() else {
                assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "pebble is not installed");
                return None;
            };
            // Its log must be read, or it stops.
            let log = std::io::BufReader::new(child.stdout.take().unwrap());
            std::thread::spawn(move || log.lines().for_each(|line| println!("{}", line.unwrap_or_default())));
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                assert_eq!(child.try_wait().unwrap(), None, "it did not start");
                tokio::task::yield_now().await;
            }
            Some(Self(child))
        }
    }

    /// Goal: the coordinator proves to a CA that it is reached under its name, and the next start needs no CA.
    #[tokio::test]
    async fn a_certificate_is_ordered_over_the_listener_itself() {
        let directory = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let source = TlsSource::Acme(AcmeSettings {
            directory: directory.path().join("tls"),
            domains: vec!["localhost".into()],
            contact: Some("operator@example.org".into()),
            server: format!("https://127.0.0.1:{port}/dir"),
            server_ca: Some(directory.path().join("ca.pem")),
        });
        let now_ms = Clock::System.now_ms();
        let tls = Tls::open(&source, false, now_ms).unwrap();
        let served = served_with(Limits { max: 100, per_address: 100 }, Some(Arc::clone(&tls))).await;
        let challenges = served.address.port();
        let Some(pebble) = Pebble::start(directory.path(), port, challenges).await else { return };
        assert!(tls.look_again(now_ms).await.unwrap());
        assert!(!tls.look_again(now_ms).await.unwrap(), "it is new");
        drop(pebble);

        let again = Tls::open(&source, false, now_ms).unwrap();
        assert!(again.expires_at_ms() > now_ms);
        assert_eq!(again.expires_at_ms(), tls.expires_at_ms());
        let files: Vec<_> =
            std::fs::read_dir(directory.path().join("tls")).unwrap().map(|file| file.unwrap().path()).collect();
        let stored = files.iter().find(|file| file.extension().is_some_and(|kind| kind == "pem")).unwrap();
        let issuer = CertificateDer::pem_file_iter(stored).unwrap().nth(1).unwrap().unwrap();
        let config = Arc::new(client_of(&[&TLS13], issuer));
        asked(&mut shake(&served, &config).await.unwrap()).await;
    }

    #[tokio::test]
    async fn plain_http_is_no_handshake() {
        let (served, _, _directory) = served().await;
        let mut stream = served.connect_and_send(GET).await;
        let answer = ended(&mut stream).await;
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
        served.assert_metric("tributary_tls_handshakes_total{outcome=\"failed\"} 1");
    }

    #[tokio::test]
    async fn a_stop_ends_a_handshake() {
        let (served, _, _directory) = served().await;
        let silent = served.connect().await;
        served.stop.cancel();
        served.serving.await.unwrap();
        drop(silent);
    }
}
