//! What a member says of itself when it joins: its public keys, and what binds it to its secrets.

use sha2::{Digest, Sha256};

use super::LABEL;
use super::context::Suite;
use super::keys::SecretBytes;
use super::wire::{DecodeError, Reader};
use crate::hash::Sha256Hash;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 161;

/// A member's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The algorithms that the member uses.
    pub suite: Suite,
    /// X25519 key that encrypts shares.
    pub c_pk: [u8; 32],
    /// X25519 key that gives masks.
    pub s_pk: [u8; 32],
    /// Random bytes that make the record unlike every other.
    pub nonce: [u8; 32],
    /// Commitment to the secret of the self mask: see [`commitment`].
    pub commitment: Sha256Hash,
    /// SHA-256 of the device's certificate in DER. Zeros in groups without signatures.
    pub certificate: Sha256Hash,
}

/// What binds a member to its secret b.
pub fn commitment(b: &SecretBytes) -> Sha256Hash {
    Sha256Hash(Sha256::new().chain_update(LABEL).chain_update("commit\n").chain_update(b.expose()).finalize().into())
}

impl Record {
    /// The bytes that are hashed and sent.
    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        bytes.push(self.suite.number());
        for field in [&self.c_pk, &self.s_pk, &self.nonce, &self.commitment.0, &self.certificate.0] {
            bytes.extend_from_slice(field);
        }
        bytes.try_into().expect("the fields have 161 bytes")
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`DecodeError`] if it has another length or an unknown suite.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let record = Self::read(&mut reader)?;
        reader.finish().map(|()| record)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            suite: Suite::from_number(reader.u8()?)?,
            c_pk: reader.array()?,
            s_pk: reader.array()?,
            nonce: reader.array()?,
            commitment: reader.hash()?,
            certificate: reader.hash()?,
        })
    }

    /// The hash by which the roster names the member.
    pub fn hash(&self) -> Sha256Hash {
        let hasher = Sha256::new().chain_update(LABEL).chain_update("record\n").chain_update(self.to_bytes());
        Sha256Hash(hasher.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{hex, record, secret};
    use super::*;

    #[test]
    fn records_and_their_hashes_are_those_of_the_vectors() {
        let first = record(0);
        assert_eq!(hex(first.s_pk), "78811de12cc8136987ab7dba9b073d5e90185ee9ed5219c1345a563769b9317b");
        assert_eq!(hex(first.c_pk), "65824548f44e0e7199ea550d57f707a52251f5e886ee4560b62cc48c20a77e12");
        assert_eq!(
            commitment(&secret("b", 0)).to_string(),
            "4203a14be90075d19d1bc3fc727fa9b062cac222f40ec2a21d09f4d5b60cf62e"
        );
        assert_eq!(
            [0, 1, 2].map(|member| record(member).hash().to_string()),
            [
                "394fcf2ffd6d5dc938c9b10a174159c50d2eaf02d810173cb14f3c27200b1ca6",
                "87d956b3718d99caa9aeb866a3f0a4371b46906842d9368ef5f84aaa2e2957da",
                "a29ca3a626305c8624b404e81bfc0ffc291bf04a8bb641f2abd2ddd877521ba5",
            ]
        );
    }

    #[test]
    fn a_record_comes_back_from_its_161_bytes() {
        let bytes = record(1).to_bytes();
        assert_eq!(Record::from_bytes(&bytes), Ok(record(1)));
        assert_eq!(Record::from_bytes(&bytes[..160]), Err(DecodeError::Truncated));
        assert_eq!(Record::from_bytes(&[&[9], &bytes[1..]].concat()), Err(DecodeError::Suite(9)));
    }
}
