//! Tests that start the built program: one target, because each would link the SDK, the server's test support and tokio
//! again.
#![expect(clippy::unwrap_used, reason = "in a test, what goes wrong should end it at once")]

mod first_hour;
mod foreign;
mod killed;
mod listener;
mod masked;
mod readme;
mod relays;
mod support;
