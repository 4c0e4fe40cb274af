//! What the members of a group agree on, as it follows from stored rows.

use tributary_engine::job::JobSpec;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::secure::messages::{OpenShare, ShareKind};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::{Context, Record, Roster, SecretBytes};

use crate::db::{DbError, RoundRow, SecureGroupRow, SecureMemberRow, SecureShareRow};

/// What the members of a group agree on, and their places.
pub(crate) fn roster_of(group: &SecureGroupRow, members: &[SecureMemberRow]) -> Result<(Context, Roster), DbError> {
    let context = Context::from_bytes(&group.context).map_err(|error| DbError::corrupt("a group", error))?;
    let records = records_of(members)?;
    let hashes: Vec<Sha256Hash> = records.iter().map(Record::hash).collect();
    let roster = Roster::new(&context, &hashes).map_err(|error| DbError::corrupt("a group", error))?;
    Ok((context, roster))
}

/// How updates of a round become integers.
pub(crate) fn quantiser_of(spec: &JobSpec, round: &RoundRow) -> Result<Quantiser, DbError> {
    let plan = spec.plan_of_round(round.goal, round.policy().clip_norm);
    let masking = plan.masking.ok_or_else(|| DbError::Corrupt(format!("{} masks nothing", round.job)))?;
    let quantiser = Quantiser::new(spec.update.total(), masking.clip, masking.levels, masking.keep);
    quantiser.map_err(|error| DbError::corrupt("a plan", error))
}

/// The records of members, in the order of their roster.
pub(super) fn records_of(members: &[SecureMemberRow]) -> Result<Vec<Record>, DbError> {
    let read = |member: &SecureMemberRow| Record::from_bytes(&member.record);
    members.iter().map(read).collect::<Result<_, _>>().map_err(|error| DbError::corrupt("a member of a group", error))
}

/// The bytes of a share that opens the sum, as they are stored.
pub(super) fn stored_share(share: &OpenShare) -> Vec<u8> {
    [&[share.kind.number()], &share.share.expose()[..]].concat()
}

/// A share that opens the sum, as it was stored.
pub(super) fn opened_share(row: &SecureShareRow) -> Result<OpenShare, DbError> {
    let lost = || DbError::Corrupt("a stored share is none".into());
    let (kind, share) = row.share.split_first().ok_or_else(lost)?;
    let kind = ShareKind::from_number(*kind).map_err(|_| lost())?;
    let share = SecretBytes::new(share.try_into().map_err(|_| lost())?);
    Ok(OpenShare { owner: row.recipient, kind, share })
}
