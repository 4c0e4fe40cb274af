//! Rings of members in one thread, in virtual time.
//!
//! | file | content |
//! |---|---|
//! | [`runner`] | polls members in an order that follows from a seed, and moves the time on when all of them wait |
//! | [`ring`] | members, links between them, and links that tamper |
//! | [`sums`] | the sum is the direct one, bit for bit, for the bytes that it should take |
//! | [`losses`] | members that die, stop or lie: everybody ends, and blames whom it should |

#![expect(clippy::unwrap_used, reason = "in a test, what goes wrong should end it at once")]

mod losses;
mod ring;
mod runner;
mod sums;
