//! The update under masks.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::secure::keys::{agree, mask_key, mask_slots_key, self_key, self_slots_key};
use tributary_protocol::secure::{BITS_MAX, Mask, Masks, SLOTS_MAX, Sign, Words, packed};

use super::member::{Group, Member, Stage};
use super::refusal::{MemberError, Refusal};

impl Member {
    /// The roster's hash, from which the common subset and the rotation follow. `None` before the group is formed.
    pub fn roster(&self) -> Option<Sha256Hash> {
        let formed = match &self.stage {
            Stage::Sharing { formed, .. } | Stage::Masking { formed, .. } | Stage::Agreeing { formed, .. } => formed,
            _ => return None,
        };
        Self::group(formed).ok().map(|group| group.roster.hash())
    }

    /// Bits of a value in this group. `None` before the group is formed.
    pub fn bits(&self) -> Option<u8> {
        self.size().map(|(_, bits)| bits)
    }

    /// Members of this group, and bits of a value in it. `None` before the group is formed.
    pub fn size(&self) -> Option<(u16, u8)> {
        match &self.stage {
            Stage::Sharing { formed, .. } | Stage::Masking { formed, .. } => {
                Self::group(formed).ok().map(|group| (group.roster.members(), group.formed.context.bits))
            }
            _ => None,
        }
    }

    /// SHA-256 of the masked body, once there is one: it may have left the device.
    pub fn body(&self) -> Option<Sha256Hash> {
        match &self.stage {
            Stage::Masking { body, .. } => *body,
            _ => None,
        }
    }

    /// Masks an update, in place, and makes the body of `PUT update`. An update is masked once: the same values give
    /// the same body, and other values are refused.
    ///
    /// # Errors
    /// [`MemberError::Update`] if the values have not the group's bits, or are too many; nothing is decided then.
    /// [`MemberError::Refused`] if another update was masked before.
    pub fn masked(&mut self, mut values: Words, mut slots: Vec<u64>) -> Result<Vec<u8>, MemberError> {
        self.refusing(|member| {
            let Stage::Masking { formed, senders, .. } = &member.stage else { return Err(MemberError::Stage) };
            let group = Self::group(formed)?;
            let context = &group.formed.context;
            let fits = values.bits() == context.bits && values.len() <= context.length as usize;
            if !fits || context.bits > BITS_MAX || slots.len() > SLOTS_MAX {
                return Err(MemberError::Update);
            }
            let masks = member.masks(&group, senders)?;
            masks.apply(0, &mut values.as_mut());
            masks.apply_to_slots(&mut slots);
            let bytes = packed::body(&group.roster.hash(), &values, &slots);
            let Stage::Masking { body, .. } = &mut member.stage else { return Err(MemberError::Stage) };
            let sha256 = Sha256Hash::of(&bytes);
            match body.get_or_insert(sha256) {
                before if *before == sha256 => Ok(bytes),
                _ => Err(Refusal::SecondUpdate.into()),
            }
        })
    }

    fn masks(&self, group: &Group, senders: &[u16]) -> Result<Masks, MemberError> {
        let (secrets, own, hash) = (self.secrets()?, group.formed.index, group.roster.hash());
        let mut masks = Masks::default();
        let mut push = |values, slots, sign| {
            masks.values.push(Mask { key: values, sign });
            masks.slots.push(Mask { key: slots, sign });
        };
        push(self_key(&secrets.b.0, &hash, own), self_slots_key(&secrets.b.0, &hash, own), Sign::Plus);
        for neighbour in group.formed.neighbours.iter().filter(|neighbour| senders.contains(&neighbour.index)) {
            let other = neighbour.index;
            let shared = agree(&secrets.s.0, &neighbour.record.s_pk).map_err(|_| Refusal::Key(other))?;
            let (values, slots) = (mask_key(&shared, &hash, own, other), mask_slots_key(&shared, &hash, own, other));
            push(values, slots, Sign::of(own, other));
        }
        Ok(masks)
    }
}
