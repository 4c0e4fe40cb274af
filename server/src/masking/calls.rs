//! What members of a group send, and what they are told.

use rustls::pki_types::CertificateDer;
use tributary_protocol::id::{AssignmentId, ClientId, JobId};
use tributary_protocol::secure::messages::{Agreement, Formed, Inbox, Join, Letter, Neighbour, Shares, Unmask};
use tributary_protocol::secure::open::Opening;
use tributary_protocol::secure::signing::{Signature, survivors_message};
use tributary_protocol::secure::{Context, Record, Roster, Survivors, sizes};
use tributary_protocol::state::{AssignmentState, GroupStage};
use tributary_tls::devices::has_signed;

use super::certificates;
use super::roster::{records_of, roster_of, stored_share};
use crate::db::{ClientRow, DbError, SecureGroupRow, SecureMemberRow, ShareStage, Tx};
use crate::lifecycle::assignments::{self, Refusal};
use crate::lifecycle::groups;
use crate::services::Services;

/// What a member waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The group that it was put into.
    Formed,
    /// The shares that it was sent.
    Inbox,
    /// The members whose updates are in the sum.
    Survivors,
    /// What others signed.
    Agreement,
}

/// A member, its group and the others.
struct Seat {
    job: JobId,
    member: SecureMemberRow,
    group: SecureGroupRow,
    members: Vec<SecureMemberRow>,
    context: Context,
    roster: Roster,
    own: u16,
}

impl Seat {
    /// The seat of a client; none while it waits for a group.
    async fn find(tx: &mut Tx, client: ClientId, id: AssignmentId) -> Result<Option<Self>, Refusal> {
        let (assignment, round) = assignments::find(tx, client, id, None).await?;
        let member = tx.secure_member(id).await?.ok_or(Refusal::NoGroup(id))?;
        let Some(group) = member.group() else {
            assignments::require_held(&assignment, &round)?;
            return Ok(None);
        };
        let group = tx.secure_group(group).await?.ok_or_else(DbError::lost)?;
        let members = tx.secure_members(group.id).await?;
        let (context, roster) = roster_of(&group, &members)?;
        let (_, own) = groups::place(&member)?;
        Ok(Some(Self { job: round.job, member, group, members, context, roster, own }))
    }

    async fn require(services: &Services, client: ClientId, id: AssignmentId) -> Result<Self, Refusal> {
        let seat = Self::find(&mut services.db.read().await?, client, id).await?;
        seat.ok_or(Refusal::NoGroup(id))
    }

    /// Refuses what comes after the group has failed.
    fn require_open(&self) -> Result<(), Refusal> {
        if self.group.stage == GroupStage::Failed { Err(groups::passed(&self.group)) } else { Ok(()) }
    }
}

/// A client joins with its record.
pub(crate) async fn join(
    services: &Services,
    client: &ClientRow,
    id: AssignmentId,
    body: &[u8],
) -> Result<(), Refusal> {
    let join = Join::from_bytes(body).map_err(|error| Refusal::Message(error.to_string()))?;
    let is_first = services.db.look().await?.secure_member(id).await?.is_none();
    if is_first && let Some(reason) = certificates::refused(services, client, id, &join).await? {
        return Err(groups::turn_away(services, client.id, id, reason).await?);
    }
    groups::join(services, client.id, id, &join).await
}

/// The answer that a member waits for; none while its group is not there yet.
pub(crate) async fn answer(
    services: &Services,
    client: ClientId,
    id: AssignmentId,
    ask: Ask,
) -> Result<Option<Vec<u8>>, Refusal> {
    // All that wait look after each change, and most changes concern one of them: two rows say so.
    if !is_due(&mut services.db.look().await?, client, id, ask).await? {
        return Ok(None);
    }
    let mut tx = services.db.read().await?;
    let Some(seat) = Seat::find(&mut tx, client, id).await? else { return Ok(None) };
    seat.require_open()?;
    match ask {
        Ask::Formed => formed(&mut tx, &seat).await.map(Some),
        Ask::Inbox => inbox(&mut tx, &seat).await.map(Some),
        Ask::Survivors => Ok(seat.group.survivors),
        Ask::Agreement => agreement(services, &mut tx, &seat).await.map(Some),
    }
}

/// Whether there may be an answer.
async fn is_due(tx: &mut Tx, client: ClientId, id: AssignmentId, ask: Ask) -> Result<bool, Refusal> {
    let member = tx.secure_member(id).await?.ok_or(Refusal::NoGroup(id))?;
    if member.client != client {
        return Err(Refusal::Forbidden(id));
    }
    let Some(group) = member.group() else {
        let is_open = tx.assignment(id).await?.is_some_and(|row| row.state == AssignmentState::Assigned);
        // One that was let go is told so.
        return Ok(!is_open);
    };
    let stage = tx.secure_group(group).await?.ok_or_else(DbError::lost)?.stage;
    Ok(match ask {
        Ask::Formed => true,
        Ask::Inbox => stage != GroupStage::Sharing,
        Ask::Survivors => stage > GroupStage::Masking,
        Ask::Agreement => stage > GroupStage::Agreeing,
    })
}

/// The group that a client was put into.
async fn formed(tx: &mut Tx, seat: &Seat) -> Result<Vec<u8>, Refusal> {
    let records = records_of(&seat.members)?;
    let neighbours = members_at(tx, seat, &records, &seat.roster.neighbours(seat.own)).await?;
    let hashes = records.iter().map(Record::hash).collect();
    Ok(Formed { context: seat.context, records: hashes, index: seat.own, neighbours }.to_bytes())
}

/// Members as others see them.
async fn members_at(tx: &mut Tx, seat: &Seat, records: &[Record], indexes: &[u16]) -> Result<Vec<Neighbour>, Refusal> {
    if indexes.is_empty() {
        return Ok(Vec::new());
    }
    let mut certificates = tx.secure_certificates(seat.group.id).await?;
    let member = |index: &u16| {
        let place = usize::from(*index);
        Neighbour { index: *index, record: records[place], certificate: std::mem::take(&mut certificates[place]) }
    };
    Ok(indexes.iter().map(member).collect())
}

/// A survivor signs who has survived.
pub(crate) async fn agree(services: &Services, client: ClientId, id: AssignmentId, body: &[u8]) -> Result<(), Refusal> {
    let signature: Signature =
        body.try_into().map_err(|_| Refusal::Message("a signature has 64 bytes, those of r and s".into()))?;
    let seat = Seat::require(services, client, id).await?;
    let survivors = seat.group.survivors().ok_or_else(|| groups::passed(&seat.group))?;
    if !survivors.contains(seat.own) {
        return Err(groups::passed(&seat.group));
    }
    let certificate = services.db.look().await?.secure_certificate(id).await?.ok_or_else(DbError::lost)?;
    let message = survivors_message(&survivors.hash(&seat.roster.hash()));
    if !has_signed(&CertificateDer::from_slice(&certificate), &message, &signature) {
        return Err(Refusal::Message("the signature is not one over the survivors".into()));
    }
    groups::agree(services, seat.job, &seat.member, &signature).await
}

/// As many signatures as a member must see, those of its neighbours first: it has their certificates already.
async fn agreement(services: &Services, tx: &mut Tx, seat: &Seat) -> Result<Vec<u8>, Refusal> {
    let spec = services.spec(tx, seat.job).await?.ok_or_else(DbError::lost)?;
    let corrupt = spec.file.secure_aggregation.as_ref().map_or(0.0, |secure| secure.corrupt);
    let quorum = usize::from(sizes::quorum(seat.roster.members(), corrupt));
    let mut signed: Vec<(u16, Signature)> = Vec::new();
    for (index, member) in (0u16..).zip(&seat.members).filter(|(index, _)| *index != seat.own) {
        if let Some(signature) = &member.signature {
            signed.push((index, signature.as_slice().try_into().map_err(|_| DbError::lost())?));
        }
    }
    let is_neighbour = |index: u16| seat.roster.are_neighbours(seat.own, index);
    signed.sort_by_key(|(index, _)| !is_neighbour(*index));
    signed.truncate(quorum);
    signed.sort_unstable_by_key(|(index, _)| *index);
    let strangers: Vec<u16> = signed.iter().map(|(index, _)| *index).filter(|index| !is_neighbour(*index)).collect();
    let strangers = members_at(tx, seat, &records_of(&seat.members)?, &strangers).await?;
    Ok(Agreement { signatures: signed, strangers }.to_bytes())
}

/// A member sends its sealed shares, one for each neighbour.
pub(crate) async fn share(services: &Services, client: ClientId, id: AssignmentId, body: &[u8]) -> Result<(), Refusal> {
    let shares = Shares::from_bytes(body).map_err(|error| Refusal::Message(error.to_string()))?;
    let seat = Seat::require(services, client, id).await?;
    if shares.roster != seat.roster.hash() {
        return Err(Refusal::Message("the shares are for another roster".into()));
    }
    let recipients: Vec<u16> = shares.shares.iter().map(|(to, _)| *to).collect();
    if recipients != seat.roster.neighbours(seat.own) {
        return Err(Refusal::Message("the shares are not one for each neighbour, by their places".into()));
    }
    let letters = shares.shares.iter().map(|(to, sealed)| (*to, [&shares.signature[..], &sealed[..]].concat()));
    let stored: Vec<_> = letters.collect();
    groups::share(services, seat.job, &seat.member, ShareStage::Sharing, &stored).await
}

/// What a member was sent.
async fn inbox(tx: &mut Tx, seat: &Seat) -> Result<Vec<u8>, Refusal> {
    let mut letters = Vec::new();
    for row in tx.shares_to(seat.group.id, seat.own).await? {
        let (signature, ciphertext) = row.share.split_at_checked(64).ok_or_else(DbError::lost)?;
        letters.push(Letter {
            from: row.sender,
            signature: signature.try_into().map_err(|_| DbError::lost())?,
            ciphertext: ciphertext.try_into().map_err(|_| DbError::lost())?,
        });
    }
    Ok(Inbox { letters }.to_bytes())
}

/// A member sends the shares that open the sum.
pub(crate) async fn unmask(
    services: &Services,
    client: ClientId,
    id: AssignmentId,
    body: &[u8],
) -> Result<(), Refusal> {
    let opened = Unmask::from_bytes(body).map_err(|error| Refusal::Message(error.to_string()))?;
    // One snapshot: shares are deleted when the group ends, and those that are left would be too few.
    let mut tx = services.db.read().await?;
    let seat = Seat::find(&mut tx, client, id).await?.ok_or(Refusal::NoGroup(id))?;
    let sharers = tx.senders(seat.group.id, ShareStage::Sharing).await?;
    drop(tx);
    if seat.group.stage == GroupStage::Summed {
        // It came too late to be needed.
        return Ok(());
    }
    seat.require_open()?;
    let survivors = seat.group.survivors().ok_or_else(|| groups::passed(&seat.group))?;
    let opening = Opening {
        context: &seat.context,
        roster: &seat.roster,
        records: &[],
        sharers: &Survivors::new(seat.roster.members(), sharers),
        survivors: &survivors,
    };
    opening.check(seat.own, &opened).map_err(|error| Refusal::Message(error.to_string()))?;
    let stored: Vec<_> = opened.shares.iter().map(|share| (share.owner, stored_share(share))).collect();
    match groups::share(services, seat.job, &seat.member, ShareStage::Unmasking, &stored).await {
        // The shares of others have opened it meanwhile.
        Err(Refusal::GroupPassed(GroupStage::Summed)) => Ok(()),
        shared => shared,
    }
}
