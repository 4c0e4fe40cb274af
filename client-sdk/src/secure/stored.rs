//! Bytes in a stored member, as hexadecimal digits that are written without a copy.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tributary_protocol::secure::SecretBytes;
use tributary_protocol::secure::keys::public_key;
use zeroize::Zeroizing;

/// Bytes that need not be hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) Vec<u8>);

/// A secret: erased when it is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secret(pub(super) SecretBytes);

impl Secret {
    pub(super) fn public(&self) -> [u8; 32] {
        public_key(&self.0)
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// Calls `push` with each byte.
fn read(digits: &str, mut push: impl FnMut(u8)) -> Option<()> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let value = |digit: u8| char::from(digit).to_digit(16);
    for [high, low] in pairs {
        push((value(*high)? << 4 | value(*low)?) as u8);
    }
    Some(())
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Hex(&self.0))
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Hex(self.0.expose()))
    }
}

struct Digits;

impl Visitor<'_> for Digits {
    type Value = Zeroizing<Vec<u8>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("hexadecimal digits")
    }

    fn visit_str<E: Error>(self, digits: &str) -> Result<Self::Value, E> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
        // The digits may be a secret, so the error does not quote them.
        read(digits, |byte| bytes.push(byte)).ok_or_else(|| E::custom("no hexadecimal digits"))?;
        Ok(bytes)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Digits).map(|bytes| Self(bytes.to_vec()))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = deserializer.deserialize_str(Digits)?;
        let mut secret = Zeroizing::new([0; 32]);
        if bytes.len() != secret.len() {
            return Err(D::Error::custom("a secret has 32 bytes"));
        }
        secret.copy_from_slice(&bytes);
        Ok(Self(SecretBytes::new(*secret)))
    }
}
