//! LSTM and GRU with PyTorch's parameters (`torch.nn.LSTM`, `GRU`, one layer, one direction): the matrices of the gates
//! are stacked by rows. States start at 0.
//!
//! Buffers are `[time][batch][..]`, so that the rows of a time step are together.

mod shape;
mod stage;

pub(super) use shape::Shape;
pub(super) use stage::Recurrent;
