//! One link: frames in and frames out. Whatever waits here can be dropped and asked again, and nothing is lost.

mod reader;
mod turns;
mod writer;

pub(crate) use reader::{FrameReader, Received};
pub use turns::Turns;
pub(crate) use writer::{FrameWriter, frame};
