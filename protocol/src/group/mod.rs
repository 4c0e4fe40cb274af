//! Groups that add up their updates among themselves: what members, and members and coordinator, say to each other.
//!
//! | part | what it is |
//! |---|---|
//! | [`messages`] | the calls of a member: it is ready, it was stalled, it has the sum |

pub mod messages;
