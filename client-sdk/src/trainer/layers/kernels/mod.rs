//! Inner loops over vectors: safe Rust, compiled for each instruction set and chosen at run time.
//!
//! A kernel is a struct of its arguments that implements `pulp::WithSimd`. Its tiles keep their sums in registers.

mod gradient;
mod level;
mod pointwise;
mod pool;
mod rows;
mod vectors;
mod windows;

pub(super) use gradient::WindowGradient;
pub(super) use level::Level;
pub(super) use pointwise::{Add, AddRows, ReluMask, Scale};
pub(super) use pool::{MaxPool, MaxPoolBack, PoolGrid};
pub(super) use rows::{Dots, PullBack, RowGradient};
pub(super) use windows::{Grid, WindowProducts};
