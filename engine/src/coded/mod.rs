//! Redundant computation: what it costs and saves when several members hold the same data, so that a sum need not wait
//! for the slowest. Pure planning: which members, what load, what time to expect.
//!
//! | file | what it computes |
//! |---|---|
//! | [`tree`] | members and loads of a tree in which each parent can do without some of its children |
//! | [`time`] | the time that a round takes in each scheme |

pub mod time;
pub mod tree;
