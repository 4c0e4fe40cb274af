//! One link: frames in and frames out. Whatever waits here can be dropped and asked again, and nothing is lost.

mod reader;
mod writer;

pub(crate) use reader::{FrameReader, Received};
pub(crate) use writer::{FrameWriter, frame};
