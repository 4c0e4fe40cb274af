//! The simulated world: drawn histories of the real coordinator and the real SDK under one clock, with clients that
//! die, requests and answers that are lost, drivers that meet, and a coordinator that restarts.
//!
//! | part | what it is |
//! |---|---|
//! | [`op`] | what can happen, and how a history is drawn from a seed |
//! | [`stage`] | how it happens |
//! | [`player`] | a client: the SDK and where its session stands |
//! | [`network`] | the network, which delivers or loses each request |
//! | [`ledger`] | what must hold after every operation |
//! | [`shrink`] | the smallest history that still fails |
//! | [`kept`] | histories that failed once |
//!
//! `TRIBUTARY_SIMULATIONS` says how many histories are played, `TRIBUTARY_SIMULATION_SEED` where they begin.

mod kept;
mod ledger;
mod network;
mod op;
mod player;
mod shrink;
mod stage;

use futures_util::{StreamExt, stream};
use tributary_protocol::seed::Seed;

/// Histories of a plain run.
const HISTORIES: u64 = 140;
/// Histories of a run in continuous integration: about a second of one core each.
const HISTORIES_CI: u64 = 160;
/// Histories that are played at the same time; each has a separate world.
const AT_ONCE: usize = 4;

/// A setting of the environment.
fn setting(name: &str) -> Option<u64> {
    let value = std::env::var_os(name)?;
    Some(value.to_str().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} must be a number")))
}

/// Goal: whatever happens in whatever order, no acknowledged update is lost or counted twice, rounds end, phases and
/// models never go back, nobody trains again for what was acknowledged, and a healthy world continues.
/// Method: histories drawn from a seed; the first that fails is made small and printed as code for [`kept`].
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_what_was_acknowledged_is_counted_once() {
    let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    let histories = setting("TRIBUTARY_SIMULATIONS").unwrap_or(if ci { HISTORIES_CI } else { HISTORIES });
    let first = setting("TRIBUTARY_SIMULATION_SEED").unwrap_or(0);
    let seeds = stream::iter(first..first + histories);
    let mut failed = seeds
        .map(|seed| async move {
            let (setup, ops) = op::draw(Seed(seed));
            tokio::spawn(stage::play(setup, ops)).await.is_err().then_some(seed)
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .boxed();
    if let Some(seed) = failed.next().await {
        drop(failed);
        let (setup, ops) = op::draw(Seed(seed));
        panic!("the history of seed {seed} fails; at its smallest:\n{}", shrink::smallest(setup, ops).await);
    }
}
