//! The group that waits for a masked update.

use tributary_engine::job::JobSpec;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{AssignmentId, GroupId};
use tributary_protocol::secure::Context;
use tributary_protocol::secure::packed::Unpacker;
use tributary_protocol::secure::slots::SLOTS;
use tributary_protocol::state::GroupStage;

use crate::db::{RoundRow, SecureGroupRow, Tx};
use crate::lifecycle::assignments::Refusal;
use crate::lifecycle::groups;
use crate::masking::roster::{quantiser_of, roster_of};

/// The group that waits for an update.
pub(super) struct Group {
    row: SecureGroupRow,
    context: Context,
    roster: Sha256Hash,
    /// Values of its body.
    values: u32,
    pub(super) until_ms: i64,
    /// SHA-256 of the update that is stored.
    pub(super) body: Option<Sha256Hash>,
}

impl Group {
    /// The group of a client; none where updates are not masked.
    ///
    /// # Errors
    /// [`Refusal::OtherForm`] when the request sends the other kind of update, [`Refusal::NoGroup`] when the client is
    /// in no group.
    pub(super) async fn find(
        tx: &mut Tx,
        (spec, round): (&JobSpec, &RoundRow),
        id: AssignmentId,
        is_masked: bool,
        now_ms: i64,
    ) -> Result<Option<Self>, Refusal> {
        match (spec.plan.masking.is_some(), is_masked) {
            (false, false) => return Ok(None),
            (true, true) => {}
            (true, false) => return Err(Refusal::OtherForm("updates of this job are masked: join a group first")),
            (false, true) => return Err(Refusal::OtherForm("updates of this job are not masked")),
        }
        let member = tx.secure_member(id).await?.ok_or(Refusal::NoGroup(id))?;
        let (group, _) = groups::place(&member)?;
        let row = tx.secure_group(group).await?.ok_or(Refusal::NoGroup(id))?;
        let (context, roster) = roster_of(&row, &tx.secure_members(group).await?)?;
        // The driver ends the stage, and gives it more time after a restart.
        let until_ms = now_ms.saturating_add(row.masking_ms);
        let roster = roster.hash();
        let values = u32::try_from(quantiser_of(spec, round)?.body_values(&roster)).unwrap_or(u32::MAX);
        Ok(Some(Self { row, context, roster, values, until_ms, body: member.body() }))
    }

    /// Checks that the group still waits for the update.
    pub(super) fn require_open(&self) -> Result<(), Refusal> {
        if self.row.stage == GroupStage::Masking { Ok(()) } else { Err(groups::passed(&self.row)) }
    }

    /// What checks the form of the body.
    pub(super) fn reader(&self) -> Unpacker {
        Unpacker::new(self.roster, self.context.bits, self.values, SLOTS)
    }

    pub(super) fn id(&self) -> GroupId {
        self.row.id
    }

    /// Why the group takes no update any more.
    pub(super) fn passed(&self) -> Refusal {
        groups::passed(&self.row)
    }
}
