//! The world of the tests: a coordinator, its operator, its devices, and trainers that need no data.

mod answer;
mod authority;
mod device;
mod digits;
mod evaluator;
mod exchanges;
mod files;
mod invariants;
mod log;
mod postgres;
mod process;
mod python;
mod recorder;
mod sdk;
mod webhook;
mod world;

pub(crate) use answer::Answer;
pub(crate) use authority::Authority;
pub(crate) use device::{Device, figures};
pub(crate) use digits::digits;
pub(crate) use exchanges::{Exchanges, call_of};
pub(crate) use files::{WEIGHTS, binary_point, bytes_of_tensors, delta_file, evaluated_job, job_file, sum_of};
pub(crate) use log::Log;
pub(crate) use postgres::{Database, postgres};
pub(crate) use process::{output, printed, said};
pub(crate) use python::{has_module, python};
pub(crate) use sdk::{
    Adds, JumpingClock, Meanwhile, Scatters, draw_everybody, sdk_client, sdk_client_at, sdk_client_over,
};
pub(crate) use webhook::Webhook;
pub(crate) use world::{NOW_MS, World, directory_in_memory, http, within_reason};
