//! Writes safetensors files. The same tensors give the same bytes.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Dtype, METADATA_KEY, PREFIX_BYTES, TensorSpec};

/// A tensor to write.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Name, unique in the file.
    pub name: &'a str,
    /// Length of each dimension; empty for a scalar.
    pub shape: &'a [usize],
    /// Elements in row-major order.
    pub data: Data<'a>,
}

/// The elements of a tensor.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// f32 values.
    F32(&'a [f32]),
    /// Elements of any type, as little-endian bytes.
    Bytes(Dtype, &'a [u8]),
}

impl Data<'_> {
    fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::Bytes(dtype, _) => *dtype,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::F32(values) => size_of_val(*values),
            Self::Bytes(_, bytes) => bytes.len(),
        }
    }

    fn append_to(&self, file: &mut Vec<u8>) {
        match self {
            Self::F32(values) => file.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::Bytes(_, bytes) => file.extend_from_slice(bytes),
        }
    }
}

/// Writes a file of tensors in this order.
///
/// The metadata come first in the header. Spaces pad the header, so that the data begin at a multiple of 8 bytes.
///
/// # Panics
/// If the length of a tensor's data does not match its shape, a mistake of the caller.
pub fn write(tensors: &[Tensor<'_>], metadata: &BTreeMap<String, String>) -> Vec<u8> {
    for tensor in tensors {
        let elements: usize = tensor.shape.iter().product();
        assert_eq!(tensor.data.bytes(), elements * tensor.data.dtype().bytes(), "data of tensor {:?}", tensor.name);
    }
    let entries: Vec<Entry<'_>> = tensors
        .iter()
        .map(|tensor| Entry {
            name: tensor.name,
            dtype: tensor.data.dtype(),
            shape: tensor.shape,
            bytes: tensor.data.bytes(),
        })
        .collect();
    let data_bytes: usize = entries.iter().map(|entry| entry.bytes).sum();
    let mut file = beginning(&entries, metadata);
    file.reserve_exact(data_bytes);
    for tensor in tensors {
        tensor.data.append_to(&mut file);
    }
    file
}

/// The entry of a tensor in the header.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: Dtype,
    pub(super) shape: &'a [usize],
    pub(super) bytes: usize,
}

/// The bytes of a file before its first element.
pub(super) fn beginning(tensors: &[Entry<'_>], metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let header = serde_json::to_vec(&Contents { tensors, metadata }).expect("strings and numbers are always JSON");
    let header_bytes = header.len().next_multiple_of(PREFIX_BYTES);
    let mut file = Vec::with_capacity(PREFIX_BYTES + header_bytes);
    file.extend_from_slice(&(header_bytes as u64).to_le_bytes());
    file.extend_from_slice(&header);
    file.resize(PREFIX_BYTES + header_bytes, b' ');
    file
}

/// The bytes of a file before its first element, from specs.
pub(crate) fn beginning_of(specs: &[TensorSpec], metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let bytes = |spec: &TensorSpec| spec.shape.iter().product::<usize>() * spec.dtype.bytes();
    let entries: Vec<_> = specs
        .iter()
        .map(|spec| Entry { name: &spec.name, dtype: spec.dtype, shape: &spec.shape, bytes: bytes(spec) })
        .collect();
    beginning(&entries, metadata)
}

/// The header in the order in which it is written.
struct Contents<'a> {
    tensors: &'a [Entry<'a>],
    metadata: &'a BTreeMap<String, String>,
}

#[derive(serde::Serialize)]
struct Placed<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    data_offsets: (usize, usize),
}

impl Serialize for Contents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.metadata.is_empty() {
            map.serialize_entry(METADATA_KEY, self.metadata)?;
        }
        let mut begin = 0;
        for tensor in self.tensors {
            let end = begin + tensor.bytes;
            let placed = Placed { dtype: tensor.dtype, shape: tensor.shape, data_offsets: (begin, end) };
            map.serialize_entry(tensor.name, &placed)?;
            begin = end;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_library_reads_what_is_written() {
        let tensors = [
            Tensor {
                name: "layer \"ü\".weight",
                shape: &[2, 2],
                data: Data::F32(&[1.0, -2.5, f32::MIN_POSITIVE, 4e9]),
            },
            Tensor { name: "codes", shape: &[3], data: Data::Bytes(Dtype::I8, &[1, 2, 255]) },
            Tensor { name: "scalar", shape: &[], data: Data::F32(&[0.5]) },
        ];
        let file = write(&tensors, &BTreeMap::from([("note".into(), "a\nb".into())]));
        let read = ::safetensors::SafeTensors::deserialize(&file).unwrap();
        assert_eq!(read.len(), 3);
        let weight = read.tensor("layer \"ü\".weight").unwrap();
        assert_eq!((weight.dtype(), weight.shape()), (::safetensors::Dtype::F32, &[2, 2][..]));
        assert_eq!(weight.data()[4..8], (-2.5f32).to_le_bytes());
        assert_eq!(read.tensor("codes").unwrap().data(), [1, 2, 255]);
        let (_, metadata) = ::safetensors::SafeTensors::read_metadata(&file).unwrap();
        assert_eq!(metadata.metadata().as_ref().unwrap()["note"], "a\nb");
    }

    #[test]
    fn the_data_begins_at_a_multiple_of_eight_bytes() {
        for letters in 1..20 {
            let name = "n".repeat(letters);
            let file = write(&[Tensor { name: &name, shape: &[], data: Data::F32(&[1.0]) }], &BTreeMap::new());
            assert_eq!((file.len() - 4) % 8, 0);
        }
    }

    #[test]
    #[should_panic(expected = "data of tensor \"w\"")]
    fn data_that_does_not_fit_its_shape_is_the_callers_mistake() {
        let _ = write(&[Tensor { name: "w", shape: &[2], data: Data::F32(&[1.0]) }], &BTreeMap::new());
    }
}
