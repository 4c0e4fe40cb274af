//! For tests: sample jobs and rounds, an output that keeps its text, and a coordinator that answers from lists.

mod fake;
mod samples;
mod server;

pub(crate) use fake::{Fake, Scene};
pub(crate) use samples::{JOB_FILE, in_state, job, output, round};
pub(crate) use server::{refuse, serve};
