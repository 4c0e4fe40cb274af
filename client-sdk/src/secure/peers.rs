//! Whom a member trusts: other members' certificates and signatures.

use std::fmt::Debug;
use std::sync::Arc;

use tributary_protocol::secure::signing::Signature;

use crate::keys::KeyStore;

/// Verifies what other members of a group say of themselves.
pub trait Peers: Debug + Send + Sync {
    /// Whether this certificate (DER) was issued to a device by the CA that the app pinned, and is valid now.
    fn is_trusted(&self, certificate: &[u8]) -> bool;

    /// Whether the key of this certificate, on the curve P-256, signed the SHA-256 of this message.
    fn has_signed(&self, certificate: &[u8], message: &[u8], signature: &Signature) -> bool;
}

/// The certificate with which a client signs in its groups, in DER, and whom it trusts.
#[derive(Clone, Debug)]
pub(crate) struct Signing {
    pub(crate) certificate: Vec<u8>,
    pub(crate) peers: Arc<dyn Peers>,
}

/// What a member of a group with signatures needs.
#[derive(Clone, Copy, Debug)]
pub struct Signers<'a> {
    /// The device's own key.
    pub keys: &'a dyn KeyStore,
    /// Whom to trust.
    pub peers: &'a dyn Peers,
}
