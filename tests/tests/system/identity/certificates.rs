//! Clients of the SDK with certificates: enrolment, rounds, renewal, keys of their own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{AlwaysOn, Client, ClientError, KeyError, KeyStore, Outcome};
use tributary_protocol::operator::{AuditEntry, Page};
use tributary_protocol::problem::ProblemType;
use tributary_server::devices::ClientAuth;

use super::world::{DAY_MS, NOW_MS, TlsWorld};
use crate::support::{Adds, within_reason};

/// What the SDK keeps of the client.
fn identity(directory: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(directory.join("identity.json")).unwrap()).unwrap()
}

/// A session that finds no work.
async fn idle_session(client: &Client) {
    let outcome = within_reason(client.run_once(&mut Adds::new(0.5), &AlwaysOn)).await.unwrap();
    assert!(matches!(outcome, Outcome::NothingToDo { .. }), "{outcome:?}");
}

/// Goal: a silo needs no secret. Method: enrolment with a request, check-ins, downloads and uploads of a whole round
/// over connections with certificates, on a listener that refuses secrets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_round_is_trained_by_clients_with_certificates() {
    let mut world = TlsWorld::start(ClientAuth::Certificate).await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 2 } })).await;
    let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let sessions: Vec<_> = directories
        .iter()
        .map(|directory| {
            let client = world.sdk(directory.path()).wait(std::time::Duration::from_secs(60)).build().unwrap();
            tokio::spawn(async move { client.run_once(&mut Adds::new(0.5), &AlwaysOn).await })
        })
        .collect();
    for session in sessions {
        let outcome = within_reason(session).await.unwrap().unwrap();
        assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    }
    world.until_committed(&job).await;
    for directory in &directories {
        let kept = identity(directory.path());
        assert!(kept["certificate"].as_str().unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
        #[cfg(unix)]
        for name in ["device.key", "identity.json"] {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(directory.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }
    world.stop().await;
}

/// A key in memory, as secure hardware would keep it: it tells nobody what it is.
#[derive(Debug)]
struct Hardware {
    key: EcdsaKeyPair,
    signatures: AtomicUsize,
}

impl Hardware {
    fn new() -> Arc<Self> {
        let (algorithm, random) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap();
        Arc::new(Self { key, signatures: AtomicUsize::new(0) })
    }
}

impl KeyStore for Hardware {
    fn public_key(&self) -> Result<[u8; 65], KeyError> {
        Ok(self.key.public_key().as_ref().try_into().unwrap())
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        self.signatures.fetch_add(1, Ordering::SeqCst);
        Ok(self.key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec())
    }
}

#[tokio::test]
async fn an_apps_own_key_store_signs_requests_and_handshakes_and_no_key_is_in_the_state() {
    let mut world = TlsWorld::start(ClientAuth::Certificate).await;
    let (directory, hardware) = (TempDir::new().unwrap(), Hardware::new());
    let client = world.sdk(directory.path()).key_store(Arc::clone(&hardware) as Arc<_>).build().unwrap();
    client.enrol().await.unwrap();
    assert_eq!(hardware.signatures.load(Ordering::SeqCst), 1, "the request");
    idle_session(&client).await;
    assert_eq!(hardware.signatures.load(Ordering::SeqCst), 2, "and one handshake");
    assert!(!directory.path().join("device.key").exists());
    // A new process has the same identity and needs the same key.
    let again = world.sdk(directory.path()).key_store(Arc::clone(&hardware) as Arc<_>).build().unwrap();
    idle_session(&again).await;
    assert_eq!(world.clients().await.len(), 1);
    world.stop().await;
}

/// Goal: a client that checks in now and then always has a valid certificate. Method: after two thirds of a week the
/// check-in renews it, and at a time when the first one has expired the client still works, under the same id.
#[tokio::test]
async fn a_certificate_is_renewed_at_a_check_in_without_a_gap() {
    let mut world = TlsWorld::start(ClientAuth::Certificate).await;
    let directory = TempDir::new().unwrap();
    let client = world.sdk(directory.path()).build().unwrap();
    idle_session(&client).await;
    let first = identity(directory.path());
    world.hand.advance_ms(4 * DAY_MS);
    idle_session(&client).await;
    assert_eq!(identity(directory.path()), first, "it is not due");
    world.hand.advance_ms(DAY_MS);
    idle_session(&client).await;
    let second = identity(directory.path());
    assert_ne!(second["certificate"], first["certificate"]);
    // The first one has expired, and a new process presents the second.
    world.hand.advance_ms(5 * DAY_MS);
    idle_session(&world.sdk(directory.path()).build().unwrap()).await;
    let third = identity(directory.path());
    assert_ne!(third["certificate"], second["certificate"]);
    assert_eq!((&third["client"], &third["secret"]), (&first["client"], &first["secret"]));
    let clients = world.clients().await;
    let [client] = &clients[..] else { panic!("{clients:?}") };
    let left_ms = client.certificate_until_ms.unwrap() - (NOW_MS + 10 * DAY_MS);
    assert!((6 * DAY_MS..=7 * DAY_MS).contains(&left_ms), "the operator sees when it ends: in {left_ms} ms");
    world.stop().await;
}

#[tokio::test]
async fn a_client_whose_certificate_expired_enrols_again_and_keeps_its_id() {
    let mut world = TlsWorld::start(ClientAuth::Certificate).await;
    let directory = TempDir::new().unwrap();
    let client = world.sdk(directory.path()).build().unwrap();
    idle_session(&client).await;
    let first = identity(directory.path());
    world.hand.advance_ms(30 * DAY_MS);
    idle_session(&client).await;
    let second = identity(directory.path());
    assert_eq!(second["client"], first["client"]);
    assert_ne!((&second["certificate"], &second["secret"]), (&first["certificate"], &first["secret"]));
    assert_eq!(world.clients().await.len(), 1);
    let audit: Page<AuditEntry> = world.look("/audit").await.ok();
    assert!(audit.items.iter().any(|entry| entry.detail.as_deref() == Some("again, with its earlier certificate")));
    world.stop().await;
}

/// Goal: no state locks a device out. Method: parts of it are deleted, as by a restored backup or a broken disk.
#[tokio::test]
async fn a_device_that_lost_its_key_or_its_identity_becomes_a_new_client() {
    let mut world = TlsWorld::start(ClientAuth::Certificate).await;
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (key, identity) = ("device.key", "identity.json");
    for (lost, clients) in [(&[][..], 1), (&[key][..], 2), (&[identity][..], 3), (&[key, identity][..], 4)] {
        for name in lost {
            std::fs::remove_file(path(name)).unwrap();
        }
        idle_session(&world.sdk(directory.path()).build().unwrap()).await;
        assert_eq!(world.clients().await.len(), clients, "{lost:?}");
    }
    world.stop().await;
}

/// Goal: a fleet with secrets moves to certificates while it runs.
#[tokio::test]
async fn a_client_with_a_secret_gets_a_certificate_where_either_is_taken() {
    let mut world = TlsWorld::start(ClientAuth::Bearer).await;
    let directory = TempDir::new().unwrap();
    idle_session(&world.sdk(directory.path()).build().unwrap()).await;
    let first = identity(directory.path());
    assert_eq!(first.get("certificate"), None, "nobody asked for one");
    world.restart(ClientAuth::Either).await;
    idle_session(&world.sdk(directory.path()).build().unwrap()).await;
    let second = identity(directory.path());
    assert!(second["certificate"].is_string());
    world.restart(ClientAuth::Certificate).await;
    idle_session(&world.sdk(directory.path()).build().unwrap()).await;
    assert_eq!(identity(directory.path()), second);
    assert_eq!(world.clients().await.len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn a_revoked_client_learns_it_and_does_not_come_back_with_its_key() {
    let mut world = TlsWorld::start(ClientAuth::Certificate).await;
    let directory = TempDir::new().unwrap();
    let client = world.sdk(directory.path()).build().unwrap();
    let id = client.enrol().await.unwrap().to_string();
    world.set_standing(&id, "revoked").await;
    let refused = |error: ClientError| match error {
        ClientError::Refused(problem) => assert_eq!(problem.kind, ProblemType::ClientRevoked),
        other => panic!("{other}"),
    };
    refused(client.run_once(&mut Adds::new(0.5), &AlwaysOn).await.unwrap_err());
    // Its identity is lost and its key is not, as after a new installation with a key in hardware.
    std::fs::remove_file(directory.path().join("identity.json")).unwrap();
    refused(world.sdk(directory.path()).build().unwrap().enrol().await.unwrap_err());
    assert_eq!(world.clients().await.len(), 1);
    world.stop().await;
}
