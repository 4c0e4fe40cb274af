//! What a job asks of its groups.

/// Sizes of groups, and the losses and lies that they bear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskingPolicy {
    /// Members of a full group.
    pub group: u32,
    /// Fewest members of a group.
    pub group_min: u32,
    /// The share of members that may work with the coordinator against the others.
    pub corrupt: f64,
    /// The share of members that may be lost after a group has formed.
    pub dropouts: f64,
    /// Whether members sign the roster and the survivors. Without signatures they trust the coordinator to tell all of
    /// them the same.
    pub is_signed: bool,
}

impl Default for MaskingPolicy {
    fn default() -> Self {
        Self { group: 128, group_min: 64, corrupt: 0.1, dropouts: 0.3, is_signed: true }
    }
}

/// Room for the error of a product such as `0.29 * 100`, which is below 29 in binary.
const PRODUCT_ERROR: f64 = 1e-9;

/// The whole members in a share of this many.
pub(super) fn members_in(share: f64, members: u32) -> u32 {
    ((share * f64::from(members) + PRODUCT_ERROR).floor().max(0.0) as u32).min(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_members_is_rounded_down_and_no_product_is_rounded_away() {
        let cases =
            [(0.3, 3, 0), (0.3, 10, 3), (0.29, 100, 29), (0.1, 128, 12), (0.0, 9, 0), (1.0, 9, 9), (-1.0, 9, 0)];
        for (share, members, expected) in cases {
            assert_eq!(members_in(share, members), expected, "{share} of {members}");
        }
    }
}
