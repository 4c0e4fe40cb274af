//! The last stages: the member agrees on who survived, and gives one share of each neighbour.

use std::collections::BTreeSet;

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::secure::messages::{Agreement, Neighbour, OpenShare, ShareKind, Unmask};
use tributary_protocol::secure::signing::{Signature, survivors_message};
use tributary_protocol::secure::{Record, Survivors, sizes};

use super::forming::{check_certificate, check_record, require, sign};
use super::member::{Chosen, Group, Held, Member, Stage};
use super::peers::{Peers, Signers};
use super::refusal::{MemberError, Refusal};
use super::stored::Bytes;

/// What a member sends after it has read the survivors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The body of `PUT group/agreement`: the signature over the survivors.
    Agreement(Box<Signature>),
    /// The body of `PUT group/unmask`, in groups without signatures.
    Unmask(Unmask),
}

impl Member {
    /// Reads the answer to `GET group/survivors`. With it the member decides which secret of each neighbour it may give
    /// a share of, and erases the other shares. The same survivors give the same answer.
    ///
    /// # Errors
    /// [`MemberError::Refused`] if there are too few survivors, this client is none, or there were others before.
    pub fn survivors(&mut self, survivors: &Survivors, signers: Option<Signers<'_>>) -> Result<Next, MemberError> {
        self.refusing(|member| {
            let bytes = survivors.to_bytes();
            let (formed, held) = match &member.stage {
                Stage::Masking { formed, held, body: Some(_), .. } => (formed.clone(), held.clone()),
                Stage::Agreeing { survivors, signature, .. } => {
                    require(survivors.0 == bytes, Refusal::SecondSurvivors)?;
                    let signature = signature.0.as_slice().try_into().map_err(|_| MemberError::Stored)?;
                    return Ok(Next::Agreement(Box::new(signature)));
                }
                Stage::Unmasking { survivors, chosen } => {
                    require(survivors.0 == bytes, Refusal::SecondSurvivors)?;
                    return unmask(chosen).map(Next::Unmask);
                }
                _ => return Err(MemberError::Stage),
            };
            let group = Self::group(&formed)?;
            member.check_survivors(&group, survivors)?;
            let signature = match member.signers(signers)? {
                Some(signers) => {
                    let message = survivors_message(&survivors.hash(&group.roster.hash()));
                    Some(sign(signers, &message)?)
                }
                None => None,
            };
            let choose = |held: Held| {
                let is_survivor = survivors.contains(held.from);
                Chosen::of(held, is_survivor)
            };
            let chosen: Vec<_> = held.into_iter().map(choose).collect();
            // The body is with the coordinator, so the member's own secrets have done their work.
            member.secrets = None;
            let survivors = Bytes(bytes);
            match signature {
                Some(signature) => {
                    let stored = Bytes(signature.to_vec());
                    member.stage = Stage::Agreeing { formed, survivors, signature: stored, chosen };
                    Ok(Next::Agreement(Box::new(signature)))
                }
                None => {
                    let unmask = unmask(&chosen)?;
                    member.stage = Stage::Unmasking { survivors, chosen };
                    Ok(Next::Unmask(unmask))
                }
            }
        })
    }

    fn check_survivors(&self, group: &Group, survivors: &Survivors) -> Result<(), Refusal> {
        let members = group.roster.members();
        let least = self.terms.survivors_min(members);
        let given = if survivors.members() == members { survivors.count() } else { 0 };
        require(given >= least, Refusal::Survivors { given, least })?;
        require(survivors.contains(group.formed.index), Refusal::Lost)
    }

    /// Reads the answer to `PUT group/agreement` and gives the shares.
    ///
    /// # Errors
    /// [`MemberError::Refused`] if too few members signed the same survivors.
    pub fn agreement(&mut self, agreement: &Agreement, signers: Option<Signers<'_>>) -> Result<Unmask, MemberError> {
        self.refusing(|member| {
            let (formed, survivors, chosen) = match &member.stage {
                Stage::Agreeing { formed, survivors, chosen, .. } => (formed, survivors.clone(), chosen.clone()),
                Stage::Unmasking { chosen, .. } => return unmask(chosen),
                _ => return Err(MemberError::Stage),
            };
            let Some(signers) = member.signers(signers)? else { return Err(MemberError::Stage) };
            let group = Self::group(formed)?;
            let set = Survivors::from_bytes(&survivors.0).map_err(|_| MemberError::Stored)?;
            let message = survivors_message(&set.hash(&group.roster.hash()));
            let given = member.signatures(&group, agreement, &message, signers.peers)?;
            let least = sizes::quorum(group.roster.members(), member.terms.corrupt);
            require(given >= least, Refusal::Quorum { given, least })?;
            let unmask = unmask(&chosen)?;
            member.stage = Stage::Unmasking { survivors, chosen };
            Ok(unmask)
        })
    }

    /// How many members signed the survivors: this one, and each other one with a certificate and a record of its own.
    fn signatures(
        &self,
        group: &Group,
        agreement: &Agreement,
        message: &[u8],
        peers: &dyn Peers,
    ) -> Result<u16, MemberError> {
        let own = Record::from_bytes(self.record()).map_err(|_| MemberError::Stored)?;
        let mut certificates: BTreeSet<Sha256Hash> = BTreeSet::from([own.certificate]);
        let formed = &group.formed;
        for (index, signature) in agreement.signatures.iter().filter(|(index, _)| *index != formed.index) {
            let is_signer = |member: &&Neighbour| member.index == *index;
            let neighbour = formed.neighbours.iter().find(is_signer);
            let signer = match neighbour {
                Some(neighbour) => neighbour,
                None => {
                    let Some(stranger) = agreement.strangers.iter().find(is_signer) else { continue };
                    if check_record(formed, stranger).is_err() || check_certificate(stranger, peers).is_err() {
                        continue;
                    }
                    stranger
                }
            };
            if peers.has_signed(&signer.certificate, message, signature) {
                certificates.insert(signer.record.certificate);
            }
        }
        Ok(certificates.len() as u16)
    }
}

/// The body of `PUT group/unmask`.
fn unmask(chosen: &[Chosen]) -> Result<Unmask, MemberError> {
    let share = |chosen: &Chosen| {
        let kind = ShareKind::from_number(chosen.kind).map_err(|_| MemberError::Stored)?;
        Ok(OpenShare { owner: chosen.from, kind, share: chosen.share.0.clone() })
    };
    Ok(Unmask { shares: chosen.iter().map(share).collect::<Result<_, MemberError>>()? })
}
