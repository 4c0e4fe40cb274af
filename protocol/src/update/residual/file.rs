//! A residual, and its file on the device.

use std::collections::BTreeMap;

use crate::hash::Sha256Hash;
use crate::safetensors::{
    Data, Decoder, Dtype, Header, LayoutError, SafetensorsError, Sink, Tensor, TensorSpec, match_tensors, shortened,
    write,
};

/// The value of `format` in the metadata of a residual's file.
const FORMAT: &str = "tributary-memory-1";
const RESIDUAL: &str = "residual";
const MOMENTUM: &str = "momentum";
/// Longest header of the file, in bytes: two tensors and three entries take a few hundred.
const HEADER_BYTES_MAX: u64 = 4096;

/// What a device keeps of its last accepted update to a job, for error feedback.
#[derive(Clone, Debug, PartialEq)]
pub struct Residual {
    /// The part of the accumulated delta that was not sent, one value for each parameter.
    pub values: Vec<f32>,
    /// The momentum of `dgc`, one value for each parameter; `None` for other codecs.
    pub momentum: Option<Vec<f32>>,
    /// The round of the update that left this residual.
    pub round: u32,
    /// The model that the update was relative to.
    pub model_sha256: Sha256Hash,
}

/// A file that is not a residual.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResidualError {
    /// The file is not a safetensors file.
    #[error(transparent)]
    File(#[from] SafetensorsError),
    /// The tensors are not those of a residual.
    #[error(transparent)]
    Tensors(#[from] LayoutError),
    /// The format is not one that this release reads.
    #[error("the residual's format is {0:?} instead of {FORMAT:?}")]
    WrongFormat(String),
    /// A required entry of the metadata is missing or cannot be parsed.
    #[error("the residual's metadata has no valid {0:?}")]
    BadMetadata(&'static str),
    /// A value is NaN or infinite.
    #[error("value {index} of tensor {tensor:?} is not finite")]
    NotFinite {
        /// `residual` or `momentum`.
        tensor: &'static str,
        /// Index in the tensor.
        index: usize,
    },
}

impl Residual {
    /// The residual as one safetensors file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let metadata = BTreeMap::from([
            ("format".to_owned(), FORMAT.to_owned()),
            ("model_sha256".to_owned(), self.model_sha256.to_string()),
            ("round".to_owned(), self.round.to_string()),
        ]);
        let (values_shape, momentum_shape) = ([self.values.len()], [self.momentum.as_ref().map_or(0, Vec::len)]);
        let mut tensors = vec![Tensor { name: RESIDUAL, shape: &values_shape, data: Data::F32(&self.values) }];
        if let Some(momentum) = &self.momentum {
            tensors.push(Tensor { name: MOMENTUM, shape: &momentum_shape, data: Data::F32(momentum) });
        }
        write(&tensors, &metadata)
    }

    /// Reads a residual from its file. The file may be damaged: everything in it is checked.
    ///
    /// # Errors
    /// [`ResidualError`] for the first check that fails.
    pub fn from_bytes(file: &[u8]) -> Result<Self, ResidualError> {
        let mut reader = Reader::default();
        let mut decoder = Decoder::new(HEADER_BYTES_MAX);
        decoder.push(file, &mut reader)?;
        decoder.finish()?;
        let Reader { metadata, has_momentum, values, momentum, .. } = reader;
        let entry = |key| metadata.get(key).ok_or(ResidualError::BadMetadata(key));
        let round = entry("round")?.parse().map_err(|_| ResidualError::BadMetadata("round"))?;
        let model_sha256 = entry("model_sha256")?.parse().map_err(|_| ResidualError::BadMetadata("model_sha256"))?;
        for (tensor, values) in [(RESIDUAL, &values), (MOMENTUM, &momentum)] {
            if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                return Err(ResidualError::NotFinite { tensor, index });
            }
        }
        Ok(Self { values, momentum: has_momentum.then_some(momentum), round, model_sha256 })
    }
}

/// Collects the tensors of a residual's file.
#[derive(Default)]
struct Reader {
    metadata: BTreeMap<String, String>,
    has_momentum: bool,
    /// Whether the momentum precedes the residual in the file.
    momentum_first: bool,
    values: Vec<f32>,
    momentum: Vec<f32>,
}

impl Sink for Reader {
    type Error = ResidualError;

    fn header(&mut self, header: &Header) -> Result<(), ResidualError> {
        let format = header.metadata().get("format").map_or("", String::as_str);
        if format != FORMAT {
            return Err(ResidualError::WrongFormat(shortened(format)));
        }
        let named = |name| header.tensors().iter().find(|info| info.name == name);
        let elements = named(RESIDUAL).ok_or_else(|| LayoutError::Missing(RESIDUAL.to_owned()))?.elements;
        let spec = |name: &str| TensorSpec { name: name.to_owned(), dtype: Dtype::F32, shape: vec![elements] };
        let mut expected = vec![spec(RESIDUAL)];
        self.has_momentum = named(MOMENTUM).is_some();
        if self.has_momentum {
            expected.push(spec(MOMENTUM));
        }
        self.momentum_first = match_tensors(header, &expected)?.first() == Some(&1);
        self.metadata = header.metadata().clone();
        Ok(())
    }

    fn block(&mut self, tensor: usize, _element: usize, bytes: &[u8]) -> Result<(), ResidualError> {
        let is_momentum = (tensor == 0) == self.momentum_first;
        let values = if is_momentum { &mut self.momentum } else { &mut self.values };
        // Grows with the bytes that came, not with the length that the header claims.
        values.extend(bytes.as_chunks().0.iter().map(|element| f32::from_le_bytes(*element)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MODEL: Sha256Hash = Sha256Hash([7; 32]);

    fn residual() -> Residual {
        let (values, momentum) = (vec![1.0, -2.0, 1e-40], Some(vec![0.5, 0.0, -0.0]));
        Residual { values, momentum, round: 12, model_sha256: MODEL }
    }

    proptest! {
        #[test]
        fn damaged_files_give_a_finite_residual_or_an_error(
            flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut file = residual().to_bytes();
            prop_assert!(Residual::from_bytes(&file[..cut.index(file.len())]).is_err());
            for (index, flip) in flips {
                let at = index.index(file.len());
                file[at] ^= flip;
            }
            if let Ok(residual) = Residual::from_bytes(&file) {
                prop_assert!(residual.values.iter().chain(residual.momentum.iter().flatten()).all(|v| v.is_finite()));
            }
        }
    }

    #[test]
    fn a_residual_comes_back_from_its_file() {
        for momentum in [None, residual().momentum] {
            let residual = Residual { momentum, ..residual() };
            let file = residual.to_bytes();
            assert_eq!(Residual::from_bytes(&file), Ok(residual.clone()));
            assert_eq!(Residual::from_bytes(&file).unwrap().to_bytes(), file);
        }
    }

    #[test]
    fn a_file_that_is_no_residual_is_refused_by_what_is_wrong() {
        let metadata = |changes: &[(&str, &str)]| {
            let mut metadata = BTreeMap::from([
                ("format".to_owned(), FORMAT.to_owned()),
                ("model_sha256".to_owned(), MODEL.to_string()),
                ("round".to_owned(), "3".to_owned()),
            ]);
            changes.iter().for_each(|(key, value)| drop(metadata.insert((*key).to_owned(), (*value).to_owned())));
            metadata
        };
        let residual = Tensor { name: RESIDUAL, shape: &[2], data: Data::F32(&[1.0, 2.0]) };
        let momentum = Tensor { name: MOMENTUM, shape: &[2], data: Data::F32(&[3.0, 4.0]) };
        let read = |tensors: &[Tensor<'_>], changes: &[(&str, &str)]| {
            Residual::from_bytes(&write(tensors, &metadata(changes)))
        };
        let refusal = |tensors: &[Tensor<'_>], changes: &[(&str, &str)]| read(tensors, changes).unwrap_err();
        let swapped = read(&[momentum, residual], &[]).unwrap();
        assert_eq!((swapped.values, swapped.momentum), (vec![1.0, 2.0], Some(vec![3.0, 4.0])));
        assert_eq!(refusal(&[residual], &[("format", "pt")]), ResidualError::WrongFormat("pt".into()));
        assert_eq!(refusal(&[residual], &[("round", "-1")]), ResidualError::BadMetadata("round"));
        assert_eq!(refusal(&[residual], &[("model_sha256", "07")]), ResidualError::BadMetadata("model_sha256"));
        assert_eq!(refusal(&[momentum], &[]), ResidualError::Tensors(LayoutError::Missing(RESIDUAL.into())));
        let short = Tensor { name: MOMENTUM, shape: &[1], data: Data::F32(&[3.0]) };
        assert!(matches!(refusal(&[residual, short], &[]), ResidualError::Tensors(LayoutError::Misshapen { .. })));
        let other = Tensor { name: "other", ..momentum };
        assert_eq!(refusal(&[residual, other], &[]), ResidualError::Tensors(LayoutError::Extra("other".into())));
        let nan = Tensor { data: Data::F32(&[0.0, f32::NAN]), ..residual };
        assert_eq!(refusal(&[nan], &[]), ResidualError::NotFinite { tensor: RESIDUAL, index: 1 });
        let mut long = 5000u64.to_le_bytes().to_vec();
        long.push(b'{');
        assert!(matches!(
            Residual::from_bytes(&long),
            Err(ResidualError::File(SafetensorsError::HeaderTooLong { .. }))
        ));
    }
}
