//! The groups of a round as people see them.

use tributary_engine::story::GroupWanted;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::operator::{GroupProgress, RoundGroup, RoundGroupMember};
use tributary_protocol::plan::GroupTrust;
use tributary_protocol::secure::Context;
use tributary_protocol::state::GroupStage;

use crate::db::{DbError, RoundKey, RoundRow, SecureGroupRow, SecureMemberRow, ShareStage, Tx};
use crate::masking::roster::roster_of;

/// The groups of a round, and the clients that wait for one.
#[derive(Debug, Default)]
pub(in crate::api) struct Groups {
    pub(in crate::api) groups: Vec<RoundGroup>,
    pub(in crate::api) waiting: u32,
}

impl Groups {
    /// Reads nothing of a job whose updates are not masked.
    pub(in crate::api) async fn read(tx: &mut Tx, file: &JobFile, goal: u32, key: RoundKey) -> Result<Self, DbError> {
        let Some(secure) = &file.secure_aggregation else { return Ok(Self::default()) };
        let mut groups = Vec::new();
        for row in tx.secure_groups(key).await? {
            let members = tx.secure_members(row.id).await?;
            let context = Context::from_bytes(&row.context).map_err(|error| DbError::corrupt("a group", error))?;
            // Members are deleted with the assignments of an old round.
            let circle = match members.len() == row.members as usize {
                true => roster_of(&row, &members)?.1.circle().to_vec(),
                false => Vec::new(),
            };
            let shared = tx.senders(row.id, ShareStage::Sharing).await?;
            let opened = tx.senders(row.id, ShareStage::Unmasking).await?;
            let came = |member: &SecureMemberRow| progress(&row, member, &shared, &opened);
            groups.push(RoundGroup {
                id: row.id,
                stage: row.stage,
                since_ms: row.stage_since_ms,
                degree: context.degree.into(),
                threshold: context.threshold.into(),
                survivors_min: secure.masking(goal, 1.0).survivors_min(row.members),
                signed: secure.trust() == GroupTrust::Signed,
                reason: row.reason(),
                members: circle
                    .iter()
                    .map(|index| &members[usize::from(*index)])
                    .map(|member| RoundGroupMember { client_number: member.number, came: came(member) })
                    .collect(),
            });
        }
        let waiting = u32::try_from(tx.secure_lobby(key).await?.len()).unwrap_or(u32::MAX);
        Ok(Self { groups, waiting })
    }
}

/// The clients of a buffer that wait for a group; none where updates are not masked.
pub(super) async fn wanted(tx: &mut Tx, file: &JobFile, buffer: &RoundRow) -> Result<Option<GroupWanted>, DbError> {
    let Some(secure) = &file.secure_aggregation else { return Ok(None) };
    let (key, size) = (buffer.key(), |count: usize| u32::try_from(count).unwrap_or(u32::MAX));
    let (waiting, grouped) = (size(tx.secure_lobby(key).await?.len()), size(tx.grouped(key.job).await?.len()));
    let training = buffer.working().saturating_sub(waiting + grouped);
    Ok(Some(GroupWanted { waiting, group_min: secure.group_min(buffer.goal), training }))
}

/// How far a member came.
fn progress(group: &SecureGroupRow, member: &SecureMemberRow, shared: &[u16], opened: &[u16]) -> GroupProgress {
    let place = member.position().unwrap_or(u16::MAX);
    let is_masked = match group.survivors() {
        Some(survivors) => survivors.contains(place),
        None => member.body().is_some(),
    };
    match group.stage {
        _ if opened.contains(&place) => GroupProgress::Opened,
        _ if is_masked && member.signature.is_some() => GroupProgress::Signed,
        _ if is_masked => GroupProgress::Masked,
        GroupStage::Sharing if shared.contains(&place) => GroupProgress::Shared,
        GroupStage::Masking if shared.contains(&place) => GroupProgress::Shared,
        GroupStage::Sharing => GroupProgress::Joined,
        _ => GroupProgress::Lost,
    }
}
