//! The comparison of a file's tensors with the expected ones.

use std::collections::HashMap;

use super::{Dtype, Header, shortened};
use crate::model::{ParameterList, ParameterSpec};

/// An expected tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Name, unique among the expected tensors.
    pub name: String,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Length of each dimension; empty for a scalar.
    pub shape: Vec<usize>,
}

/// A file whose tensors are not the expected ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An expected tensor is missing.
    #[error("tensor {0:?} is missing")]
    Missing(String),
    /// The file has a tensor that is not expected.
    #[error("tensor {0:?} is not part of the model")]
    Extra(String),
    /// A tensor has another shape.
    #[error("tensor {tensor:?} has the shape {got:?} instead of {expected:?}")]
    Misshapen {
        /// Name of the tensor.
        tensor: String,
        /// The expected shape.
        expected: Vec<usize>,
        /// The shape in the file.
        got: Vec<usize>,
    },
    /// A tensor has elements of another type.
    #[error("tensor {tensor:?} holds {got} instead of {expected}")]
    WrongDtype {
        /// Name of the tensor.
        tensor: String,
        /// The expected type.
        expected: Dtype,
        /// The type in the file.
        got: Dtype,
    },
}

/// One tensor for each parameter, of its name and shape.
pub(crate) fn tensor_per_parameter(parameters: &ParameterList, dtype: Dtype) -> Vec<TensorSpec> {
    let spec = |spec: &ParameterSpec| TensorSpec { name: spec.name.clone(), dtype, shape: spec.shape.clone() };
    parameters.specs().iter().map(spec).collect()
}

/// Checks that the file has exactly the expected tensors, in any order. Returns, for each tensor in the order of the
/// data, its index in `expected`.
///
/// # Errors
/// [`LayoutError`] for the first tensor that is unexpected, wrong or missing.
pub fn match_tensors(header: &Header, expected: &[TensorSpec]) -> Result<Vec<usize>, LayoutError> {
    let by_name: HashMap<&str, usize> =
        expected.iter().enumerate().map(|(index, spec)| (spec.name.as_str(), index)).collect();
    let mut places = Vec::with_capacity(expected.len());
    for info in header.tensors() {
        let Some(&index) = by_name.get(info.name.as_str()) else {
            return Err(LayoutError::Extra(shortened(&info.name)));
        };
        let spec = &expected[index];
        if info.shape != spec.shape {
            let (expected, got) = (spec.shape.clone(), info.shape.clone());
            return Err(LayoutError::Misshapen { tensor: spec.name.clone(), expected, got });
        }
        if info.dtype != spec.dtype {
            let (expected, got) = (spec.dtype, info.dtype);
            return Err(LayoutError::WrongDtype { tensor: spec.name.clone(), expected, got });
        }
        places.push(index);
    }
    // Names are unique on both sides, so the counts differ if a tensor is missing.
    if places.len() < expected.len() {
        let mut found = vec![false; expected.len()];
        places.iter().for_each(|index| found[*index] = true);
        if let Some(missing) = found.iter().position(|found| !found) {
            return Err(LayoutError::Missing(expected[missing].name.clone()));
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(tensors: &[(&str, &str, &str, u64)]) -> Header {
        let mut begin = 0;
        let entries: Vec<String> = tensors
            .iter()
            .map(|(name, dtype, shape, bytes)| {
                let end = begin + bytes;
                let entry = format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#);
                begin = end;
                entry
            })
            .collect();
        Header::parse(format!("{{{}}}", entries.join(",")).as_bytes()).expect("the test's own header is right")
    }

    fn expected() -> Vec<TensorSpec> {
        let spec =
            |name: &str, shape: &[usize]| TensorSpec { name: name.into(), dtype: Dtype::F32, shape: shape.into() };
        vec![spec("w", &[2, 3]), spec("b", &[3])]
    }

    #[test]
    fn any_order_of_the_right_tensors_will_do() {
        let file = header(&[("b", "F32", "[3]", 12), ("w", "F32", "[2,3]", 24)]);
        assert_eq!(match_tensors(&file, &expected()), Ok(vec![1, 0]));
    }

    #[test]
    fn whatever_differs_is_named() {
        let matched = |tensors: &[_]| match_tensors(&header(tensors), &expected()).expect_err("must be refused");
        let (w, b) = (("w", "F32", "[2,3]", 24), ("b", "F32", "[3]", 12));
        assert_eq!(matched(&[w]), LayoutError::Missing("b".into()));
        assert_eq!(matched(&[]), LayoutError::Missing("w".into()));
        assert_eq!(matched(&[w, b, ("c", "F32", "[0]", 0)]), LayoutError::Extra("c".into()));
        assert_eq!(
            matched(&[("w", "F32", "[3,2]", 24), b]),
            LayoutError::Misshapen { tensor: "w".into(), expected: vec![2, 3], got: vec![3, 2] }
        );
        assert_eq!(
            matched(&[w, ("b", "F16", "[3]", 6)]),
            LayoutError::WrongDtype { tensor: "b".into(), expected: Dtype::F32, got: Dtype::F16 }
        );
    }
}
