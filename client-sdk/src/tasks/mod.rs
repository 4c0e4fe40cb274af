//! What a client does for an assignment: one file per task.

mod completed;
mod compute;
mod drift;
mod elastic;
mod evaluate;
mod norm;
mod personal;
mod train;

pub(crate) use completed::Completed;
pub(crate) use evaluate::evaluate;
pub(crate) use train::{Times, train};
