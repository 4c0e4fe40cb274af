//! Credentials that are not accepted, each refused with its reason while honest clients continue.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tributary_client::clock::Clock;
use tributary_client::{AlwaysOn, Client, ClientError, Outcome};
use tributary_protocol::device::EnrolResponse;
use tributary_protocol::id::PinnedSecret;
use tributary_protocol::operator::{AuditEntry, Page};
use tributary_protocol::problem::ProblemType;
use tributary_server::devices::ClientAuth;

use super::world::{DAY_MS, TlsWorld, leaf_params, request_for};
use crate::support::{Adds, Answer, JumpingClock, within_reason};

/// Goal: the torture table of certificates. Method: each offender checks in by hand; then honest clients train a round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_are_not_a_clients_own_are_refused_and_the_round_commits() {
    let mut world = TlsWorld::start(ClientAuth::Certificate).await;
    let expired = world.device().await;
    expired.check_in().await.value();
    world.hand.advance_ms(8 * DAY_MS);
    expired.check_in().await.refused(ProblemType::CertificateExpired);

    let device = world.device().await;
    device.check_in().await.value();
    let by_secret = device.check_in_over(world.http()).bearer_auth(&device.secret);
    Answer::to(by_secret).await.refused(ProblemType::CertificateRequired);
    Answer::to(device.check_in_over(world.http())).await.refused(ProblemType::CertificateRequired);

    // A population that did not exist when the listener was opened: its CA is known at once.
    world.operate(Method::POST, "/populations", &json!({ "name": "others" })).await.value();
    let token = world.token("others").await.secret.expose();
    let key = KeyPair::generate().unwrap();
    let enrolled: EnrolResponse = world.enrol(&token, world.http(), Some(&request_for(&key))).await.ok();
    let stranger = world.device_of(key, &enrolled);
    stranger.check_in().await.value();

    let [devices, others] = ["devices", "others"].map(|name| name.parse().unwrap());
    let uri = |population: &str, id: &str| format!("tributary:population/{population}/client/{id}");
    let nobody = format!("client_{}", "0".repeat(32));
    let own = uri("devices", &device.id);
    let key = KeyPair::generate().unwrap();
    let self_signed = leaf_params(&own).self_signed(&key).unwrap().pem();
    for (what, certificate) in [
        ("signed by itself", self_signed),
        ("for a client of another population", world.signed_by(&others, &own, &key).await),
        ("under the name of another population", world.signed_by(&others, &uri("others", &device.id), &key).await),
        ("for a client that does not exist", world.signed_by(&devices, &uri("devices", &nobody), &key).await),
        ("without a client's name", world.signed_by(&devices, "urn:x", &key).await),
    ] {
        let http = world.http_with(&certificate, &key);
        let problem = Answer::to(device.check_in_over(&http)).await.refused(ProblemType::CertificateInvalid);
        assert!(problem.detail.starts_with("this certificate"), "{what}: {}", problem.detail);
    }
    // The method of the table works: the same tools make a certificate that is accepted, and it is this client's.
    let http = world.http_with(&world.signed_by(&devices, &own, &key).await, &key);
    Answer::to(device.check_in_over(&http)).await.value();

    let revoked = world.device().await;
    world.set_standing(&revoked.id, "revoked").await;
    revoked.check_in().await.refused(ProblemType::ClientRevoked);
    let quarantined = world.device().await;
    world.set_standing(&quarantined.id, "quarantined").await;

    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 2 } })).await;
    let model = format!("/jobs/{}/models/0", job.head.id);
    Answer::to(stranger.request(Method::GET, &model)).await.refused(ProblemType::NotFound);
    assert_eq!(quarantined.check_in().await.value()["answer"], "retry", "it gets no work");
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
    world.stop().await;
}

#[tokio::test]
async fn requests_that_prove_nothing_are_refused() {
    let mut world = TlsWorld::start(ClientAuth::Certificate).await;
    let enrol = async |request: Option<&str>| world.enrol(&world.enrolment, world.http(), request).await;
    enrol(None).await.refused(ProblemType::CertificateRequired);
    for wrong in ["", "no request", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"] {
        enrol(Some(wrong)).await.refused(ProblemType::Malformed);
    }
    assert_eq!(world.clients().await.len(), 0, "no use of the token is counted either");

    // The first key of a client stays its key.
    let device = world.device().await;
    let renew = async |request: &str| {
        let body = json!({ "certificate_request": request });
        Answer::to(device.request(Method::POST, "/certificate").json(&body)).await
    };
    let other = KeyPair::generate().unwrap();
    renew(&request_for(&other)).await.refused(ProblemType::Forbidden);
    renew("no request").await.refused(ProblemType::Malformed);
    let renewed = renew(&request_for(&device.key)).await.value();
    assert_eq!(renewed["expires_in_ms"], 7 * DAY_MS);
    assert_ne!(renewed["certificate"], device.certificate);

    // Who copied a request has no key: without the handshake it makes a client of its own, whose certificate is of no
    // use to the copier.
    let copied: EnrolResponse = enrol(Some(&request_for(&device.key))).await.ok();
    assert_ne!(copied.client.to_string(), device.id);
    world.stop().await;
}

#[tokio::test]
async fn an_excluded_device_does_not_enrol_with_its_key_and_the_audit_log_has_it() {
    let mut world = TlsWorld::start(ClientAuth::Either).await;
    let [revoked, quarantined] = [world.device().await, world.device().await];
    world.set_standing(&revoked.id, "revoked").await;
    world.set_standing(&quarantined.id, "quarantined").await;
    let again = async |http: &reqwest::Client, key: &KeyPair| {
        world.enrol(&world.enrolment, http, Some(&request_for(key))).await
    };
    for http in [world.http(), &revoked.http] {
        again(http, &revoked.key).await.refused(ProblemType::ClientRevoked);
    }
    let problem = again(world.http(), &quarantined.key).await.refused(ProblemType::Forbidden);
    assert!(problem.detail.contains(&quarantined.id), "{}", problem.detail);
    // With its certificate it is the same client, which stays in quarantine.
    let enrolled: EnrolResponse = again(&quarantined.http, &quarantined.key).await.ok();
    assert_eq!(enrolled.client.to_string(), quarantined.id);
    let clients = world.clients().await;
    assert_eq!(clients.iter().map(|client| client.standing.as_str()).collect::<Vec<_>>(), ["revoked", "quarantined"]);
    // A refusal is recorded after its answer.
    let recorded = async {
        loop {
            let audit: Page<AuditEntry> = world.look("/audit").await.ok();
            if audit.items.iter().any(|entry| entry.subject == "client-revoked") {
                return;
            }
        }
    };
    within_reason(recorded).await;
    world.stop().await;
}

#[tokio::test]
async fn where_either_is_taken_a_secret_counts_when_the_certificate_does_not() {
    let mut world = TlsWorld::start(ClientAuth::Either).await;
    let device = world.device().await;
    device.check_in().await.value();
    Answer::to(device.check_in_over(world.http()).bearer_auth(&device.secret)).await.value();
    // A certificate counts before a secret, so nobody needs to send one.
    Answer::to(device.check_in_over(&device.http).bearer_auth("nonsense")).await.value();
    world.hand.advance_ms(8 * DAY_MS);
    device.check_in().await.refused(ProblemType::CertificateExpired);
    let answer = Answer::to(device.check_in_over(&device.http).bearer_auth(&device.secret)).await.value();
    assert_eq!(answer["renew"], json!(["certificate"]));
    Answer::to(device.check_in_over(world.http())).await.refused(ProblemType::Unauthorized);
    world.stop().await;
}

#[tokio::test]
async fn certificates_need_tls_in_the_listener() {
    let config = tributary_server::Config {
        devices: tributary_server::devices::DeviceSettings { client_auth: ClientAuth::Either, ..Default::default() },
        ..Default::default()
    };
    let error = tributary_server::Coordinator::open(&config).await.unwrap_err();
    assert!(matches!(error, tributary_server::ServeError::ClientAuthWithoutTls), "{error}");
}

/// Goal: a certificate that the client does not trust is told at once and by its name. Method: the token without the CA
/// that it names, so that the client trusts the system's CAs; its clock says how long it paused between attempts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_certificate_is_not_trusted_is_an_error_of_its_own_without_a_retry() {
    let mut world = TlsWorld::start(ClientAuth::Bearer).await;
    let (directory, clock) = (TempDir::new().unwrap(), Arc::new(JumpingClock::default()));
    let token = world.enrolment.parse::<PinnedSecret>().unwrap().secret().expose();
    let builder = Client::builder(world.server(), token).state_dir(directory.path()).clock(clock.clone());
    let client = builder.clone().build().unwrap();
    let error = within_reason(client.open_jobs()).await.unwrap_err();
    assert!(matches!(&error, ClientError::Untrusted(what) if what.contains("UnknownIssuer")), "{error:?}");
    assert_eq!(clock.now_ms(), 0, "it asked again");

    let other = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let of_another_ca = builder.ca_pem(params.self_signed(&other).unwrap().pem()).build().unwrap();
    let error = within_reason(of_another_ca.open_jobs()).await.unwrap_err();
    assert!(matches!(error, ClientError::Untrusted(_)), "{error:?}");

    let trusting = world.sdk(directory.path()).build().unwrap();
    assert!(within_reason(trusting.open_jobs()).await.unwrap().is_empty());
    world.stop().await;
}
