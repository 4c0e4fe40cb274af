//! Entropy coding and fields of sections.

mod ans;
pub(super) mod bits;
mod chances;
mod dither;
pub(super) mod fields;
pub(super) mod levels;
mod model;
pub(super) mod rice;
#[cfg(test)]
pub(super) mod testing;
