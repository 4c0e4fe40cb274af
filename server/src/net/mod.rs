//! Connections: accepting them, limiting them, and handing their requests to the router.
//!
//! | part | content |
//! |---|---|
//! | `listen` | one port: HTTP/1.1 and HTTP/2, time limits |
//! | `connections` | which connections are open, and which make room when there are too many |
//! | `answering` | a request on its way through the router: its connection is at work |
//! | `peer` | the certificate of a connection's client |
//! | `listeners` | the ports: one for all, or another one for operators |
//! | `limits` | the limits of connections, derived from the limit of open files |
//! | `tls` | certificates: from files, from a CA of our own, or by ACME |

mod answering;
mod connections;
mod limits;
pub(crate) mod listen;
mod listeners;
mod peer;
mod tls;

pub(crate) use answering::Kept;
pub use limits::{ConnectionLimits, raise_open_files};
pub use listeners::Listeners;
pub use peer::PeerCertificate;
pub(crate) use tls::DEVICE_CA;
pub use tls::{AcmeError, AcmeSettings, PinnedCa, Tls, TlsError, TlsSource, directory_beside};
