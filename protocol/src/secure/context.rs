//! What the members of a group compute together: all of it is hashed into their roster.

use super::wire::{DecodeError, Reader, within};
use super::{BITS_MAX, DEGREE_MAX};
use crate::hash::Sha256Hash;
use crate::id::{GroupId, JobId};

/// Stands for the model where members of a group may have trained different versions.
pub const NO_MODEL: Sha256Hash = Sha256Hash([0; 32]);

/// Bytes of a context.
pub const CONTEXT_BYTES: usize = 114;

/// The algorithms of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// X25519, HKDF-SHA256, ChaCha20, ChaCha20-Poly1305, SHA-256, ECDSA P-256.
    One,
}

impl Suite {
    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::One => 1,
        }
    }

    pub(super) fn from_number(number: u8) -> Result<Self, DecodeError> {
        match number {
            1 => Ok(Self::One),
            other => Err(DecodeError::Suite(other)),
        }
    }
}

/// Job, round and parameters of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The job.
    pub job: JobId,
    /// The round of the job.
    pub round: u64,
    /// The group of the round.
    pub group: GroupId,
    /// Hash of the model that the members trained. Zeros in buffered jobs, whose members hold different versions.
    pub model: Sha256Hash,
    /// Hash of the plan that the members follow.
    pub plan: Sha256Hash,
    /// The algorithms.
    pub suite: Suite,
    /// Bits of a masked value, 1 to 64.
    pub bits: u8,
    /// Shares that rebuild a secret, 2 to `degree`.
    pub threshold: u16,
    /// Neighbours of a member, 2 to 254.
    pub degree: u16,
    /// Values of a body, without its slots: at least 1.
    pub length: u32,
}

impl Context {
    /// The bytes that are hashed and sent.
    pub fn to_bytes(&self) -> [u8; CONTEXT_BYTES] {
        let mut bytes = Vec::with_capacity(CONTEXT_BYTES);
        bytes.extend_from_slice(self.job.as_bytes());
        bytes.extend_from_slice(&self.round.to_le_bytes());
        bytes.extend_from_slice(self.group.as_bytes());
        bytes.extend_from_slice(&self.model.0);
        bytes.extend_from_slice(&self.plan.0);
        bytes.extend_from_slice(&[self.suite.number(), self.bits]);
        bytes.extend_from_slice(&self.threshold.to_le_bytes());
        bytes.extend_from_slice(&self.degree.to_le_bytes());
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.try_into().expect("the fields have 114 bytes")
    }

    /// Reads a context.
    ///
    /// # Errors
    /// [`DecodeError`] if its length or a field is outside its limits.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let context = Self::read(&mut reader)?;
        reader.finish().map(|()| context)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let context = Self {
            job: JobId::from_random(reader.array()?),
            round: reader.u64()?,
            group: GroupId::from_random(reader.array()?),
            model: reader.hash()?,
            plan: reader.hash()?,
            suite: Suite::from_number(reader.u8()?)?,
            bits: reader.u8()?,
            threshold: reader.u16()?,
            degree: reader.u16()?,
            length: reader.u32()?,
        };
        within("bits", context.bits.into(), 1, BITS_MAX.into())?;
        within("neighbours", context.degree.into(), 2, DEGREE_MAX.into())?;
        within("shares that rebuild a secret", context.threshold.into(), 2, context.degree.into())?;
        within("values", context.length.into(), 1, u32::MAX.into())?;
        Ok(context)
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::context;
    use super::*;

    #[test]
    fn a_context_has_114_bytes_and_comes_back() {
        let bytes = context().to_bytes();
        assert_eq!(Context::from_bytes(&bytes), Ok(context()));
        assert_eq!((bytes[0], bytes[15], bytes[16], bytes[24], bytes[39]), (0, 15, 7, 16, 31));
        for length in [0, 113] {
            assert_eq!(Context::from_bytes(&bytes[..length]), Err(DecodeError::Truncated));
        }
        assert_eq!(Context::from_bytes(&[&bytes[..], &[0]].concat()), Err(DecodeError::TrailingBytes));
    }

    #[test]
    fn a_field_outside_its_limits_is_refused() {
        let changed = |change: fn(&mut Context)| {
            let mut context = context();
            change(&mut context);
            Context::from_bytes(&context.to_bytes())
        };
        let refused: [fn(&mut Context); 8] = [
            |context| context.bits = 0,
            |context| context.bits = 65,
            |context| context.degree = 1,
            |context| context.degree = 255,
            |context| context.threshold = 1,
            |context| context.threshold = 3,
            |context| context.degree = 0,
            |context| context.length = 0,
        ];
        assert!(refused.into_iter().all(|change| matches!(changed(change), Err(DecodeError::Count { .. }))));
        let mut bytes = context().to_bytes();
        bytes[104] = 2;
        assert_eq!(Context::from_bytes(&bytes), Err(DecodeError::Suite(2)));
    }
}
