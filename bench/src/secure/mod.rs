//! Secure aggregation on this machine: what a group costs, and what masked updates learn.
//!
//! | file | content |
//! |---|---|
//! | [`cost`] | bytes and computation of a group |
//! | [`group`] | a group with real keys, shares and masks |
//! | [`delivery`] | time of a group over slow lines |
//! | [`training`] | accuracy of training with masked updates, also while a client lies |
//! | [`course`] | its rounds: groups form, lose members, and are summed |

pub(crate) mod cost;
mod course;
pub(crate) mod delivery;
mod group;
pub(crate) mod training;
