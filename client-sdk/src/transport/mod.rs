//! How requests reach the coordinator.
//!
//! | part | what it is |
//! |---|---|
//! | [`Transport`] | the trait: a request to a response whose body is a stream |
//! | [`HttpTransport`] | over HTTP with reqwest; the default |
//! | `coordinator` | the device API over a transport: one method per call, problem documents as errors, retries |
//! | `download`, `upload` | bodies that continue where they broke off |
//! | `retry` | the pause between two attempts |

mod contract;
pub(crate) mod coordinator;
pub(crate) mod download;
mod http;
mod retry;
pub(crate) mod upload;

pub use self::http::HttpTransport;
pub(crate) use self::http::is_url;
pub use contract::{Body, Request, Response, Transport, TransportError};
