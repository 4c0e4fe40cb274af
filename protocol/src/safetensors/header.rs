//! The checked header of a safetensors file.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::{Dtype, METADATA_KEY, SafetensorsError, shortened};
use crate::model::{NAME_BYTES_MAX, RANK_MAX};

/// Longest name of a tensor in bytes: a parameter's name with the suffix of a codec, such as `.scales`.
const TENSOR_NAME_BYTES_MAX: usize = NAME_BYTES_MAX + 32;

/// The header of a file. Names, shapes and offsets are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    tensors: Vec<TensorInfo>,
    metadata: BTreeMap<String, String>,
    data_bytes: u64,
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, unique in the file.
    pub name: String,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Length of each dimension; empty for a scalar.
    pub shape: Vec<usize>,
    /// Number of elements: the product of the shape.
    pub elements: usize,
    /// Bytes of all elements.
    pub bytes: u64,
}

impl Header {
    /// Parses the JSON text between the length and the data. It needs memory of a few times the text's length.
    ///
    /// # Errors
    /// [`SafetensorsError`] for the first tensor that is invalid.
    pub fn parse(text: &[u8]) -> Result<Self, SafetensorsError> {
        if text.first() != Some(&b'{') {
            return Err(SafetensorsError::BadHeader("it must begin with {".into()));
        }
        let raw: RawHeader =
            serde_json::from_slice(text).map_err(|error| SafetensorsError::BadHeader(shortened(&error.to_string())))?;
        let mut placed = Vec::new();
        let mut names = HashSet::new();
        for (name, tensor) in &raw.tensors {
            if name.is_empty() || name.len() > TENSOR_NAME_BYTES_MAX {
                return Err(SafetensorsError::BadName(shortened(name)));
            }
            if !names.insert(name.as_str()) {
                return Err(SafetensorsError::DuplicateName(shortened(name)));
            }
            placed.push((tensor.data_offsets, check_tensor(name, tensor)?));
        }
        // An empty tensor sorts before the tensor that begins at the same offset.
        placed.sort_by_key(|(offsets, _)| *offsets);
        let data_bytes = check_contiguous(&placed)?;
        let tensors = placed.into_iter().map(|(_, info)| info).collect();
        Ok(Self { tensors, metadata: raw.metadata()?, data_bytes })
    }

    /// The tensors in the order of their data.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The `__metadata__` of the file; empty if it has none.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Number of bytes after the header.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }
}

/// Checks shape, dtype and offsets of one tensor against each other.
fn check_tensor(name: &str, tensor: &RawTensor) -> Result<TensorInfo, SafetensorsError> {
    let bad_shape = || SafetensorsError::BadShape(shortened(name));
    if tensor.shape.len() > RANK_MAX {
        return Err(bad_shape());
    }
    let elements =
        tensor.shape.iter().try_fold(1usize, |count, length| count.checked_mul(*length)).ok_or_else(bad_shape)?;
    let bytes = (elements as u64).checked_mul(tensor.dtype.bytes() as u64).ok_or_else(bad_shape)?;
    let (begin, end) = tensor.data_offsets;
    if end.checked_sub(begin) != Some(bytes) {
        return Err(SafetensorsError::WrongSpan { tensor: shortened(name), expected: bytes, begin, end });
    }
    Ok(TensorInfo { name: name.to_owned(), dtype: tensor.dtype, shape: tensor.shape.clone(), elements, bytes })
}

/// Checks that the tensors have no holes and overlaps. Returns the length of the data.
fn check_contiguous(placed: &[((u64, u64), TensorInfo)]) -> Result<u64, SafetensorsError> {
    placed.iter().try_fold(0, |expected, ((begin, end), info)| {
        if *begin == expected {
            Ok(*end)
        } else {
            Err(SafetensorsError::NotContiguous { tensor: shortened(&info.name), begin: *begin, expected })
        }
    })
}

/// The JSON object in its order and with duplicate names, which a map would hide.
struct RawHeader {
    tensors: Vec<(String, RawTensor)>,
    metadata: Vec<Entries<String>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    dtype: Dtype,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl RawHeader {
    fn metadata(self) -> Result<BTreeMap<String, String>, SafetensorsError> {
        if self.metadata.len() > 1 {
            return Err(SafetensorsError::DuplicateName(METADATA_KEY.into()));
        }
        let mut metadata = BTreeMap::new();
        for (key, value) in self.metadata.into_iter().flat_map(|entries| entries.0) {
            if metadata.contains_key(&key) {
                return Err(SafetensorsError::DuplicateName(shortened(&key)));
            }
            metadata.insert(key, value);
        }
        Ok(metadata)
    }
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = RawHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut header = RawHeader { tensors: Vec::new(), metadata: Vec::new() };
                while let Some(name) = map.next_key::<String>()? {
                    // serde's message says where, but only here is it known in which tensor.
                    let inside = |error: A::Error| de::Error::custom(format!("{:?}: {error}", shortened(&name)));
                    if name == METADATA_KEY {
                        header.metadata.push(map.next_value().map_err(inside)?);
                    } else {
                        let tensor = map.next_value().map_err(inside)?;
                        header.tensors.push((name, tensor));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Tensors)
    }
}

/// A JSON object as a list of its entries.
struct Entries<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
            type Value = Entries<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<V>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Pairs(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> SafetensorsError {
        Header::parse(text.as_bytes()).expect_err("must be refused")
    }

    #[test]
    fn tensors_come_in_the_order_of_their_data() {
        let text = r#"{"b":{"dtype":"F32","shape":[2],"data_offsets":[2,10]},"empty":{"dtype":"I64","shape":[3,0],
            "data_offsets":[2,2]},"a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"__metadata__":{"k":"v"}}   "#;
        let header = Header::parse(text.as_bytes()).unwrap();
        assert_eq!(header.tensors().iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>(), ["a", "empty", "b"]);
        assert_eq!(header.data_bytes(), 10);
        assert_eq!(header.metadata()["k"], "v");
    }

    #[test]
    fn names_that_come_twice_are_refused() {
        let empty = r#"{"dtype":"F32","shape":[0],"data_offsets":[0,0]}"#;
        assert_eq!(refused(&format!(r#"{{"w":{empty},"w":{empty}}}"#)), SafetensorsError::DuplicateName("w".into()));
        assert_eq!(
            refused(r#"{"__metadata__":{},"__metadata__":{}}"#),
            SafetensorsError::DuplicateName("__metadata__".into())
        );
        assert_eq!(refused(r#"{"__metadata__":{"a":"1","a":"2"}}"#), SafetensorsError::DuplicateName("a".into()));
        assert_eq!(refused(&format!(r#"{{"":{empty}}}"#)), SafetensorsError::BadName(String::new()));
        assert!(matches!(refused(&format!(r#"{{"{}":{empty}}}"#, "n".repeat(300))), SafetensorsError::BadName(_)));
    }

    #[test]
    fn offsets_that_do_not_fit_are_refused() {
        let one = |shape: &str, begin: u64, end: u64| {
            refused(&format!(r#"{{"w":{{"dtype":"F32","shape":{shape},"data_offsets":[{begin},{end}]}}}}"#))
        };
        assert!(matches!(one("[2]", 0, 4), SafetensorsError::WrongSpan { expected: 8, .. }));
        assert!(matches!(one("[2]", 8, 0), SafetensorsError::WrongSpan { .. }));
        assert!(matches!(one("[2]", 4, 12), SafetensorsError::NotContiguous { begin: 4, expected: 0, .. }));
        assert_eq!(one("[4294967296,4294967296,4294967296]", 0, 0), SafetensorsError::BadShape("w".into()));
        assert_eq!(one("[4611686018427387904]", 0, 0), SafetensorsError::BadShape("w".into()));
        assert_eq!(one("[1,1,1,1,1,1,1,1,1]", 0, 4), SafetensorsError::BadShape("w".into()));
        let overlap = r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
            "b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#;
        assert!(matches!(refused(overlap), SafetensorsError::NotContiguous { begin: 2, expected: 4, .. }));
    }

    #[test]
    fn text_that_is_not_a_header_is_refused_with_the_tensor_named() {
        for text in ["", "[]", " {}", "{", r#"{"w":null}"#, r#"{"w":{"dtype":"F32"}}"#, r#"{"__metadata__":{"a":1}}"#] {
            assert!(matches!(refused(text), SafetensorsError::BadHeader(_)), "{text}");
        }
        let SafetensorsError::BadHeader(why) =
            refused(r#"{"layer.w":{"dtype":"F31","shape":[],"data_offsets":[0,4]}}"#)
        else {
            panic!("must be refused as a bad header")
        };
        assert!(why.contains("layer.w") && why.contains("F31"), "{why}");
        assert!(matches!(
            refused(r#"{"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#),
            SafetensorsError::BadHeader(_)
        ));
        assert!(matches!(refused(&"{\"a\":".repeat(100_000)), SafetensorsError::BadHeader(_)));
        assert!(matches!(Header::parse(b"{\xff}"), Err(SafetensorsError::BadHeader(_))));
    }
}
