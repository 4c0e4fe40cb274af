//! EDEN and DRIVE: a random rotation, then one to four bits for each value.

use serde::{Deserialize, Serialize};

use super::super::Properties;
use super::super::frame::{Section, SectionCodec, SectionError};
use super::BadSetting;
use crate::model::ParameterList;
use crate::seed::Stream;

/// Settings of `eden`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Eden {
    /// Bits for each value, 1 to 4.
    pub bits: u8,
}

impl Default for Eden {
    fn default() -> Self {
        Self { bits: 1 }
    }
}

impl Eden {
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

impl SectionCodec for Eden {
    fn section_bytes_max(&self, values: usize) -> usize {
        todo!()
    }

    fn decode(&self, bytes: &[u8], values: usize, out: &mut Section) -> Result<(), SectionError> {
        todo!()
    }
}
