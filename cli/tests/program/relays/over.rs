//! The parent's round ends before a relay delivers: an operator of the parent stops the job.

use tributary_protocol::device::Assignment;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, Phase};

use super::fleet::contribute;
use super::tree::{Relay, Tree, Victim, flat};
use super::{CLIENTS, RELAYS, within_reason};
use crate::support::proxy::Link;

async fn check_abandoned(relay: &Relay, job: &str) {
    within_reason("the relay's round ends", relay.operator.round_is(job, 1, Phase::Abandoned)).await;
    let rounds = relay.rounds(job).await;
    let ended: Vec<_> = rounds.iter().map(|round| (round.number, round.phase, round.reason)).collect();
    assert_eq!(ended, [(1, Phase::Abandoned, Some(AbandonReason::Upstream))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_relay_are_told_that_the_parent_has_ended_the_round() {
    let tree = Tree::start(Victim::Relay).await;
    let job = tree.create_job().await;
    let work = within_reason("all clients have work", tree.fleet.work()).await;
    // One client of the first relay has reported, two are at work.
    contribute(0, tree.fleet.device(0), &work[0]).await.unwrap();
    tree.operator.stop_job(&job).await;
    for relay in &tree.relays {
        check_abandoned(relay, &job).await;
    }
    for (client, work) in work.iter().enumerate().skip(1) {
        let told = tree.fleet.device(client).ask(work).await.unwrap_err();
        assert_eq!(told.kind, ProblemType::AssignmentClosed, "{told:?}");
        let late = contribute(client, tree.fleet.device(client), work).await.unwrap_err();
        assert_eq!(late.kind, ProblemType::AssignmentClosed, "{late:?}");
    }
    tree.end().await;
}

/// A tree whose first job was stopped at the parent while the uplink of a relay was cut. That relay holds a sum that
/// it could not deliver.
async fn stopped_meanwhile() -> (Tree, String, Vec<Assignment>) {
    let tree = Tree::start(Victim::Relay).await;
    let job = tree.create_job().await;
    let work = within_reason("all clients have work", tree.fleet.work()).await;
    let relay = &tree.relays[0];
    relay.uplink.set_link(Link::Broken);
    for (client, work) in work.iter().enumerate().take(CLIENTS / RELAYS) {
        contribute(client, tree.fleet.device(client), work).await.unwrap();
    }
    within_reason("the relay closes its round", relay.operator.round_is(&job, 1, Phase::Aggregating)).await;
    tree.operator.stop_job(&job).await;
    (tree, job, work)
}

/// All relays have dropped the first job's round, and take part in the next job.
async fn check_the_next_job(tree: Tree, job: &str) {
    tree.relays[0].uplink.set_link(Link::Whole);
    for relay in &tree.relays {
        check_abandoned(relay, job).await;
    }
    let second = tree.create_second_job().await;
    assert_eq!(tree.play(&second).await, flat().await);
    tree.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_for_a_round_that_ended_while_the_uplink_was_cut_is_dropped() {
    let (tree, job, work) = stopped_meanwhile().await;
    let other = &tree.relays[1];
    check_abandoned(other, &job).await;
    let told = tree.fleet.device(CLIENTS - 1).ask(&work[CLIENTS - 1]).await.unwrap_err();
    assert_eq!(told.kind, ProblemType::AssignmentClosed, "{told:?}");
    check_the_next_job(tree, &job).await;
}

/// The parent does not know the order any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_for_a_job_that_was_deleted_while_the_uplink_was_cut_is_dropped() {
    let (tree, job, _) = stopped_meanwhile().await;
    within_reason("the parent's round ends", tree.operator.rounds_end(&job)).await;
    tree.operator.delete_job(&job).await;
    check_the_next_job(tree, &job).await;
}
