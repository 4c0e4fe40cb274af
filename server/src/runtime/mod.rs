//! Services of the process for all rooms: time, randomness, threads, signals.

pub mod clock;
pub mod disk;
pub mod entropy;
pub mod history;
pub mod kept;
pub(crate) mod lock;
pub(crate) mod offload;
pub(crate) mod outgoing;
pub mod signals;
