//! The device's key pair, and the certificate for it.
//!
//! | part | what it is |
//! |---|---|
//! | [`KeyStore`] | the trait: a public key, and signatures by the private key, which never leaves its store |
//! | [`StoredKey`] | a key in the client's state; the default |
//! | [`ClientCertificate`] | the coordinator's certificate for the key, as TLS presents it |
//! | `request` | requests for such certificates |

mod certificate;
mod contract;
pub(crate) mod request;
mod stored;

pub use certificate::ClientCertificate;
pub use contract::{KeyError, KeyStore};
pub use stored::StoredKey;
