//! What every call answers, above all to bad input: a typed problem, and nothing lost or changed.

mod clients;
mod docs;
mod feed;
mod jobs;
mod late;
mod models;
mod observing;
mod opening;
mod overview;
mod paging;
mod policy;
mod reports;
mod routes;
mod system;
mod tokens;
mod updates;
mod uploads;
