//! Randomness from the operating system.

use crate::error::CliError;

pub fn random<const N: usize>() -> Result<[u8; N], CliError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| CliError::Runtime(std::io::Error::other(error.to_string())))?;
    Ok(bytes)
}
