//! Rules that read every update independently, so that a few wrong ones have a bounded effect.
//!
//! | part | what it computes |
//! |---|---|
//! | [`Distances`] | squared distances of all pairs, stripe by stripe |
//! | [`krum`] | scores and selections: Krum, multi-Krum, Bulyan |
//! | [`centre`] | weights of the geometric median and of centered clipping |
//! | [`Middle`] | median, trimmed mean and Bulyan's mean of each coordinate |
//!
//! A geometric median and a clipped centre are affine combinations of the updates, so their iterations need only the
//! distances of pairs: the updates are read once for the distances and once for the result, however many iterations
//! there are.

pub(super) mod centre;
mod distances;
pub(super) mod krum;
mod middle;
#[cfg(test)]
mod tests;

pub use distances::Distances;
pub use middle::Middle;
