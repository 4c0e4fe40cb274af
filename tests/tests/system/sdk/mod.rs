//! The SDK's sessions against the real server.

mod broken;
mod burn;
mod faults;
mod feedback;
mod gate;
mod sessions;
mod times;

pub(crate) use sessions::session;
