//! The first two stages: the roster is checked and shares go out, then those of the neighbours come in.

use std::collections::BTreeSet;

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::secure::keys::{agree, share_key};
use tributary_protocol::secure::messages::{Formed, Inbox, Letter, Neighbour, Shares};
use tributary_protocol::secure::sealing::{SharePair, seal, unseal};
use tributary_protocol::secure::shamir::split;
use tributary_protocol::secure::signing::{self, NO_SIGNATURE, Signature, roster_message};
use tributary_protocol::secure::{NO_MODEL, Record, Roster, sizes};

use super::entropy::Entropy;
use super::member::{Group, Held, Member, Stage, drawn};
use super::peers::{Peers, Signers};
use super::refusal::{MemberError, Refusal};
use super::stored::{Bytes, Secret};

/// What an inbox held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Neighbours whose shares this member keeps, by index.
    pub neighbours: Vec<u16>,
    /// Neighbours whose shares are damaged. Masks are made with them all the same, because they make theirs with this
    /// member; only their share is missing here.
    pub damaged: Vec<u16>,
}

impl Member {
    /// Reads the answer to `PUT group` and makes the body of `PUT group/shares`. The same answer gives the same body.
    ///
    /// # Errors
    /// [`MemberError::Refused`] if anything in the group is not as it must be; other [`MemberError`]s if nothing was
    /// decided, and the call may be repeated.
    pub fn formed(
        &mut self,
        answer: &Formed,
        signers: Option<Signers<'_>>,
        entropy: &mut Entropy<'_>,
    ) -> Result<Vec<u8>, MemberError> {
        self.refusing(|member| {
            let bytes = answer.to_bytes();
            match &member.stage {
                Stage::Joined => {}
                Stage::Sharing { formed, shares } | Stage::Masking { formed, shares, .. } => {
                    return if formed.0 == bytes { Ok(shares.0.clone()) } else { Err(Refusal::SecondGroup.into()) };
                }
                Stage::Agreeing { formed, .. } if formed.0 != bytes => return Err(Refusal::SecondGroup.into()),
                _ => return Err(MemberError::Stage),
            }
            let signers = member.signers(signers)?;
            let roster = member.check(answer, signers.map(|signers| signers.peers))?;
            let shares = member.shares(answer, &roster, signers, entropy)?.to_bytes();
            member.stage = Stage::Sharing { formed: Bytes(bytes), shares: Bytes(shares.clone()) };
            Ok(shares)
        })
    }

    fn check(&self, formed: &Formed, peers: Option<&dyn Peers>) -> Result<Roster, MemberError> {
        let (terms, context) = (&self.terms, &formed.context);
        let members = formed.records.len() as u16;
        let is_due = context.round == terms.round || (terms.model == NO_MODEL && context.round > terms.round);
        require(context.job == terms.job && is_due, Refusal::Job)?;
        require(context.model == terms.model, Refusal::Model)?;
        require(context.plan == terms.plan, Refusal::Plan)?;
        let least = terms.members_min;
        require(members >= least, Refusal::Members { given: members, least })?;
        // With a third of the neighbours or fewer, a coordinator would need few of them on its side.
        let is_safe = 3 * context.threshold > context.degree;
        let is_wide = context.degree >= terms.degree_min.min(members - 1);
        require(context.length == terms.length && is_safe && is_wide, Refusal::Parameters)?;
        let roster = Roster::new(context, &formed.records).map_err(|_| Refusal::Roster)?;
        let own = Record::from_bytes(self.record()).map_err(|_| MemberError::Stored)?;
        require(formed.records.get(usize::from(formed.index)) == Some(&own.hash()), Refusal::Roster)?;
        self.check_neighbours(formed, &roster, own.certificate, peers)?;
        Ok(roster)
    }

    fn check_neighbours(
        &self,
        formed: &Formed,
        roster: &Roster,
        own_certificate: Sha256Hash,
        peers: Option<&dyn Peers>,
    ) -> Result<(), MemberError> {
        let expected = roster.neighbours(formed.index);
        for (place, index) in expected.iter().enumerate() {
            let given = formed.neighbours.get(place).filter(|neighbour| neighbour.index == *index);
            require(given.is_some(), Refusal::Neighbour(*index))?;
        }
        if let Some(further) = formed.neighbours.get(expected.len()) {
            return Err(Refusal::Neighbour(further.index).into());
        }
        let mut certificates = BTreeSet::from([own_certificate]);
        for neighbour in &formed.neighbours {
            check_record(formed, neighbour)?;
            if let Some(peers) = peers {
                check_certificate(neighbour, peers)?;
                let is_new = certificates.insert(neighbour.record.certificate);
                require(is_new, Refusal::RepeatedCertificate(neighbour.index))?;
            }
            let secrets = self.secrets()?;
            let keys = [(&secrets.s, neighbour.record.s_pk), (&secrets.c, neighbour.record.c_pk)];
            let is_usable = keys.iter().all(|(secret, public)| agree(&secret.0, public).is_ok());
            require(is_usable, Refusal::Key(neighbour.index))?;
        }
        Ok(())
    }

    fn shares(
        &self,
        formed: &Formed,
        roster: &Roster,
        signers: Option<Signers<'_>>,
        entropy: &mut Entropy<'_>,
    ) -> Result<Shares, MemberError> {
        let (secrets, hash) = (self.secrets()?, roster.hash());
        let mut coefficients = || {
            let coefficients = (1..formed.context.threshold).map(|_| drawn(entropy).map(|secret| secret.0));
            coefficients.collect::<Result<Vec<_>, _>>()
        };
        let count = formed.neighbours.len() as u8;
        let of_s = split(&secrets.s.0, &coefficients()?, count);
        let of_b = split(&secrets.b.0, &coefficients()?, count);
        let mut shares = Vec::new();
        for (((number, s), b), neighbour) in (1..).zip(of_s).zip(of_b).zip(&formed.neighbours) {
            let (from, to) = (formed.index, neighbour.index);
            let shared = agree(&secrets.c.0, &neighbour.record.c_pk).map_err(|_| Refusal::Key(to))?;
            let key = share_key(&shared, &hash, from, to);
            shares.push((to, seal(&SharePair { number, s, b }, &key, &hash, from, to)));
        }
        let signature = match signers {
            Some(signers) => sign(signers, &roster_message(&hash))?,
            None => NO_SIGNATURE,
        };
        Ok(Shares { roster: hash, signature, shares })
    }

    /// Reads the answer to `PUT group/shares`. The same answer gives the same result.
    ///
    /// # Errors
    /// [`MemberError::Refused`] if a sender is no neighbour or has not signed the roster, or if there are too few.
    pub fn inbox(&mut self, inbox: &Inbox, signers: Option<Signers<'_>>) -> Result<Taken, MemberError> {
        self.refusing(|member| {
            let bytes = inbox.to_bytes();
            let (formed, shares) = match &member.stage {
                Stage::Sharing { formed, shares } => (formed.clone(), shares.clone()),
                Stage::Masking { inbox, senders, held, .. } if inbox.0 == bytes => return Ok(taken(senders, held)),
                Stage::Masking { .. } => return Err(Refusal::SecondInbox.into()),
                _ => return Err(MemberError::Stage),
            };
            let group = Self::group(&formed)?;
            let peers = member.signers(signers)?.map(|signers| signers.peers);
            let mut held = Vec::new();
            for letter in &inbox.letters {
                held.extend(member.read(&group, letter, peers)?);
            }
            let (members, threshold) = (group.roster.members(), group.formed.context.threshold);
            let least = sizes::inbox_min(members, group.roster.degree(), threshold, member.terms.dropouts);
            let given = held.len() as u16;
            require(given >= least, Refusal::Inbox { given, least })?;
            let senders: Vec<_> = inbox.letters.iter().map(|letter| letter.from).collect();
            let taken = taken(&senders, &held);
            member.stage = Stage::Masking { formed, shares, inbox: Bytes(bytes), senders, held, body: None };
            Ok(taken)
        })
    }

    /// What a neighbour sent; `None` if it is damaged.
    fn read(&self, group: &Group, letter: &Letter, peers: Option<&dyn Peers>) -> Result<Option<Held>, MemberError> {
        let (from, to, hash) = (letter.from, group.formed.index, group.roster.hash());
        let neighbour = group.formed.neighbours.iter().find(|neighbour| neighbour.index == from);
        let neighbour = neighbour.ok_or(Refusal::Neighbour(from))?;
        if let Some(peers) = peers {
            let has_signed = peers.has_signed(&neighbour.certificate, &roster_message(&hash), &letter.signature);
            require(has_signed, Refusal::Signature(from))?;
        }
        let shared = agree(&self.secrets()?.c.0, &neighbour.record.c_pk).map_err(|_| Refusal::Key(from))?;
        let opened = unseal(&letter.ciphertext, &share_key(&shared, &hash, from, to), &hash, from, to).ok();
        let opened = opened.filter(|pair| Some(pair.number) == group.roster.share_number(from, to));
        Ok(opened.map(|pair| Held { from, s: Secret(pair.s), b: Secret(pair.b) }))
    }
}

/// Checks that a record is the one that the roster names.
pub(super) fn check_record(formed: &Formed, member: &Neighbour) -> Result<(), Refusal> {
    let named = formed.records.get(usize::from(member.index));
    require(named == Some(&member.record.hash()), Refusal::Neighbour(member.index))
}

/// Checks that a certificate is the one that the record names, and is trusted.
pub(super) fn check_certificate(member: &Neighbour, peers: &dyn Peers) -> Result<(), Refusal> {
    let is_named = Sha256Hash::of(&member.certificate) == member.record.certificate;
    require(is_named && peers.is_trusted(&member.certificate), Refusal::Certificate(member.index))
}

/// The device's signature over a message.
pub(super) fn sign(signers: Signers<'_>, message: &[u8]) -> Result<Signature, MemberError> {
    let signature = signers.keys.sign(message)?;
    signing::from_der(&signature).ok_or_else(|| crate::keys::KeyError("it gives no signature in DER".into()).into())
}

pub(super) fn require(is_met: bool, refusal: Refusal) -> Result<(), Refusal> {
    if is_met { Ok(()) } else { Err(refusal) }
}

fn taken(senders: &[u16], held: &[Held]) -> Taken {
    let neighbours: Vec<_> = held.iter().map(|held| held.from).collect();
    let damaged = senders.iter().copied().filter(|sender| !neighbours.contains(sender)).collect();
    Taken { neighbours, damaged }
}
