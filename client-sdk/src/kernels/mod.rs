//! Inner loops over vectors, which training and prediction share: safe Rust, compiled for each instruction set and
//! chosen at run time.
//!
//! A kernel is a struct of its arguments that implements `pulp::WithSimd`. Its tiles keep their sums in registers.
//! Formulas without tiles are plain functions.

mod cell;
mod function;
mod geometry;
mod gradient;
mod gru;
mod layer_norm;
mod level;
mod lstm;
mod mean_pool;
mod pointwise;
mod pool;
mod product;
mod rows;
mod transpose;
mod vectors;
mod windows;

pub(crate) use cell::{Cell, Moment};
pub(crate) use function::Function;
pub(crate) use geometry::Geometry;
pub(crate) use gradient::WindowGradient;
pub(crate) use gru::Gru;
pub(crate) use layer_norm::{layer_norm, statistics};
pub(crate) use level::Level;
pub(crate) use lstm::Lstm;
pub(crate) use mean_pool::AvgPool;
pub(crate) use pointwise::{Add, AddRows, ReluMask, Scale};
pub(crate) use pool::{MaxPool, MaxPoolBack, PoolGrid};
pub(crate) use product::Product;
pub(crate) use rows::{Dots, PullBack, RowGradient};
pub(crate) use transpose::transpose;
pub(crate) use windows::{Grid, WindowProducts};
