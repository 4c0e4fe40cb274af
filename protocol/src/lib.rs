//! What crosses Tributary's wire, and nothing else: no I/O, no async, so that it also builds for `wasm32`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`id`] | identifiers that cannot hold a wrong value |
//! | [`job_file`] | what an operator writes: model, plan, round policy, aggregation |
//! | [`plan`] | what a client does in a round |
//! | [`layers`] | networks as data: layers, shape inference, parameter names, initial values |
//! | [`model`] | named parameters and one flat vector of values |
//! | [`safetensors`] | models and updates as safetensors files: writer, and a streaming reader that trusts nothing |
//! | [`update`] | one client's weight delta as a file, and what a server checks in it |
//! | [`body`] | files as zstd frames where that makes them shorter |
//! | [`download`] | how models travel to the clients |
//! | [`device`], [`operator`] | requests and responses of the two APIs |
//! | [`problem`] | errors as RFC 9457 problem documents |
//! | [`state`] | states of jobs, rounds and assignments |
//! | [`seed`] | randomness as an argument |
//! | [`sealed`] | secrets that logs cannot show |
//! | [`hash`], [`digest`] | content hashes, and their form in a header |
//! | [`cpu`] | loops that run at the width of the CPU at hand, with the same bits everywhere |

pub mod body;
pub mod cpu;
pub mod device;
pub mod digest;
pub mod download;
pub mod hash;
pub mod id;
pub mod job_file;
pub mod layers;
pub mod model;
pub mod operator;
pub mod plan;
pub mod problem;
pub mod safetensors;
#[cfg(feature = "openapi")]
mod schema;
pub mod sealed;
pub mod seed;
pub mod state;
pub mod update;
