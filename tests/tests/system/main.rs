//! Whole-system tests: the real coordinator over loopback HTTP on a database file of its own.
//!
//! | module | what it claims |
//! |---|---|
//! | [`rounds`] | rounds from selection to the next model version, with a clock that the tests move |
//! | [`api`] | what every call answers, above all to bad input |
//! | [`sdk`] | the SDK's sessions against the real server |
//! | [`scheduled`] | what is done by the clock: rounds in their minutes, retention, upkeep |
//! | [`database`] | every query, on SQLite and on PostgreSQL |
//! | [`blobs`] | bodies in object stores: in memory, in files, over S3, and in one that fails |
//! | [`downloads`] | models in other forms, steps instead of models, the same bits for every client |
//! | [`streams`] | bodies that are never whole in memory: large, broken off, gone on with, two at once |
//! | [`hostile`] | the torture table: hostile clients and clocks, beside honest clients whose round commits |
//! | [`identity`] | who clients are: certificates, secrets, attestation |
//! | [`inputs`] | means and deviations that all clients find out together, and predictions from raw rows |
//! | [`simulation`] | drawn histories of losses, deaths and restarts: what was acknowledged is counted once |
//! | [`cluster`] | three coordinators on one PostgreSQL, one of which dies |
//! | [`relays`] | relays between clients and coordinator: the bits of a tree, and what fails in one |
//! | [`releases`] | released models: who gets which, what a gate holds back, models that are only evaluated |
//! | [`schema`] | the OpenAPI document holds for drawn requests |
//! | [`diagnosis`] | known worlds, and what operators read about them |
//! | [`truth`] | known worlds, and whether what operators read of results, health and losses is true |
//! | [`house`] | the rules of the source tree: imports, rooms, packages, texts |
//! | [`outside`] | programs of other people, over TLS: a client in Python, a scanner; and the page about the protocol |
//! | [`wire`] | recorded exchanges of every release: old clients, and old coordinators |
//! | [`python`] | exported models, read and computed by somebody else |
//!
//! [`support`] has the world that they play in. No test sleeps, measures time or needs a fixed port.
#![expect(clippy::unwrap_used, reason = "in a test, what goes wrong should end it at once")]

mod api;
mod blobs;
mod cluster;
mod database;
mod diagnosis;
mod downloads;
mod hostile;
mod house;
mod identity;
mod inputs;
mod onnx;
mod outside;
mod python;
mod relays;
mod releases;
mod rounds;
mod scheduled;
mod schema;
mod sdk;
mod simulation;
mod streams;
mod support;
mod truth;
mod wire;
