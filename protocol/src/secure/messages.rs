//! The bodies of a group's requests and answers (`/device/v1/assignments/{id}/..`, `application/octet-stream`).
//!
//! | call | request | answer |
//! |---|---|---|
//! | `PUT group` | [`Join`] | [`Formed`] |
//! | `PUT group/shares` | [`Shares`] | [`Inbox`] |
//! | `PUT update` | [`packed`](super::packed) | JSON |
//! | `GET group/survivors` | | [`Survivors`](super::Survivors) |
//! | `PUT group/agreement` | [`Signature`] | [`Agreement`] |
//! | `PUT group/unmask` | [`Unmask`] | JSON |
//!
//! Lists begin with their number (u16), and the indexes in them rise.

use super::context::Context;
use super::keys::SecretBytes;
use super::record::{RECORD_BYTES, Record};
use super::sealing::{CIPHERTEXT_BYTES, Ciphertext};
use super::signing::Signature;
use super::wire::{DecodeError, Reader, push_count, within};
use super::{DEGREE_MAX, MEMBERS_MAX, MEMBERS_MIN};
use crate::hash::Sha256Hash;

/// Most bytes of a device's certificate in DER.
pub const CERTIFICATE_BYTES_MAX: usize = 8192;
/// Most bytes of an answer. Bodies of updates have limits of their own.
pub const MESSAGE_BYTES_MAX: usize = 4 + MEMBERS_MAX as usize * (66 + 2 + 161 + 2 + CERTIFICATE_BYTES_MAX);

/// What a client joins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Its keys.
    pub record: Record,
    /// The device's certificate in DER; empty in groups without signatures.
    pub certificate: Vec<u8>,
}

/// A member as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its place among the members.
    pub index: u16,
    /// Its keys.
    pub record: Record,
    /// The device's certificate in DER; empty in groups without signatures.
    pub certificate: Vec<u8>,
}

/// The answer to a record: the group, and the neighbours of the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formed {
    /// What the group computes.
    pub context: Context,
    /// Hashes of all records in joining order.
    pub records: Vec<Sha256Hash>,
    /// The place of the receiver among them.
    pub index: u16,
    /// The neighbours of the receiver, by index.
    pub neighbours: Vec<Neighbour>,
}

/// The shares that a member sends its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// The roster that the sender computed.
    pub roster: Sha256Hash,
    /// Its signature over [`roster_message`](super::signing::roster_message); zeros in groups without signatures.
    pub signature: Signature,
    /// The receiver of each share, by index.
    pub shares: Vec<(u16, Ciphertext)>,
}

/// A share that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The sender.
    pub from: u16,
    /// Its signature over the roster.
    pub signature: Signature,
    /// The share.
    pub ciphertext: Ciphertext,
}

/// The shares that a member's neighbours sent it, by sender. A neighbour that is missing here was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbox {
    /// One for each neighbour that sent shares.
    pub letters: Vec<Letter>,
}

/// The signatures over the survivors that reached the coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Who signed, by index, with the signature over
    /// [`survivors_message`](super::signing::survivors_message).
    pub signatures: Vec<(u16, Signature)>,
    /// Signers that are no neighbours of the receiver, by index.
    pub strangers: Vec<Neighbour>,
}

/// Which secret of a neighbour a share belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareKind {
    /// The secret b of a survivor, whose own mask is taken off.
    SelfMask,
    /// The secret key s of a lost member, whose masks with others are taken off.
    MaskKey,
}

/// A share that opens the sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenShare {
    /// The neighbour whose secret it is.
    pub owner: u16,
    /// Which of its secrets.
    pub kind: ShareKind,
    /// The share. Its number is [`Roster::share_number`](super::Roster::share_number).
    pub share: SecretBytes,
}

/// The shares that a member gives the coordinator: one for each neighbour that sent it shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmask {
    /// By owner.
    pub shares: Vec<OpenShare>,
}

impl ShareKind {
    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::SelfMask => 1,
            Self::MaskKey => 2,
        }
    }

    /// The kind of a number.
    ///
    /// # Errors
    /// [`DecodeError::Kind`] for a number of none.
    pub fn from_number(number: u8) -> Result<Self, DecodeError> {
        match number {
            1 => Ok(Self::SelfMask),
            2 => Ok(Self::MaskKey),
            other => Err(DecodeError::Kind(other)),
        }
    }
}

impl Join {
    /// Most bytes of the message.
    pub const BYTES_MAX: usize = RECORD_BYTES + CERTIFICATE_BYTES_MAX;

    /// The bytes of the message: the record, and the certificate to the end.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.record.to_bytes()[..], &self.certificate].concat()
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (record, certificate) = bytes.split_at_checked(RECORD_BYTES).ok_or(DecodeError::Truncated)?;
        within("bytes of a certificate", certificate.len() as u64, 0, CERTIFICATE_BYTES_MAX as u64)?;
        Ok(Self { record: Record::from_bytes(record)?, certificate: certificate.to_vec() })
    }
}

impl Neighbour {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (index, record) = (reader.u16()?, Record::read(reader)?);
        let length = reader.u16()?;
        within("bytes of a certificate", length.into(), 0, CERTIFICATE_BYTES_MAX as u64)?;
        Ok(Self { index, record, certificate: reader.bytes(length.into())?.to_vec() })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.record.to_bytes());
        push_count(out, self.certificate.len());
        out.extend_from_slice(&self.certificate);
    }
}

impl Formed {
    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.context.to_bytes().to_vec();
        push_count(&mut out, self.records.len());
        self.records.iter().for_each(|record| out.extend_from_slice(&record.0));
        out.extend_from_slice(&self.index.to_le_bytes());
        push_count(&mut out, self.neighbours.len());
        self.neighbours.iter().for_each(|neighbour| neighbour.write(&mut out));
        out
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let context = Context::read(&mut reader)?;
        let members = reader.count("members", MEMBERS_MIN, MEMBERS_MAX)?;
        let records = (0..members).map(|_| reader.hash()).collect::<Result<_, _>>()?;
        let index = reader.u16()?;
        let neighbours =
            reader.list("neighbours", DEGREE_MAX, |neighbour: &Neighbour| neighbour.index, Neighbour::read)?;
        reader.finish()?;
        Ok(Self { context, records, index, neighbours })
    }
}

impl Shares {
    /// Most bytes of the message.
    pub const BYTES_MAX: usize = 98 + DEGREE_MAX as usize * (2 + CIPHERTEXT_BYTES);

    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = [&self.roster.0[..], &self.signature].concat();
        push_count(&mut out, self.shares.len());
        for (to, ciphertext) in &self.shares {
            out.extend_from_slice(&to.to_le_bytes());
            out.extend_from_slice(ciphertext);
        }
        out
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let (roster, signature) = (reader.hash()?, reader.array()?);
        let read = |reader: &mut Reader<'_>| Ok((reader.u16()?, reader.array()?));
        let shares = reader.list("shares", DEGREE_MAX, |(to, _)| *to, read)?;
        reader.finish()?;
        Ok(Self { roster, signature, shares })
    }
}

impl Inbox {
    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_count(&mut out, self.letters.len());
        for letter in &self.letters {
            out.extend_from_slice(&letter.from.to_le_bytes());
            out.extend_from_slice(&letter.signature);
            out.extend_from_slice(&letter.ciphertext);
        }
        out
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let read = |reader: &mut Reader<'_>| {
            Ok(Letter { from: reader.u16()?, signature: reader.array()?, ciphertext: reader.array()? })
        };
        let letters = reader.list("shares", DEGREE_MAX, |letter: &Letter| letter.from, read)?;
        reader.finish()?;
        Ok(Self { letters })
    }
}

impl Agreement {
    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_count(&mut out, self.signatures.len());
        for (index, signature) in &self.signatures {
            out.extend_from_slice(&index.to_le_bytes());
            out.extend_from_slice(signature);
        }
        push_count(&mut out, self.strangers.len());
        self.strangers.iter().for_each(|stranger| stranger.write(&mut out));
        out
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let read = |reader: &mut Reader<'_>| Ok((reader.u16()?, reader.array()?));
        let signatures = reader.list("signatures", MEMBERS_MAX, |(index, _)| *index, read)?;
        let strangers = reader.list("signers", MEMBERS_MAX, |stranger: &Neighbour| stranger.index, Neighbour::read)?;
        reader.finish()?;
        Ok(Self { signatures, strangers })
    }
}

impl Unmask {
    /// Most bytes of the message.
    pub const BYTES_MAX: usize = 2 + DEGREE_MAX as usize * 35;

    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_count(&mut out, self.shares.len());
        for share in &self.shares {
            out.extend_from_slice(&share.owner.to_le_bytes());
            out.push(share.kind.number());
            out.extend_from_slice(share.share.expose());
        }
        out
    }

    /// Reads the message. Indexes rise, so it has no two shares of one neighbour.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let read = |reader: &mut Reader<'_>| {
            let (owner, kind) = (reader.u16()?, ShareKind::from_number(reader.u8()?)?);
            Ok(OpenShare { owner, kind, share: SecretBytes::new(reader.array()?) })
        };
        let shares = reader.list("shares", DEGREE_MAX, |share: &OpenShare| share.owner, read)?;
        reader.finish()?;
        Ok(Self { shares })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Survivors;
    use super::super::vectors::{context, record};
    use super::*;

    fn indexes(most: usize) -> impl Strategy<Value = Vec<u16>> {
        prop::collection::btree_set(any::<u16>(), 0..most).prop_map(|set| set.into_iter().collect())
    }

    fn neighbours(indexes: &[u16], certificate: &[u8]) -> Vec<Neighbour> {
        let record = |index: u16| record((index % 3) as u8);
        let neighbour = |index| Neighbour { index, record: record(index), certificate: certificate.to_vec() };
        indexes.iter().copied().map(neighbour).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_message_comes_back(list in indexes(20), certificate in prop::collection::vec(any::<u8>(), 0..600),
            fill: u8, members in 3u16..100) {
            let records = (0..members).map(|member| Sha256Hash([member as u8; 32])).collect();
            let neighbours = neighbours(&list, &certificate);
            let formed = Formed { context: context(), records, index: 2, neighbours: neighbours.clone() };
            prop_assert_eq!(Formed::from_bytes(&formed.to_bytes()), Ok(formed));
            let join = Join { record: record(1), certificate };
            prop_assert_eq!(Join::from_bytes(&join.to_bytes()), Ok(join));
            let shares = list.iter().map(|to| (*to, [fill; 81])).collect();
            let shares = Shares { roster: Sha256Hash([fill; 32]), signature: [fill; 64], shares };
            prop_assert_eq!(shares.to_bytes().len(), 98 + 83 * list.len());
            prop_assert_eq!(Shares::from_bytes(&shares.to_bytes()), Ok(shares));
            let letter = |from: &u16| Letter { from: *from, signature: [fill; 64], ciphertext: [fill; 81] };
            let inbox = Inbox { letters: list.iter().map(letter).collect() };
            prop_assert_eq!(Inbox::from_bytes(&inbox.to_bytes()), Ok(inbox));
            let signatures = list.iter().map(|index| (*index, [fill; 64])).collect();
            let agreement = Agreement { signatures, strangers: neighbours };
            prop_assert_eq!(Agreement::from_bytes(&agreement.to_bytes()), Ok(agreement));
            let kind = if fill % 2 == 0 { ShareKind::SelfMask } else { ShareKind::MaskKey };
            let open = |owner: &u16| OpenShare { owner: *owner, kind, share: SecretBytes::new([fill; 32]) };
            let unmask = Unmask { shares: list.iter().map(open).collect() };
            prop_assert_eq!(unmask.to_bytes().len(), 2 + 35 * list.len());
            prop_assert_eq!(Unmask::from_bytes(&unmask.to_bytes()), Ok(unmask));
        }

        #[test]
        fn arbitrary_bytes_are_read_or_refused_and_what_is_read_is_written_again(
            mut bytes in prop::collection::vec(any::<u8>(), 0..700), count in 0u8..4, known: bool) {
            if known {
                // A valid beginning, so that the lists behind it are reached.
                let length = bytes.len().min(114);
                bytes[..length].copy_from_slice(&context().to_bytes()[..length]);
                if let Some(low) = bytes.get_mut(114) { *low = 3 + count }
                if let Some(high) = bytes.get_mut(115) { *high = 0 }
            } else if bytes.len() > 1 {
                bytes[0] = count;
                bytes[1] = 0;
            }
            if let Ok(message) = Join::from_bytes(&bytes) { prop_assert_eq!(message.to_bytes(), &bytes[..]); }
            if let Ok(message) = Formed::from_bytes(&bytes) { prop_assert_eq!(message.to_bytes(), &bytes[..]); }
            if let Ok(message) = Shares::from_bytes(&bytes) { prop_assert_eq!(message.to_bytes(), &bytes[..]); }
            if let Ok(message) = Inbox::from_bytes(&bytes) { prop_assert_eq!(message.to_bytes(), &bytes[..]); }
            if let Ok(message) = Agreement::from_bytes(&bytes) { prop_assert_eq!(message.to_bytes(), &bytes[..]); }
            if let Ok(message) = Unmask::from_bytes(&bytes) { prop_assert_eq!(message.to_bytes(), &bytes[..]); }
            if let Ok(message) = Record::from_bytes(&bytes) { prop_assert_eq!(&message.to_bytes()[..], &bytes[..]); }
            if let Ok(message) = Context::from_bytes(&bytes) { prop_assert_eq!(&message.to_bytes()[..], &bytes[..]); }
            if let Ok(message) = Survivors::from_bytes(&bytes) { prop_assert_eq!(message.to_bytes(), &bytes[..]); }
        }
    }

    #[test]
    fn lists_that_repeat_a_member_or_are_too_long_are_refused() {
        let share = |owner| [&[owner, 0, 1][..], &[7; 32]].concat();
        let message = |count: u16, owners: &[u8]| {
            let mut bytes = count.to_le_bytes().to_vec();
            owners.iter().for_each(|owner| bytes.extend(share(*owner)));
            Unmask::from_bytes(&bytes)
        };
        assert!(message(2, &[1, 2]).is_ok());
        assert_eq!(message(2, &[1, 1]), Err(DecodeError::Order));
        assert_eq!(message(2, &[2, 1]), Err(DecodeError::Order));
        assert_eq!(message(3, &[1, 2]), Err(DecodeError::Truncated));
        assert_eq!(message(1, &[1, 2]), Err(DecodeError::TrailingBytes));
        assert!(matches!(message(255, &[]), Err(DecodeError::Count { most: 254, .. })));
        assert_eq!(Unmask::from_bytes(&[&[1, 0, 1, 0, 3][..], &[0; 32]].concat()), Err(DecodeError::Kind(3)));
    }
}
