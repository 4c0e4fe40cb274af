//! Entropy coding and fields of sections.

pub(super) mod bits;
mod chances;
pub(super) mod fields;
pub(super) mod levels;
pub(super) mod range_coder;
pub(super) mod rice;
#[cfg(test)]
pub(super) mod testing;
