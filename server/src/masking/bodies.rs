//! The sum of masked updates, which are read as they are stored.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::secure::packed::{PackedError, Unpacker};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::slots::SLOTS;
use tributary_protocol::secure::{Context, Survivors, Words};

use crate::blob::masked_key;
use crate::db::{DbError, SecureMemberRow};
use crate::models::error::CommitError;
use crate::services::Services;

/// The masked updates of a group.
pub(super) struct Bodies<'a> {
    pub(super) services: &'a Services,
    pub(super) members: &'a [SecureMemberRow],
    pub(super) context: &'a Context,
    pub(super) roster: Sha256Hash,
    pub(super) survivors: &'a Survivors,
}

impl Bodies<'_> {
    /// The sum of the survivors' masked updates, with that of their slots. One chunk of an update is in memory at a
    /// time.
    pub(super) async fn sum(&self, quantiser: &Quantiser) -> Result<(Words, Vec<u64>), CommitError> {
        let Self { services, members, context, roster, survivors } = *self;
        let length = quantiser.body_values(&roster);
        let (mut values, mut slots) = (Words::zeros(context.bits, length), vec![0u64; SLOTS]);
        for index in survivors.indexes() {
            let member = &members[usize::from(index)];
            let lost = || DbError::Corrupt(format!("{} has no masked update", member.assignment));
            let sha256: Sha256Hash = member.body().ok_or_else(lost)?;
            let mut body = services.blobs.reader(&services.db, masked_key(member.assignment), sha256).await?;
            let mut unpacker = Unpacker::new(roster, context.bits, length as u32, SLOTS);
            let mut first = 0;
            let damaged = |error: PackedError| DbError::corrupt("a masked update", error);
            while let Some(data) = body.next().await? {
                let add = |read: &[u64]| {
                    values.add(first, read);
                    first += read.len();
                };
                unpacker.read(&data, add).map_err(damaged)?;
                tokio::task::yield_now().await;
            }
            let told = unpacker.finish().map_err(damaged)?;
            slots.iter_mut().zip(told).for_each(|(sum, slot)| *sum = sum.wrapping_add(slot));
        }
        Ok((values, slots))
    }
}
