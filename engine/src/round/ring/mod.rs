//! Rules of groups that add up among themselves, as functions of facts.
//!
//! A round makes attempts: a group forms of the members that are ready, its members report one sum, and one of them
//! brings it. Whatever goes wrong leads to another attempt without those that were lost, and then to the **star**: each
//! member sends its own update to the coordinator, as in a job without groups. An attempt is a state within the
//! training of a round, and no phase of its own.

mod exchanged;
mod facts;
mod links;
mod measured;
mod named;
mod next;
mod order;
mod policy;
#[cfg(test)]
mod simulated;
mod step;

pub use exchanged::goes_on_from;
pub use facts::{Agreement, AttemptFacts, RingFacts};
pub use links::{relayed, star_is_less};
pub use measured::{Way, avoiding};
pub use named::named_edges;
pub use next::next_rate;
pub use order::around;
pub use policy::RingPolicy;
pub use step::{RingStep, next_ring_step};
