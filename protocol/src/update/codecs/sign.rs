//! Signs and one mean magnitude for each section; what that loses is added the next time.

use super::super::Properties;
use super::super::frame::{Section, SectionCodec, SectionError};
use crate::model::ParameterList;

/// The server's half.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sign;

pub(in super::super) fn properties() -> Properties {
    todo!()
}

pub(in super::super) fn encode(delta: &[f32], parameters: &ParameterList) -> Vec<u8> {
    todo!()
}

impl SectionCodec for Sign {
    fn section_bytes_max(&self, values: usize) -> usize {
        todo!()
    }

    fn decode(&self, bytes: &[u8], values: usize, out: &mut Section) -> Result<(), SectionError> {
        todo!()
    }
}
