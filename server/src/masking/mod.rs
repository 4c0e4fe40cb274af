//! Secure aggregation: groups of clients whose masked updates the coordinator adds up.
//!
//! | part | what it does |
//! |---|---|
//! | [`calls`] | what members send and ask |
//! | [`step`] | the driver's part: groups form and move on |
//! | `open`, `bodies` | the sum of a group without its masks, as an update of its round |
//! | [`roster`] | what members agree on |
//! | [`certificates`] | with which members sign |
//!
//! What is stored changes in [`crate::lifecycle::groups`] alone.

mod bodies;
pub(crate) mod calls;
pub(crate) mod certificates;
mod open;
pub(crate) mod roster;
pub(crate) mod step;
