//! The connection of a relay to its parent coordinator.
//!
//! A relay is a coordinator whose rounds come from a parent. To the parent it is one client, which enrols, checks in
//! and reports as others do. Its report is the exact sum of its own clients' updates. [`Uplink`] has the calls, and
//! keeps identity and interrupted downloads in the client's store. The program that serves the relay's clients does the
//! rest.
//!
//! | step of a round | call |
//! |---|---|
//! | take the order | [`Uplink::next`] |
//! | get the model that its clients start from | [`Uplink::model`] |
//! | learn whether the parent still waits | [`Uplink::is_open`] |
//! | send the sum, or say that there is none | [`Uplink::deliver`], [`Uplink::give_up`] |

mod answer;
#[cfg(feature = "native")]
#[cfg(test)]
mod tests;
mod uplink;

pub use answer::{Delivered, NextOrder};
pub use uplink::Uplink;
