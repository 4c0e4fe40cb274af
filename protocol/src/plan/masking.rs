//! How updates are masked before they are sent.

use serde::{Deserialize, Serialize};

use crate::secure::noised::{BadNoise, MemberNoise};
use crate::secure::quantise::Quantiser;
use crate::secure::sizes;

/// Who is trusted to tell all members of a group the same: who the others are, and who survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GroupTrust {
    /// The coordinator: it reads no update if it follows the protocol.
    Honest,
    /// Nobody: members sign rosters and survivors with the keys of their device certificates.
    Signed,
}

/// Masking of the updates of a round. All members of a group have the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Masking {
    /// Fewest members of a group. A client gives no update to a smaller one.
    pub group_min: u32,
    /// Share of the members that may work together with a dishonest coordinator.
    pub corrupt: f64,
    /// Share of the members that may be lost after they joined.
    pub dropouts: f64,
    /// Steps of a value on either side of zero, as the root of the mean square of a clipped update.
    pub levels: u32,
    /// Share of the values that are sent.
    pub keep: f64,
    /// L2 norm to which the delta is clipped in this round.
    pub clip: f64,
    /// Who is trusted to form groups.
    pub trust: GroupTrust,
    /// Whether members of a group may have trained different versions of the model. What they agree on then names no
    /// model, so that members cannot tell whether each was given another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_version: bool,
    /// The noise that members add; none where sums are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<GroupNoise>,
}

/// Noise of the sum of a group, as standard deviations. The members that are sure to survive and to be honest add it
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupNoise {
    /// Of a value, in clips.
    pub values: f64,
    /// Of the number of updates within the clip, in updates; absent with a fixed clip, which nobody counts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<f64>,
}

impl GroupNoise {
    /// The noise multiplier of values and count together: what an accountant reads. (A bit is 1/2 or -1/2, so the
    /// count's own multiplier is twice its deviation.)
    #[must_use]
    pub fn multiplier(&self) -> f64 {
        let count = self.count.map_or(0.0, |count| (2.0 * count).powi(-2));
        (self.values.powi(-2) + count).powf(-0.5)
    }
}

impl Masking {
    /// Fewest of this many members whose updates make a sum.
    pub fn survivors_min(&self, members: u32) -> u32 {
        let members = u16::try_from(members).unwrap_or(u16::MAX);
        sizes::survivors_min(members, self.dropouts).into()
    }

    /// Bits of a masked value in a group of this many members. `None` if no word holds their sum.
    pub fn value_bits(&self, quantiser: &Quantiser, members: u16) -> Option<u8> {
        let noise = self.member_noise(quantiser, members).ok()?;
        let deviation = noise.map_or(0.0, |noise| noise.deviation_of_sum(members.into()));
        sizes::value_bits(members, self.levels, quantiser.has_several_blocks(), deviation)
    }

    /// What each of this many members adds to its update; none where sums are exact.
    ///
    /// # Errors
    /// [`BadNoise`] if members cannot add the noise of the plan.
    pub fn member_noise(&self, quantiser: &Quantiser, members: u16) -> Result<Option<MemberNoise>, BadNoise> {
        let honest = sizes::honest_min(members, self.dropouts, self.corrupt);
        let of = |noise: GroupNoise| MemberNoise::new(quantiser, honest, noise.values, noise.count);
        self.noise.map(of).transpose()
    }
}
