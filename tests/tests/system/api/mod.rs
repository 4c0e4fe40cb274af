//! What every call answers, above all to bad input: a typed problem, and nothing lost or changed.

mod accounts;
mod audit;
mod clients;
mod cors;
mod docs;
mod enrolment;
mod feed;
mod filing;
mod jobs;
mod join;
mod late_reports;
mod models;
mod observing;
mod oidc;
mod overview;
mod paging;
mod policy;
mod reports;
mod roles;
mod routes;
mod system;
mod tokens;
mod unusable_databases;
mod updates;
mod uploads;
