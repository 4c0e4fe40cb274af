//! How requests reach the coordinator.
//!
//! | part | what it is |
//! |---|---|
//! | [`Transport`] | the trait: a request to a response whose body is a stream |
//! | `HttpTransport` | over HTTP with reqwest; the default with the feature `native` |
//! | `Trust` | the CAs whose certificates it accepts |
//! | `coordinator` | the device API over a transport: one method per call, problem documents as errors, retries |
//! | `received` | answers that a newer coordinator may have written |
//! | `download`, `upload` | bodies that continue where they broke off |
//! | `ranges`, `parts` | bodies from and to several coordinators at once |
//! | `retry` | the pause between two attempts |

mod contract;
pub(crate) mod coordinator;
pub(crate) mod download;
#[cfg(feature = "native")]
mod http;
pub(crate) mod parts;
pub(crate) mod ranges;
pub(crate) mod received;
mod retry;
#[cfg(feature = "native")]
#[cfg(test)]
mod tests;
#[cfg(feature = "native")]
mod trust;
pub(crate) mod upload;

#[cfg(feature = "native")]
pub(crate) use self::http::is_url;
#[cfg(feature = "native")]
pub use self::http::{HttpTransport, is_exposed};
pub use contract::{Body, Request, Response, Transport, TransportError};
#[cfg(feature = "group")]
pub use contract::{Duplex, Wire};
#[cfg(feature = "native")]
pub use trust::{Trust, TrustError};
