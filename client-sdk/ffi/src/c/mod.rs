//! The SDK for C: what `include/tributary.h` declares. A test compares the two.
//!
//! | module | what it is |
//! |---|---|
//! | `types` | structures that C fills in or reads |
//! | `calls` | functions that C calls |
//! | `models` | the same for models that predict |
//! | `sets` | the same for apps with several models |
//! | `tables` | the call with which a table answers analyses, and its callback |
//! | `callbacks` | C's functions as the callbacks of the SDK |
//! | `status` | results of calls, and the text of the last error |
//!
//! Every call returns a status. It checks its pointers for null and catches panics.

mod callbacks;
pub mod calls;
pub mod models;
#[cfg(test)]
mod models_tests;
pub mod sets;
#[cfg(test)]
mod sets_tests;
mod settings;
pub mod status;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod types;
