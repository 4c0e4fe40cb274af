//! How requests reach the coordinator.
//!
//! | part | what it is |
//! |---|---|
//! | [`Transport`] | the trait: a request to a response whose body is a stream |
//! | [`HttpTransport`] | over HTTP with reqwest; the default |
//! | [`Trust`] | the CAs whose certificates are accepted |
//! | `coordinator` | the device API over a transport: one method per call, problem documents as errors, retries |
//! | `download`, `upload` | bodies that continue where they broke off |
//! | `retry` | the pause between two attempts |

mod contract;
pub(crate) mod coordinator;
pub(crate) mod download;
mod http;
mod retry;
mod trust;
pub(crate) mod upload;

pub(crate) use self::http::is_url;
pub use self::http::{HttpTransport, is_exposed};
pub use contract::{Body, Request, Response, Transport, TransportError};
pub use trust::{Trust, TrustError};
