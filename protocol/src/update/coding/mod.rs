//! Codes that sections are made of.

pub(super) mod bits;
pub(super) mod rice;
