//! Relays as processes: a parent, two relays below it, and three clients behind each.
//!
//! | file | content |
//! |---|---|
//! | [`tree`] | the processes, and what must be true of a job that they have played |
//! | [`fleet`] | the clients, whose updates depend on no seed |
//! | [`whole`] | a tree that nothing disturbs |
//! | [`kills`] | a relay or the parent is killed at seeded moments |
//! | [`uplink`] | the link between a relay and its parent is cut |
//! | [`over`] | the parent's round ends before a relay delivers |
//! | [`restored`] | the parent goes back to an older state |

mod fleet;
mod kills;
mod over;
mod restored;
mod tree;
mod uplink;
mod whole;

use std::time::Duration;

const RELAYS: usize = 2;
/// Of all relays. Every round of the parent needs all of them.
const CLIENTS: usize = 6;
const ROUNDS: u32 = 8;
/// Longer than any run: a test that waits for longer waits for something that never happens.
const PATIENCE: Duration = Duration::from_secs(240);

async fn within_reason<T>(event: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("it never happened: {event}"))
}
