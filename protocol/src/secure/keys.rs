//! The secrets of a member, X25519 (RFC 7748) and the keys that HKDF-SHA256 (RFC 5869) derives.

use std::fmt;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::LABEL;
use crate::hash::Sha256Hash;

/// 32 secret bytes: they are erased when they are dropped, and logs cannot show them.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretBytes(Zeroizing<[u8; 32]>);

impl SecretBytes {
    /// Takes bytes. The caller's copy stays as it is.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, to be used and not logged.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretBytes(..)")
    }
}

/// A public key with which an agreement gives no secret: a point of low order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the public key is a point of low order")]
pub struct LowOrder;

/// The public key of a secret one.
pub fn public_key(secret: &SecretBytes) -> [u8; 32] {
    x25519_dalek::x25519(*secret.expose(), x25519_dalek::X25519_BASEPOINT_BYTES)
}

/// What two members know who have each other's public key.
///
/// # Errors
/// [`LowOrder`] if everybody would know it (RFC 7748, section 6.1).
pub fn agree(secret: &SecretBytes, public: &[u8; 32]) -> Result<SecretBytes, LowOrder> {
    let shared = SecretBytes::new(x25519_dalek::x25519(*secret.expose(), *public));
    // All bytes are looked at, so that time says nothing of them.
    let any = shared.expose().iter().fold(0, |any, byte| any | byte);
    if any == 0 { Err(LowOrder) } else { Ok(shared) }
}

/// Key of the mask of values between two members who share a secret of their keys `s`.
pub fn mask_key(shared: &SecretBytes, roster: &Sha256Hash, one: u16, other: u16) -> SecretBytes {
    derive(shared.expose(), roster, "mask", &[one.min(other), one.max(other)])
}

/// Key of the mask of slots between two members who share a secret of their keys `s`.
pub fn mask_slots_key(shared: &SecretBytes, roster: &Sha256Hash, one: u16, other: u16) -> SecretBytes {
    derive(shared.expose(), roster, "mask-slots", &[one.min(other), one.max(other)])
}

/// Key of a member's own mask of values, from its secret b.
pub fn self_key(b: &SecretBytes, roster: &Sha256Hash, member: u16) -> SecretBytes {
    derive(b.expose(), roster, "self", &[member])
}

/// Key of a member's own mask of slots, from its secret b.
pub fn self_slots_key(b: &SecretBytes, roster: &Sha256Hash, member: u16) -> SecretBytes {
    derive(b.expose(), roster, "self-slots", &[member])
}

/// Key of the shares that one member sends another, who share a secret of their keys `c`.
pub fn share_key(shared: &SecretBytes, roster: &Sha256Hash, from: u16, to: u16) -> SecretBytes {
    derive(shared.expose(), roster, "share", &[from, to])
}

/// Key of the signs of a group's rotation. Every member and the coordinator know it.
pub fn rotation_key(roster: &Sha256Hash) -> SecretBytes {
    derive(&[], roster, "rotation", &[])
}

/// Key of the coordinates that a group keeps. Every member and the coordinator know it.
pub fn keep_key(roster: &Sha256Hash) -> SecretBytes {
    derive(&[], roster, "keep", &[])
}

fn derive(secret: &[u8], roster: &Sha256Hash, purpose: &str, members: &[u16]) -> SecretBytes {
    let mut info = [LABEL, purpose.as_bytes()].concat();
    members.iter().for_each(|member| info.extend_from_slice(&member.to_le_bytes()));
    let mut key = SecretBytes::new([0; 32]);
    let expanded = Hkdf::<Sha256>::new(Some(&roster.0), secret).expand(&info, key.0.as_mut());
    expanded.expect("32 bytes are one block of HKDF-SHA256");
    key
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{hex, record, roster, secret};
    use super::*;

    #[test]
    fn keys_are_those_of_the_vectors() {
        let hash = roster().hash();
        let shared = |one, other| agree(&secret("s", one), &record(other).s_pk).unwrap();
        assert_eq!(hex(shared(0, 1).expose()), "bc69db657cec172d9578668389320cd95d372893adaa29ff869bfd2fdd0c357b");
        assert_eq!(shared(0, 1), shared(1, 0));
        for (one, other, key) in [
            (0, 1, "3f2cdc82d3f82bb45857c001ef59d00cbfedf025337c5364896f436e72a08bd8"),
            (0, 2, "bb7baac03982078c181cf1f72c680025e71a0a325607f389b9c609d9618d0646"),
            (1, 2, "26d81f71445a3040bd5a8637fd55dec76e922dadc7a063761dc61b9191bfcfd0"),
        ] {
            for (one, other) in [(one, other), (other, one)] {
                let derived = mask_key(&shared(one, other), &hash, one.into(), other.into());
                assert_eq!(hex(derived.expose()), key);
            }
        }
        for (member, key) in [
            (0, "6d08ccdbcd606167305293c2900b9d09a0d4f8487b0951e18abe2fecc2f2868b"),
            (1, "b7d33c90fcfc328918b4a566e41449df18d36eca4e251bff7db3f7884c82ec22"),
            (2, "30001f911c74e19a04ec3258d3044e91e05a439078265f743603397ed83ef67a"),
        ] {
            assert_eq!(hex(self_key(&secret("b", member), &hash, member.into()).expose()), key);
        }
        let shared = agree(&secret("c", 0), &record(1).c_pk).unwrap();
        assert_eq!(
            hex(share_key(&shared, &hash, 0, 1).expose()),
            "7793901ace90d8627c149bcceb97f4d98c9394052694ce6fdcb77663aed5b650"
        );
        let public = [rotation_key(&hash), keep_key(&hash)].map(|key| hex(key.expose()));
        assert_eq!(
            public,
            [
                "8a11b32c65358fa9a7c5fd9244033a3b28965580a7b8e8eb01cab5c65df4932f",
                "3d44551456d280c27adb255f4cc665fbdcf2a0caecbe9d3f14b9b4d01ad18f98",
            ]
        );
    }

    /// RFC 7748, section 6.1, names them.
    #[test]
    fn points_of_low_order_are_refused() {
        let one = std::array::from_fn(|byte| u8::from(byte == 0));
        let prime = std::array::from_fn(|byte| match byte {
            0 => 0xed,
            31 => 0x7f,
            _ => 0xff,
        });
        for point in [[0; 32], one, prime] {
            assert_eq!(agree(&secret("s", 0), &point), Err(LowOrder));
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", secret("s", 0)), "SecretBytes(..)");
    }
}
