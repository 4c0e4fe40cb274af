//! Sums that the members of a group make among themselves.
//!
//! [`all_reduce`] is a ring: each member sends to its right neighbour and receives from its left one, and all of them
//! end with the same exact sum. It speaks over two links that its caller made, any [`AsyncRead`](tokio::io::AsyncRead)
//! with [`AsyncWrite`](tokio::io::AsyncWrite): who may connect, TLS and the first frame of a link (`Hello`) are the
//! caller's. Time is the caller's too ([`Timer`]).
//!
//! | part | contents |
//! |---|---|
//! | [`RingPlace`] | the place of a member in its ring, and what all members agreed on |
//! | [`Addend`], [`Weighted`] | the member's own integers, and those of an update |
//! | [`Gridded`], [`Scale`] | those of an update in few bits, on a grid that members agree on first |
//! | [`all_reduce`], [`RingError`] | the ring, and why it ends without a sum |
//! | [`Turns`], [`all_reduce_in_turn`], [`keep_alive`] | many sums over the same links |
//! | [`average`] | the mean of the members' models |
//! | [`Mixer`] | gossip: members mix their models with those of their neighbours |
//! | [`give_up`] | the end of a link when the other one did not come about |
//! | [`Reduced`] | the sum, in packed form |
//!
//! A member that computes wrongly within the limits is not noticed here: members of one ring then have different sums.
//! Whoever needs to know compares the SHA-256 of their bodies, which are equal if the sums are.

#![warn(missing_docs)]

mod addend;
mod alive;
mod average;
mod error;
mod gossip;
mod layout;
mod link;
mod place;
mod reduced;
mod ring;
mod timer;

pub use addend::{Addend, Gridded, Scale, Weighted};
pub use alive::keep_alive;
pub use average::average;
pub use error::{Fault, Mistake, RingError};
pub use gossip::Mixer;
pub use link::Turns;
pub use place::{FRAME_MS_MAX, FRAME_MS_MIN, PlaceError, RingPlace};
pub use reduced::{Reduced, RingTraffic};
pub use ring::{all_reduce, all_reduce_in_turn, give_up};
pub use timer::Timer;
