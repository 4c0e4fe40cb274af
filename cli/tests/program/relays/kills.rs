//! A relay or the parent is killed at seeded moments and started again.
//!
//! Goal: the versions are those of the flat fleet, and no update counts twice. Method: as in [`killed`](crate::killed).

use tributary_protocol::seed::Seed;

use super::tree::{Tree, Victim, flat};
use crate::support;

/// Kills in a run.
const KILLS: u32 = 3;

/// 6 kills under CI, else 3.
fn runs() -> u64 {
    support::runs(KILLS, 2)
}

async fn play(victim: Victim) {
    let undisturbed = flat().await;
    for seed in 1..=runs() {
        let tree = Tree::start(victim).await;
        let killed = match victim {
            Victim::Relay => &tree.relays[0].host,
            Victim::Parent => &tree.parent,
        };
        let job = tree.create_job().await;
        killed.kill_at_seeded_moments(KILLS, Seed(seed));
        assert_eq!(tree.play(&job).await, undisturbed, "seed {seed}");
        assert_eq!(killed.kills(), KILLS, "the run was too short for all its kills, seed {seed}");
        tree.settle(&job).await;
        tree.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_killed_again_and_again_leaves_the_model_as_it_is() {
    play(Victim::Relay).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_that_is_killed_again_and_again_makes_the_same_model_with_its_relays() {
    play(Victim::Parent).await;
}
