//! The connection of a relay to its parent coordinator.
//!
//! A relay is a coordinator whose rounds come from a parent. To the parent it is one client, which enrols, checks in
//! and reports as others do. Its report is what its own clients' reports come to. [`Uplink`] has the calls, and
//! keeps identity and interrupted downloads in the client's store. The program that serves the relay's clients does the
//! rest.
//!
//! | step of a round | call |
//! |---|---|
//! | take the order | [`Uplink::next`] |
//! | get the model that its clients start from | [`Uplink::model`] |
//! | learn whether the parent still waits | [`Uplink::is_open`] |
//! | send what its reports come to, or say that nothing comes | [`Uplink::deliver`], [`Uplink::give_up`] |
//!
//! [`Uplink::jobs`] says what the parent's jobs require of examples, for clients that ask the relay.

mod answer;
#[cfg(feature = "native")]
#[cfg(test)]
mod tests;
mod uplink;

pub use answer::NextOrder;
pub use uplink::Uplink;
