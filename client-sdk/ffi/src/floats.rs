//! Numbers as bytes: one copy instead of a call for each.

use crate::errors::TributaryError;

/// Values, which other languages see as an array of floats. They cross the border as bytes: f32, little-endian.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Floats(
    /// The values.
    pub Vec<f32>,
);

uniffi::custom_type!(Floats, Vec<u8>, {
    lower: |floats| floats.0.iter().flat_map(|value| value.to_le_bytes()).collect(),
    try_lift: |bytes| {
        let (values, rest) = bytes.as_chunks();
        if !rest.is_empty() {
            return Err(TributaryError::bad_input("an array of floats has a part of a float").into());
        }
        Ok(Floats(values.iter().map(|value| f32::from_le_bytes(*value)).collect()))
    },
});
