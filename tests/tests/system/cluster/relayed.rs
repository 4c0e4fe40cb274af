//! A link of a group that goes through one of several coordinators.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tributary_client::Client;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::{RingAttempt, RoundRing};
use tributary_protocol::state::{Phase, RingState, StarReason};

use super::balancer::balance;
use super::failover::event;
use super::node::Node;
use crate::rounds::ring::{MEMBERS, member, ring, star_model};
use crate::rounds::ring_links::{NOWHERE, changes, relaying};
use crate::support::{World, http, postgres, within_reason};

const LEASE: Duration = Duration::from_secs(10);
/// Members at another coordinator hear of a group up to a second later, and have half of this to connect.
const FRAME_MS: u64 = 4_000;

/// Plays a round in which nobody can connect to the third member. Returns its groups, once their sums are those of the
/// star.
async fn played(attempts: u32, servers: impl AsyncFn(&[Node]) -> Vec<String>) -> Option<RoundRing> {
    let database = postgres().await?;
    let world = World::start_on(database.clone()).await;
    let nodes = [Node::start("first", &database.url, LEASE).await, Node::start("second", &database.url, LEASE).await];
    let servers = servers(&nodes).await;
    let addresses = |place: usize| Some((place == 2).then_some(NOWHERE));
    let mut members = Vec::new();
    for (place, server) in servers.iter().enumerate() {
        let builder = Client::builder(server, &world.enrolment).http_client(http());
        members.push(member(builder, (place, addresses(place))).await);
    }
    let mut file = relaying(MEMBERS, attempts);
    file["group"]["frame_ms"] = json!(FRAME_MS);
    let job = world.job(file).await.head.id;
    let contributed = within_reason(join_all(members.iter_mut().map(|member| member.contribute(1)))).await;
    assert!(contributed.iter().all(Result::is_ok), "{contributed:?}");
    within_reason(event(&world, &nodes[0], job, |event| event.became == "completed")).await;
    let round = world.round(job, 1).await;
    assert_eq!((round.phase, round.reported as usize), (Phase::Committed, MEMBERS), "{round:?}");
    assert_eq!(Sha256Hash::of(&world.model_file(job, 1).await), star_model(MEMBERS, &changes()).await);
    Some(ring(&world, job, 1).await)
}

/// Goal: behind a balancer both members of a relayed link meet at one coordinator, whichever they reach first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_members_of_a_relayed_link_meet_at_one_of_several_coordinators() {
    let servers = async |nodes: &[Node]| vec![balance(nodes.iter().map(|node| node.address).collect()).await; MEMBERS];
    let Some(RoundRing { attempts, star, .. }) = played(8, servers).await else { return };
    let Some(RingAttempt { state, members, .. }) = attempts.last() else { panic!("no group has formed") };
    assert_eq!((*state, members.iter().filter(|member| member.relayed).count(), star), (RingState::Counted, 1, None));
}

/// Goal: where each member reaches one coordinator only, and two reach different ones, the round goes over the star.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_reach_different_coordinators_send_their_own_updates() {
    let url = |node: &Node| format!("http://{}", node.address);
    let servers = async |nodes: &[Node]| (0..MEMBERS).map(|place| url(&nodes[usize::from(place == 2)])).collect();
    let Some(RoundRing { star, attempts, .. }) = played(2, servers).await else { return };
    assert_eq!(star, Some(StarReason::Attempts), "{attempts:?}");
}
