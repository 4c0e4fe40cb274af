//! The device's key pair, and the certificate for it.
//!
//! | part | what it is |
//! |---|---|
//! | [`KeyStore`] | the trait: a public key, and signatures by the private key, which never leaves its store |
//! | `StoredKey` | a key in the client's state; the default with the feature `native` |
//! | [`ClientCertificate`] | the coordinator's certificate for the key, as TLS presents it |
//! | `request` | requests for such certificates |

#[cfg(not(feature = "native"))]
mod absent;
mod certificate;
mod contract;
#[cfg(feature = "native")]
pub(crate) mod presented;
pub(crate) mod request;
#[cfg(feature = "native")]
mod stored;

#[cfg(not(feature = "native"))]
pub(crate) use absent::NoKey;
pub use certificate::ClientCertificate;
pub(crate) use contract::KEY;
pub use contract::{KeyError, KeyStore};
pub use request::certificate_request;
#[cfg(feature = "native")]
pub use stored::StoredKey;
