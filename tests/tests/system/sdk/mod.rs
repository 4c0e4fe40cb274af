//! The SDK's sessions against the real server.

mod broken;
mod drift;
mod faults;
mod feedback;
mod fixtures;
mod gate;
mod masked;
mod masked_kills;
mod own;
mod partial;
mod personal;
mod released;
mod schedules;
mod sessions;
mod sets;
mod suspended;
mod times;
mod training;
mod usable;

pub(crate) use sessions::session;
