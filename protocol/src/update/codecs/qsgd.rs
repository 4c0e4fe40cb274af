//! QSGD: the norm of a bucket and whole levels of it.

use serde::{Deserialize, Serialize};

use super::super::Properties;
use super::super::frame::{Section, SectionCodec, SectionError};
use super::BadSetting;
use crate::model::ParameterList;
use crate::seed::Stream;

/// Settings of `qsgd`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Qsgd {
    /// Levels above zero, s in the paper.
    pub levels: u16,
    /// Values that share a norm.
    pub bucket: u32,
}

impl Default for Qsgd {
    fn default() -> Self {
        Self { levels: 4, bucket: 512 }
    }
}

impl Qsgd {
    pub(in super::super) fn properties(&self) -> Properties {
        todo!()
    }

    pub(in super::super) fn check(&self) -> Result<(), BadSetting> {
        Ok(())
    }

    pub(in super::super) fn encode(&self, delta: &[f32], parameters: &ParameterList, stream: &mut Stream) -> Vec<u8> {
        todo!()
    }
}

impl SectionCodec for Qsgd {
    fn section_bytes_max(&self, values: usize) -> usize {
        todo!()
    }

    fn decode(&self, bytes: &[u8], values: usize, out: &mut Section) -> Result<(), SectionError> {
        todo!()
    }
}
