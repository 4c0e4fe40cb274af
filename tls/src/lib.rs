//! The cryptography of every TLS connection: ring, and a key exchange that a quantum computer does not break.
//!
//! The coordinator, the SDK and the command line take their provider from here, so both ends of a connection offer the
//! same. A peer that does not know [`X25519MLKEM768`](rustls::NamedGroup::X25519MLKEM768) is served with the groups of
//! ring. TLS 1.2 uses only those. With the feature `x509` it reads certificates.

#[cfg(feature = "x509")]
pub mod devices;
mod hybrid;
#[cfg(feature = "x509")]
pub mod x509;

use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, ring};

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    let mut provider = ring::default_provider();
    provider.kx_groups.insert(0, &hybrid::X25519MlKem768);
    Arc::new(provider)
});

/// The provider that every connection uses.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::clone(&PROVIDER)
}

/// Makes the provider that of the process, for libraries that take none as an argument. A provider that the app has
/// installed before stays.
pub fn install() {
    // An error says only that a provider is installed already.
    let _ = CryptoProvider::clone(&PROVIDER).install_default();
}
