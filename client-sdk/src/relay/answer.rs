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

/// What became of the sum that a relay sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The parent has accepted it, now or when an earlier delivery ended without an answer.
    Counted,
    /// The parent will never accept it, for this reason: the round is over, or the sum breaks a rule.
    Refused(String),
}
