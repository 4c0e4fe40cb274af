//! Redundant computation: what it costs and saves when several members hold the same data, so that a sum need not wait
//! for the slowest. Pure functions: which members, what load, which sums, what time to expect.
//!
//! | file | what it computes |
//! |---|---|
//! | [`rows`] | which parts each member of a code has, and with which coefficients |
//! | [`cyclic`] | the matrix of the cyclic code, and the weights that decode it |
//! | [`holders`] | which member gets which row, by the parts that each holds |
//! | [`reduce`] | the parts of each member of a tree with a code for each parent |
//! | [`tree`] | members and loads of a tree in which each parent can do without some of its children |
//! | [`time`] | the time that a round takes in each scheme |

pub mod cyclic;
pub mod holders;
pub mod reduce;
pub mod rows;
mod solve;
pub mod time;
pub mod tree;
