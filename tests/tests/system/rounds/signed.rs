//! Groups whose members sign who they are and who has survived, with certificates of an authority that is not the
//! coordinator's.

use std::sync::Arc;

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tributary_client::secure::{CertifiedPeers, Next};
use tributary_client::{MemoryStore, StoredKey};
use tributary_protocol::operator::{GroupProgress, Job, RoundDetail};
use tributary_protocol::plan::GroupTrust;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, GroupStage, Phase};

use super::masked::{CLIENTS, Seat, Signing, check_mean, detail, masked};
use crate::support::{Authority, Device, World};

/// A new key with a certificate.
pub(super) fn signing(authority: &Authority) -> Signing {
    let keys = StoredKey::new(Arc::new(MemoryStore::new()));
    let certificate = authority.certificate(&keys);
    let peers = CertifiedPeers::from_pem(certificate.as_bytes(), authority.pem().as_bytes()).unwrap();
    Signing { keys, peers }
}

/// A job whose groups sign with certificates of this CA.
fn signed(authority: &Authority) -> Value {
    let mut file = masked();
    file["secure_aggregation"]["peers_ca"] = authority.pem().into();
    file
}

async fn seats(world: &World, authority: &Authority) -> Vec<Seat> {
    let devices: [Device; CLIENTS] = world.devices().await;
    let [a, b, c, d, e] = &devices;
    let assignments = world.assign([a, b, c, d, e]).await;
    let seats = devices.iter().zip(assignments).zip(0..);
    seats
        .map(|((device, assignment), place)| Seat::signing(device.clone(), assignment, place, Some(signing(authority))))
        .collect()
}

/// Seats whose masked updates are with the coordinator.
async fn sent(world: &World, mut seats: Vec<Seat>) -> Vec<Seat> {
    let shares = world.driven(join_all(seats.iter_mut().map(Seat::join))).await;
    let sharing = seats.iter_mut().zip(shares).map(|(seat, shares)| seat.share(shares));
    world.driven(join_all(sharing)).await;
    world.driven(join_all(seats.iter_mut().map(Seat::send))).await;
    seats
}

/// The signatures of all these members.
async fn signatures(world: &World, seats: &mut [Seat]) -> Vec<Vec<u8>> {
    let learned = world.driven(join_all(seats.iter_mut().map(Seat::learn))).await;
    let signature = |next| match next {
        Next::Agreement(signature) => signature.to_vec(),
        Next::Unmask(_) => panic!("nobody unmasks before the survivors are signed"),
    };
    learned.into_iter().map(signature).collect()
}

/// Goal: with a restart of the coordinator before each step, and a member that is lost before it signs, the sum opens.
#[tokio::test]
async fn members_sign_the_survivors_before_they_open_the_sum() {
    let (mut world, authority) = (World::start().await, Authority::new());
    let job: Job = world.create_job(&signed(&authority)).await.ok();
    assert_eq!(job.file.secure_aggregation.as_ref().unwrap().trust(), GroupTrust::Signed);
    let seats = seats(&world, &authority).await;
    let mut seats = sent(&world, seats).await;
    world.restart().await;
    let mut signatures = signatures(&world, &mut seats).await;
    assert_eq!(detail(&world, &job).await.groups[0].stage, GroupStage::Agreeing);
    // It has survived and does not sign: its update is in the sum, and the others are a quorum.
    signatures.pop();
    seats.pop().unwrap().give_up().await;
    world.restart().await;
    let agreeing = seats.iter_mut().zip(signatures).map(|(seat, signature)| seat.agree(signature));
    let opening = world.driven(join_all(agreeing)).await;
    for (seat, unmask) in seats.iter().zip(opening) {
        world.restart().await;
        seat.taken(Method::PUT, "/unmask", unmask).await;
    }
    world.drive().await;
    let RoundDetail { round, groups, .. } = detail(&world, &job).await;
    assert_eq!((round.phase, groups[0].stage), (Phase::Committed, GroupStage::Summed));
    let signed = groups[0].members.iter().filter(|member| member.came == GroupProgress::Signed).count();
    // Three are a quorum: a signature that comes after them is not needed.
    assert!(groups[0].signed && (3..=4).contains(&signed), "{groups:?}");
    check_mean(&world, &job, &[0, 1, 2, 3, 4]).await;
}

/// A quorum of five is three.
#[tokio::test]
async fn without_a_quorum_a_group_has_no_sum() {
    let (world, authority) = (World::start().await, Authority::new());
    let job: Job = world.create_job(&signed(&authority)).await.ok();
    let seats = seats(&world, &authority).await;
    let mut seats = sent(&world, seats).await;
    let signatures = signatures(&world, &mut seats).await;
    for seat in &seats[2..] {
        seat.give_up().await;
    }
    world.drive().await;
    let (status, problem) = seats[0].call(Method::PUT, "/agreement", signatures[0].clone()).await;
    let problem: Value = serde_json::from_slice(&problem).unwrap();
    assert_eq!((status, &problem["type"]), (StatusCode::GONE, &json!(ProblemType::GroupFailed.uri())));
    let RoundDetail { round, groups, explanation, .. } = detail(&world, &job).await;
    assert_eq!((groups[0].stage, round.phase), (GroupStage::Failed, Phase::Abandoned));
    assert!(explanation.contains("sign"), "{explanation}");
}

#[tokio::test]
async fn a_signature_that_is_none_and_a_second_one_are_refused() {
    let (world, authority) = (World::start().await, Authority::new());
    let job: Job = world.create_job(&signed(&authority)).await.ok();
    let seats = seats(&world, &authority).await;
    let early = seats[0].call(Method::PUT, "/agreement", vec![1; 64]).await.0;
    assert_eq!(early, StatusCode::CONFLICT, "it has not joined");
    let mut seats = sent(&world, seats).await;
    let mut signatures = signatures(&world, &mut seats).await;
    for wrong in [vec![1; 63], vec![1; 64], signatures[1].clone()] {
        assert_eq!(seats[0].call(Method::PUT, "/agreement", wrong).await.0, StatusCode::BAD_REQUEST);
    }
    let agreeing = seats.iter_mut().zip(signatures.drain(..)).map(|(seat, signature)| seat.agree(signature));
    let opening = world.driven(join_all(agreeing)).await;
    for (seat, unmask) in seats.iter().zip(opening) {
        seat.taken(Method::PUT, "/unmask", unmask).await;
    }
    world.drive().await;
    check_mean(&world, &job, &[0, 1, 2, 3, 4]).await;
}

/// A client whose certificate the others would not trust ends its own work, and no group.
#[tokio::test]
async fn who_joins_with_another_certificate_is_turned_away_by_name() {
    let (world, ours, other) = (World::start().await, Authority::new(), Authority::new());
    let job: Job = world.create_job(&signed(&ours)).await.ok();
    let mut seats = seats(&world, &ours).await;
    let foreign = Seat::signing(seats[0].device.clone(), seats[0].assignment.clone(), 0, Some(signing(&other)));
    let (last, copy) = (seats.pop().unwrap(), seats[1].member.request());
    let turned_away = async |seat: &Seat, body: Vec<u8>| {
        let (status, problem) = seat.call(Method::PUT, "", body).await;
        let problem: Value = serde_json::from_slice(&problem).unwrap();
        assert_eq!((status.as_u16(), &problem["type"]), (422, &json!(ProblemType::UpdateRejected.uri())));
        problem["detail"].as_str().unwrap().to_owned()
    };
    assert!(turned_away(&foreign, foreign.member.request()).await.contains("not one that the CA of the members"));
    seats.remove(0);
    let third = seats.pop().unwrap();
    let named = [third.member.request(), b"more".to_vec()].concat();
    assert!(turned_away(&third, named).await.contains("not the one that the record names"));
    let mut changes = world.app().signals.watch();
    tokio::select! {
        _ = seats[0].join() => panic!("nobody else has joined"),
        changed = changes.changed() => changed.unwrap(),
    }
    assert!(turned_away(&last, copy).await.contains("another client of the round has the same certificate"));
    let ended = world.assignments(job.head.id, 1).await;
    let failed = ended.iter().filter(|assignment| assignment.state == AssignmentState::Failed).count();
    assert_eq!(failed, 3);
}
