//! Secure aggregation on this machine: what a group costs, and what masked updates learn.
//!
//! | file | content |
//! |---|---|
//! | [`cost`] | bytes and computation of a group |
//! | [`group`] | a group with real keys, shares and masks |
//! | [`training`] | accuracy of training with masked updates, also while a client lies |
//! | [`course`] | its rounds: groups form, lose members, and are summed |

pub(crate) mod cost;
mod course;
mod group;
pub(crate) mod training;
