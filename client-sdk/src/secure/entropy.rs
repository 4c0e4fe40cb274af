//! Random bytes as an argument, for tests that repeat.

/// Fills a buffer with random bytes that nobody can predict.
pub type Entropy<'a> = dyn FnMut(&mut [u8]) -> Result<(), EntropyError> + 'a;

/// There are no random bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes: {0}")]
pub struct EntropyError(
    /// What happened, for the app's log.
    pub String,
);

/// The random bytes of the operating system, or of the browser.
///
/// # Errors
/// [`EntropyError`] if it gives none.
pub fn system_entropy(bytes: &mut [u8]) -> Result<(), EntropyError> {
    getrandom::fill(bytes).map_err(|error| EntropyError(error.to_string()))
}
