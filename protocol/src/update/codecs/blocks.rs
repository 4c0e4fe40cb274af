//! Whole numbers of 8 or 4 bits and one scale for each block of values.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::{EncodeError, Properties, UpdateError};
use super::BadSetting;
use crate::model::ParameterList;
use crate::safetensors::Header;
use crate::seed::Stream;

/// Settings of `int8` and `int4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Blocks {
    /// Values that share a scale; blocks begin anew with each parameter.
    pub block: u16,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { block: 64 }
    }
}

impl Blocks {
    pub(in super::super) fn properties(&self, bits: u32) -> Properties {
        todo!()
    }

    pub(in super::super) fn check(&self) -> Result<(), BadSetting> {
        Ok(())
    }
}

/// The update's file.
pub(in super::super) fn encode(
    delta: &[f32],
    parameters: &ParameterList,
    bits: u32,
    blocks: Blocks,
    stream: &mut Stream,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, EncodeError> {
    todo!()
}

/// Bytes of the file's data.
pub(in super::super) fn data_bytes(parameters: &ParameterList, bits: u32, blocks: Blocks) -> u64 {
    todo!()
}

/// The server's half.
#[derive(Debug)]
pub(in super::super) struct BlocksReader {}

impl BlocksReader {
    pub(in super::super) fn new(parameters: Arc<ParameterList>, bits: u32, blocks: Blocks) -> Self {
        todo!()
    }

    /// Checks that the file has the right tensors, each parameter's scales before its values.
    pub(in super::super) fn header(&mut self, header: &Header) -> Result<(), UpdateError> {
        todo!()
    }

    /// Takes elements of a tensor and hands out, as (place in the flat vector, values), what they give.
    pub(in super::super) fn block(
        &mut self,
        tensor: usize,
        element: usize,
        bytes: &[u8],
        accept: &mut impl FnMut(usize, &[f32]) -> Result<(), UpdateError>,
    ) -> Result<(), UpdateError> {
        todo!()
    }
}
