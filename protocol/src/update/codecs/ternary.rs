//! TernGrad: a scale and -1, 0 or 1 for each value.

use serde::{Deserialize, Serialize};

use super::super::Properties;
use super::super::frame::{Section, SectionCodec, SectionError};
use super::BadSetting;
use crate::model::ParameterList;
use crate::seed::Stream;

/// Settings of `ternary`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ternary {
    /// Values are clipped at so many standard deviations of their section; 0 for none, which alone is unbiased.
    pub clip: f32,
}

impl Default for Ternary {
    fn default() -> Self {
        Self { clip: 0.0 }
    }
}

impl Ternary {
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

impl SectionCodec for Ternary {
    fn section_bytes_max(&self, values: usize) -> usize {
        todo!()
    }

    fn decode(&self, bytes: &[u8], values: usize, out: &mut Section) -> Result<(), SectionError> {
        todo!()
    }
}
