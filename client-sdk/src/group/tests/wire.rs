//! Ends that follow TLS and then something else, or another TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::fixtures::{Host, Member, closed, hello};
use super::floods::random_bytes;
use crate::group::hello::receive;
use crate::group::tls::{client_config, server_config};
use crate::group::{Hello, HelloError, LinkError};

async fn handshake(config: ClientConfig, host: &Host) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, host.tcp().await).await
}

#[tokio::test]
async fn random_bytes_instead_of_a_hello_end_the_link() {
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    for seed in 0..20 {
        let mut stream = handshake(client_config(&member.keys, host.member.key).unwrap(), &host).await.unwrap();
        // A hello has 42 bytes.
        stream.write_all(&random_bytes(seed, 42)).await.unwrap();
        closed(&mut stream).await;
        assert!(admission.accept(1).now_or_never().is_none());
    }
}

#[tokio::test]
async fn a_hello_that_comes_after_its_admission_has_ended_is_refused() {
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    let mut stream = handshake(client_config(&member.keys, host.member.key).unwrap(), &host).await.unwrap();
    // The listener knows the key now, or learns that there is no group for it.
    drop(admission);
    let _ = stream.write_all(&hello(1).to_bytes()).await;
    closed(&mut stream).await;
}

#[tokio::test]
async fn no_session_is_resumed() {
    let (host, member) = (Host::new().await, Member::new());
    let _admission = host.admit(&[&member]);
    let mut config = client_config(&member.keys, host.member.key).unwrap();
    config.resumption = Resumption::in_memory_sessions(8);
    for _ in 0..3 {
        let mut stream = handshake(config.clone(), &host).await.unwrap();
        // Tickets would come with the answer.
        stream.write_all(&hello(1).to_bytes()).await.unwrap();
        assert_eq!(receive(&mut stream).await.unwrap(), Ok(hello(1).answer()));
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
    }
}

/// Settings of a client that presents nothing and believes nobody: the listener refuses it first.
fn plain(versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(tributary_tls::provider());
    let builder = builder.with_protocol_versions(versions).unwrap();
    builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

#[tokio::test]
async fn other_versions_protocols_and_certificates_are_refused() {
    let (host, member) = (Host::new().await, Member::new());
    let admission = host.admit(&[&member]);
    let ours = || client_config(&member.keys, host.member.key).unwrap();
    let changed = |protocols: &[&str]| {
        let mut config = ours();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    };
    for (what, config) in [
        ("TLS 1.2", plain(&[&TLS12])),
        ("certificates", plain(&[&TLS13])),
        ("no protocol", changed(&[])),
        ("another protocol", changed(&["http/1.1"])),
    ] {
        if let Ok(mut stream) = handshake(config, &host).await {
            // Without a protocol the handshake ends well for this side.
            let _ = stream.write_all(&hello(1).to_bytes()).await;
            closed(&mut stream).await;
        }
        assert!(admission.accept(1).now_or_never().is_none(), "{what}");
    }
    // The same settings unchanged are accepted.
    let mut stream = handshake(ours(), &host).await.unwrap();
    stream.write_all(&hello(1).to_bytes()).await.unwrap();
    assert_eq!(admission.accept(1).await.unwrap().rank(), 1);
}

/// Accepts one connection with these settings, sends the bytes, and waits for the end.
async fn fake(config: ServerConfig, bytes: Vec<u8>) -> SocketAddr {
    let sockets = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = sockets.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = sockets.accept().await.unwrap();
        if let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            closed(&mut stream).await;
        }
    });
    address
}

#[tokio::test]
async fn a_listener_that_answers_with_something_else_is_left() {
    let (member, peer) = (Member::new(), Member::new());
    let answer = hello(1).answer();
    for (bytes, error) in [
        (random_bytes(1, 42), HelloError::Malformed),
        (Hello { group: [8; 16], ..answer }.to_bytes().to_vec(), HelloError::Group),
        (Hello { attempt: 0, ..answer }.to_bytes().to_vec(), HelloError::Attempt),
        (Hello { from: 2, ..answer }.to_bytes().to_vec(), HelloError::From),
        (Hello { to: 2, ..answer }.to_bytes().to_vec(), HelloError::To),
        // Its own hello, sent back.
        (hello(1).to_bytes().to_vec(), HelloError::From),
    ] {
        let address = fake(server_config(&peer.keys, Arc::new(|_| true)).unwrap(), bytes).await;
        let result = member.connect_to(&address.to_string(), peer.key, hello(1)).await;
        assert_eq!(result.unwrap_err(), LinkError::Hello(error));
    }
}

#[tokio::test]
async fn a_listener_with_another_version_or_protocol_is_left() {
    let (member, peer) = (Member::new(), Member::new());
    let raw = |versions: &[&'static SupportedProtocolVersion]| {
        let builder = ServerConfig::builder_with_provider(tributary_tls::provider());
        let builder = builder.with_protocol_versions(versions).unwrap();
        let key = crate::keys::presented::raw_key(&peer.keys).unwrap();
        let resolver = rustls::server::AlwaysResolvesServerRawPublicKeys::new(key);
        builder.with_no_client_auth().with_cert_resolver(Arc::new(resolver))
    };
    let without_protocol = || {
        let mut config = server_config(&peer.keys, Arc::new(|_| true)).unwrap();
        config.alpn_protocols.clear();
        config
    };
    for (what, config) in [("TLS 1.2", raw(&[&TLS12])), ("no protocol", without_protocol())] {
        let address = fake(config, hello(1).answer().to_bytes().to_vec()).await;
        let result = member.connect_to(&address.to_string(), peer.key, hello(1)).await;
        assert!(matches!(result, Err(LinkError::Handshake(_) | LinkError::Refused(_))), "{what}: {result:?}");
    }
}
