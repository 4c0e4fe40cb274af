//! Deep gradient compression: the largest values of a momentum.

use serde::{Deserialize, Serialize};

use super::super::Properties;
use super::super::frame::{Section, SectionCodec, SectionError};
use super::BadSetting;
use super::sparse::SparseValues;
use crate::model::ParameterList;
use crate::seed::Stream;

/// Settings of `dgc`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dgc {
    /// Share of the values that is sent once warmed up.
    pub density: f64,
    /// How the values are written that are sent.
    pub values: SparseValues,
    /// Momentum, 0 to 1.
    pub momentum: f32,
    /// Longest L2 norm of a delta before it is accumulated; 0 for none.
    pub clip: f32,
    /// Rounds over which the density falls to `density`.
    pub warm_up_rounds: u32,
}

impl Default for Dgc {
    fn default() -> Self {
        Self { density: 0.001, values: SparseValues::F16, momentum: 0.9, clip: 0.0, warm_up_rounds: 4 }
    }
}

impl Dgc {
    pub(in super::super) fn properties(&self) -> Properties {
        todo!()
    }

    pub(in super::super) fn check(&self) -> Result<(), BadSetting> {
        Ok(())
    }

    pub(in super::super) fn encode(&self, delta: &[f32], parameters: &ParameterList, round: u32, stream: &mut Stream) -> Vec<u8> {
        todo!()
    }
}

impl SectionCodec for Dgc {
    fn section_bytes_max(&self, values: usize) -> usize {
        todo!()
    }

    fn decode(&self, bytes: &[u8], values: usize, out: &mut Section) -> Result<(), SectionError> {
        todo!()
    }
}
