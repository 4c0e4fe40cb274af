//! Codes that sections are made of.

pub(super) mod fields;
pub(super) mod levels;
pub(super) mod range_coder;
#[cfg(test)]
pub(super) mod testing;
