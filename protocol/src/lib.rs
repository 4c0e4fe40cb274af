//! The types and formats that Tributary's clients and coordinators exchange.
//!
//! The crate has no I/O and no async, so it also builds for `wasm32`.
//!
//! | module | contents |
//! |---|---|
//! | [`id`] | identifiers, names and credentials |
//! | [`job_file`] | job files: model, training plan, round policy, aggregation |
//! | [`plan`] | local training settings |
//! | [`rate`] | schedules of learning rates |
//! | [`analysis`] | questions to the clients' tables, and what a client answers |
//! | [`layers`] | networks as data: layers, shape inference, parameter names, initial values |
//! | [`card`] | what a model file says of itself |
//! | [`inputs`] | what a network is fed, and the sums that fix means and deviations |
//! | [`job_model`], [`sharing`] | the model of a job; which of its parameters are shared, frozen and personal |
//! | [`model`] | named parameters and one flat vector of values |
//! | [`safetensors`] | safetensors files of models and updates: a writer, and a streaming reader for untrusted input |
//! | [`update`] | updates: a client's weight delta in one of thirteen codecs, with the checks of the server |
//! | [`body`] | bodies as zstd frames, where that saves bytes |
//! | [`download`] | the forms in which clients download models |
//! | [`attributes`], [`abilities`] | attributes of clients; what their SDKs can do, and what a plan needs |
//! | [`example_sets`] | named example sets of clients |
//! | [`device`], [`operator`] | requests and responses of the two HTTP APIs |
//! | [`relay`] | what a relay says to its parent |
//! | [`coded`], [`coded_tree`] | rounds in which several clients hold the same data; a code on each level of relays |
//! | [`fixed`], [`figures`] | weights and values of sums in fixed point; what is known of an update beside its values |
//! | [`sum`] | exact partial sums of updates: a body with one encoding, its writer and its streaming reader |
//! | [`group`] | groups whose members add up among themselves: the schedule of a ring, and the frames of its links |
//! | [`scalars`], [`classes`] | named scalars of reports; counts of an evaluation by class |
//! | [`credential`] | certificates, secrets and attestation of clients |
//! | [`problem`] | errors as problem documents (RFC 9457) |
//! | [`state`] | states of jobs, rounds and assignments |
//! | [`text`] | text that people see, without characters that act on a terminal |
//! | [`secure`] | secure aggregation: sums of updates that the coordinator cannot read one by one |
//! | [`traffic`] | bytes on the wire |
//! | [`seed`] | seeds and portable random streams |
//! | [`sealed`] | secrets that logs cannot show |
//! | [`hash`], [`digest`] | SHA-256 content hashes, and the header `Repr-Digest` |
//! | [`cpu`] | loops compiled for several CPUs, with the same result on all |

#![warn(missing_docs)]

pub mod abilities;
pub mod analysis;
pub mod attributes;
pub mod body;
pub mod card;
pub mod classes;
pub mod coded;
pub mod coded_tree;
pub mod cpu;
pub mod credential;
pub mod device;
pub mod digest;
pub mod download;
pub mod example_sets;
pub mod figures;
pub mod fixed;
pub mod gate;
pub mod graph;
pub mod group;
pub mod hash;
mod hex;
pub mod id;
pub mod inputs;
pub mod job_file;
pub mod job_model;
pub mod layers;
pub mod model;
pub mod noise;
mod open_jobs;
pub mod operator;
pub mod plan;
pub mod problem;
pub mod rate;
pub mod relay;
pub mod release;
pub mod safetensors;
pub mod scalars;
#[cfg(feature = "openapi")]
mod schema;
pub mod sealed;
pub mod secure;
pub mod seed;
pub mod sharing;
pub mod state;
pub mod sum;
pub mod text;
pub mod traffic;
pub mod update;
pub mod version_of;
