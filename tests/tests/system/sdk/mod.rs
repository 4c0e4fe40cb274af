//! The SDK's sessions against the real server.

mod burn;
mod faults;
mod gate;
mod sessions;
