//! Services of the process for all rooms: time, randomness, threads, signals.

pub mod clock;
pub mod entropy;
pub(crate) mod offload;
pub mod signals;
