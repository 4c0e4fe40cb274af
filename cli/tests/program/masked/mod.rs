//! Secure aggregation with real processes: what a coordinator has of an update, and kills on either side.
//!
//! | file | content |
//! |---|---|
//! | [`memory`] | a search for an update in everything that a coordinator has; [`search`] searches, [`device`] sends |
//! | [`coordinator_kills`] | a coordinator is killed; [`fleet`] are the clients |
//! | [`client_kills`] | clients are killed; [`gate`] stands between them and the coordinator |
//! | [`exchanges`], [`audit`], [`outcome`] | what was said, what was written, and what came out of it |

mod audit;
mod client_kills;
mod coordinator_kills;
mod device;
#[path = "../../../../tests/tests/system/support/exchanges.rs"]
mod exchanges;
mod fleet;
mod gate;
mod memory;
mod outcome;
mod search;

/// Every round selects all of them. Their group bears one lost member.
const CLIENTS: usize = 5;
