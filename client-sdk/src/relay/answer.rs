//! What a parent answers its relay.

use std::time::Duration;

use tributary_protocol::device::Assignment;

/// What a parent answers a relay that checks in.
#[derive(Clone, Debug, PartialEq)]
pub enum NextOrder {
    /// A part of a round. It has [`Assignment::relay`].
    Order(Box<Assignment>),
    /// There is no work. Check in again after this time.
    Wait(Duration),
}
