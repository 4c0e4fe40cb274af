//! A member of one group, from its keys to its last answer.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::plan::GroupTrust;
use tributary_protocol::secure::messages::{Formed, ShareKind};
use tributary_protocol::secure::record::commitment;
use tributary_protocol::secure::{Record, Roster, SecretBytes, Suite};
use zeroize::Zeroizing;

use super::entropy::Entropy;
use super::peers::Signers;
use super::refusal::{MemberError, Refusal};
use super::stored::{Bytes, Secret};
use super::terms::Terms;

/// A member of a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Member {
    pub(super) terms: Terms,
    /// The device's certificate in DER.
    certificate: Bytes,
    record: Bytes,
    /// `None` once they are needed no more.
    pub(super) secrets: Option<Secrets>,
    pub(super) stage: Stage,
}

/// The secrets that the member made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Secrets {
    pub(super) s: Secret,
    pub(super) c: Secret,
    pub(super) b: Secret,
}

/// How far the group is. Each stage has what later ones need, and what a repeated request sends again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    Joined,
    /// The shares are made.
    Sharing {
        formed: Bytes,
        /// The request, which may have left the device.
        shares: Bytes,
    },
    /// The neighbours that sent shares are known.
    Masking {
        formed: Bytes,
        shares: Bytes,
        inbox: Bytes,
        /// All neighbours that sent shares: the masks are with them.
        senders: Vec<u16>,
        /// What they gave this member to keep.
        held: Vec<Held>,
        /// SHA-256 of the masked body, which may have left the device.
        body: Option<Sha256Hash>,
    },
    /// The survivors are decided.
    Agreeing {
        formed: Bytes,
        survivors: Bytes,
        /// The signature over them, which may have left the device.
        signature: Bytes,
        /// The share of each neighbour that it may be given: the others are erased.
        chosen: Vec<Chosen>,
    },
    /// The shares may have left the device.
    Unmasking {
        survivors: Bytes,
        chosen: Vec<Chosen>,
    },
    /// The group was given up.
    Refused(Refusal),
    /// The group is over.
    Ended,
}

/// The shares of a neighbour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) from: u16,
    pub(super) s: Secret,
    pub(super) b: Secret,
}

/// The one share of a neighbour that the coordinator may get.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Chosen {
    pub(super) from: u16,
    /// The number of [`ShareKind`].
    pub(super) kind: u8,
    pub(super) share: Secret,
}

/// A group as its answer said it, checked.
pub(super) struct Group {
    pub(super) formed: Formed,
    pub(super) roster: Roster,
}

impl Member {
    /// Makes the keys for one group. `certificate` is that of the device in DER; empty without signatures.
    ///
    /// # Errors
    /// [`MemberError::Entropy`] if there are no random bytes.
    pub fn join(terms: Terms, certificate: &[u8], entropy: &mut Entropy<'_>) -> Result<Self, MemberError> {
        let secrets = Secrets { s: drawn(entropy)?, c: drawn(entropy)?, b: drawn(entropy)? };
        let certificate_hash = match terms.trust {
            GroupTrust::Honest => Sha256Hash([0; 32]),
            GroupTrust::Signed => Sha256Hash::of(certificate),
        };
        let record = Record {
            suite: Suite::One,
            c_pk: secrets.c.public(),
            s_pk: secrets.s.public(),
            nonce: *drawn(entropy)?.0.expose(),
            commitment: commitment(&secrets.b.0),
            certificate: certificate_hash,
        };
        Ok(Self {
            terms,
            certificate: Bytes(certificate.to_vec()),
            record: Bytes(record.to_bytes().to_vec()),
            secrets: Some(secrets),
            stage: Stage::Joined,
        })
    }

    /// The body of `PUT group`: the record, and the device's certificate where members sign.
    pub fn request(&self) -> Vec<u8> {
        [&self.record.0[..], &self.certificate.0].concat()
    }

    /// The member's record.
    pub fn record(&self) -> &[u8] {
        &self.record.0
    }

    /// Why the group was given up, if it was.
    pub fn refusal(&self) -> Option<Refusal> {
        match self.stage {
            Stage::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The member as JSON, for the client's store. It has secrets.
    pub fn to_json(&self) -> Zeroizing<Vec<u8>> {
        // A buffer that grows would leave copies of secrets behind.
        let mut length = Length(0);
        serde_json::to_writer(&mut length, self).expect("a member has no map with keys that JSON lacks");
        let mut json = Zeroizing::new(Vec::with_capacity(length.0));
        serde_json::to_writer(&mut *json, self).expect("a member has no map with keys that JSON lacks");
        json
    }

    /// A stored member.
    ///
    /// # Errors
    /// [`MemberError::Stored`] if these are not the bytes of one.
    pub fn from_json(json: &[u8]) -> Result<Self, MemberError> {
        serde_json::from_slice(json).map_err(|_| MemberError::Stored)
    }

    /// Ends the group and erases all secrets.
    pub fn end(&mut self) {
        self.secrets = None;
        if self.refusal().is_none() {
            self.stage = Stage::Ended;
        }
    }

    /// Runs a step. A refusal is kept and erases all secrets.
    pub(super) fn refusing<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, MemberError>,
    ) -> Result<T, MemberError> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal.into());
        }
        let result = step(self);
        if let Err(MemberError::Refused(refusal)) = &result {
            self.stage = Stage::Refused(*refusal);
            self.secrets = None;
        }
        result
    }

    pub(super) fn secrets(&self) -> Result<&Secrets, MemberError> {
        self.secrets.as_ref().ok_or(MemberError::Stage)
    }

    /// The keys and certificates of a group with signatures.
    pub(super) fn signers<'a>(&self, signers: Option<Signers<'a>>) -> Result<Option<Signers<'a>>, MemberError> {
        match self.terms.trust {
            GroupTrust::Honest => Ok(None),
            GroupTrust::Signed => signers.map(Some).ok_or(MemberError::NoSigners),
        }
    }

    /// The group of a stored answer.
    pub(super) fn group(formed: &Bytes) -> Result<Group, MemberError> {
        let formed = Formed::from_bytes(&formed.0).map_err(|_| MemberError::Stored)?;
        let roster = Roster::new(&formed.context, &formed.records).map_err(|_| MemberError::Stored)?;
        Ok(Group { formed, roster })
    }
}

impl Chosen {
    pub(super) fn of(held: Held, is_survivor: bool) -> Self {
        let (kind, share) = match is_survivor {
            true => (ShareKind::SelfMask, held.b),
            false => (ShareKind::MaskKey, held.s),
        };
        Self { from: held.from, kind: kind.number(), share }
    }
}

/// Counts bytes.
struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A random secret.
pub(super) fn drawn(entropy: &mut Entropy<'_>) -> Result<Secret, MemberError> {
    let mut bytes = Zeroizing::new([0; 32]);
    entropy(bytes.as_mut())?;
    Ok(Secret(SecretBytes::new(*bytes)))
}
