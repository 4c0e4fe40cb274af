//! Services of the process for all rooms: time, randomness, sockets, threads, signals.

pub mod clock;
pub mod entropy;
pub(crate) mod listen;
pub(crate) mod offload;
pub mod signals;
