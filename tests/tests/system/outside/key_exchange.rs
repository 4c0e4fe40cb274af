//! What a connection agrees on its keys with: more than elliptic curves where both ends know it.

use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, NamedGroup, RootCertStore, SupportedProtocolVersion};
use tributary_client::Trust;

use super::Listening;

impl Listening {
    /// The group of the key exchange with a client of this configuration.
    async fn group(&self, config: ClientConfig) -> NamedGroup {
        let address = self.address;
        let agreed = move || {
            let name = ServerName::from(address.ip());
            let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
            let mut socket = TcpStream::connect(address).unwrap();
            while client.is_handshaking() {
                client.complete_io(&mut socket).unwrap();
            }
            client.negotiated_key_exchange_group().unwrap().name()
        };
        tokio::task::spawn_blocking(agreed).await.unwrap()
    }

    /// A client that knows the groups of ring alone.
    fn classical(&self, version: &'static SupportedProtocolVersion) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.ca.file).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        builder.with_protocol_versions(&[version]).unwrap().with_root_certificates(roots).with_no_client_auth()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_the_sdk_agree_on_post_quantum_keys_and_others_are_served() {
    let listening = Listening::start().await;
    let sdk = Trust::Pinned(listening.ca.fingerprint).client_config().unwrap().unwrap();
    assert_eq!(listening.group(sdk).await, NamedGroup::X25519MLKEM768);
    for version in [&TLS13, &TLS12] {
        assert_eq!(listening.group(listening.classical(version)).await, NamedGroup::X25519, "{version:?}");
    }
    listening.stop().await;
}
