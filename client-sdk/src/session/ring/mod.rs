//! Groups that add up among themselves.
//!
//! | file | content |
//! |---|---|
//! | [`updates`] | members that meet after their trainings add up their updates |
//! | [`lockstep`], [`progress`], [`joined`] | members that exchange while they train |
//! | [`member`], [`links`] | what both have in common: calls to the coordinator, links to the others |

mod joined;
mod links;
mod lockstep;
mod member;
mod progress;
mod updates;

pub(super) use lockstep::{Together, together};
pub(super) use updates::{Delivered, add_up};
