//! The link between a relay and its parent is cut in the middle of a round.

use tributary_protocol::state::Phase;

use super::fleet::contribute;
use super::tree::{Tree, Victim, flat};
use super::within_reason;
use crate::support::proxy::Link;

/// A tree in the first round of its job. The uplink of one relay is cut. All clients have reported, and that relay has
/// tried to deliver.
async fn undelivered(cut: Link) -> (Tree, String) {
    let tree = Tree::start(Victim::Relay).await;
    let job = tree.create_job().await;
    let work = within_reason("all clients have work", tree.fleet.work()).await;
    let [relay, other] = [0, 1].map(|relay| &tree.relays[relay]);
    relay.uplink.set_link(cut);
    for (client, work) in work.iter().enumerate() {
        contribute(client, tree.fleet.device(client), work).await.unwrap();
    }
    within_reason("the relay closes its round", relay.operator.round_is(&job, 1, Phase::Aggregating)).await;
    within_reason("the other relay delivers", other.operator.round_is(&job, 1, Phase::Committed)).await;
    // The relay asks whether the sum is still taken before it sends it.
    within_reason("the relay tries to deliver", relay.uplink.stops("?finished=true")).await;
    let rounds = tree.operator.rounds(&job).await;
    assert_eq!((rounds.len(), rounds[0].phase, rounds[0].reported), (1, Phase::Training, 3), "{rounds:?}");
    (tree, job)
}

/// The job goes on when the link is back, and nothing is lost.
async fn check_the_rest(tree: Tree, job: &str) {
    tree.relays[0].uplink.set_link(Link::Whole);
    assert_eq!(tree.play(job).await, flat().await);
    tree.settle(job).await;
    for rounds in [tree.operator.rounds(job).await, tree.relays[0].rounds(job).await] {
        assert!(rounds.iter().all(|round| round.phase == Phase::Committed), "{rounds:?}");
    }
    tree.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_arrives_when_a_silent_uplink_is_back() {
    let (tree, job) = undelivered(Link::Silent).await;
    check_the_rest(tree, &job).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_arrives_when_a_broken_uplink_is_back() {
    let (tree, job) = undelivered(Link::Broken).await;
    check_the_rest(tree, &job).await;
}

/// A relay that waits for the answer to its sum does not keep its operator waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_with_a_silent_uplink_stops_and_delivers_after_its_next_start() {
    let (tree, job) = undelivered(Link::Broken).await;
    within_reason("the relay stops", tree.relays[0].host.stop_gently()).await;
    tree.relays[0].host.restart().await;
    check_the_rest(tree, &job).await;
}
