//! Rings of members in one thread, in virtual time.
//!
//! | file | content |
//! |---|---|
//! | [`runner`] | polls members in an order that follows from a seed, and moves the time on when all of them wait |
//! | [`ring`] | members, links between them, and links that tamper |
//! | [`sums`] | the sum is the direct one, bit for bit, for the bytes that it should take |
//! | [`turns`] | many means over the same links |
//! | [`gossip`] | mixes with neighbours keep the sum of all models |
//! | [`losses`] | members that die, stop or send what is wrong: everybody ends, and blames whom it should |
//! | [`grid`] | members agree on a grid first: few bytes, the same sum for all, losses |
//! | [`scripts`] | a member that keeps to a script: it lives and does nothing, takes nothing, grants too much |

#![expect(clippy::unwrap_used, reason = "in a test, what goes wrong should end it at once")]

mod gossip;
mod grid;
mod losses;
mod ring;
mod runner;
mod scripts;
mod sums;
mod turns;
