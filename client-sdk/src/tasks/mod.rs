//! What a client does for an assignment: one file per task.
//!
//! | part | what it is |
//! |---|---|
//! | `train`, `evaluate`, `describe`, `answer` | the tasks, from what they are [`Given`] to what they have [`Completed`] |
//! | `coded` | the same task over the parts of a coded round |
//! | `algorithm` | the client's half of each algorithm |
//! | `trainings`, `personal`, `compute` | the calls of the trainer |
//! | `checkpoints` | checkpoints of a training that goes on |
//! | `encode`, `norm`, `feedback` | the update: its file, its norm bound, what it leaves out |
//! | `shards` | the parts of an update that several coordinators add up |

mod algorithm;
mod answer;
mod checkpoints;
mod coded;
mod completed;
mod compute;
mod describe;
mod encode;
mod evaluate;
mod feedback;
mod given;
mod norm;
pub(crate) mod personal;
mod shards;
mod train;
mod trainings;

pub(crate) use answer::answer;
pub(crate) use coded::{PartsSoFar, train_parts};
pub(crate) use completed::Completed;
pub(crate) use describe::describe;
pub(crate) use encode::sent;
pub(crate) use evaluate::evaluate;
#[cfg(feature = "group")]
pub(crate) use given::Exchanging;
pub(crate) use given::Given;
pub(crate) use shards::update_parts;
pub(crate) use train::train;
