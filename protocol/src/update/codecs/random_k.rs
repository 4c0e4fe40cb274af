//! Unbiased sparsification: a value is kept with a probability and divided by it.

use serde::{Deserialize, Serialize};

use super::super::Properties;
use super::super::frame::{Section, SectionCodec, SectionError};
use super::BadSetting;
use super::sparse::SparseValues;
use crate::model::ParameterList;
use crate::seed::Stream;

/// Settings of `random_k`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RandomK {
    /// Share of the values that is sent on average.
    pub density: f64,
    /// How the values are written that are sent.
    pub values: SparseValues,
}

impl Default for RandomK {
    fn default() -> Self {
        Self { density: 0.1, values: SparseValues::F16 }
    }
}

impl RandomK {
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

impl SectionCodec for RandomK {
    fn section_bytes_max(&self, values: usize) -> usize {
        todo!()
    }

    fn decode(&self, bytes: &[u8], values: usize, out: &mut Section) -> Result<(), SectionError> {
        todo!()
    }
}
