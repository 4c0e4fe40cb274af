//! How many bits, members and shares a group needs. Coordinators and clients compute the same.

use super::BITS_MAX;
pub use super::packed::body_bytes;

/// Standard deviations of a coordinate of the worst sum that fit to either side of zero.
const DEVIATIONS: f64 = 7.0;

/// Room for the error of a product such as `0.29 * 100`, which is below 29 in binary.
const PRODUCT_ERROR: f64 = 1e-9;

/// Bits of a masked value: `ceil(log2(14 sqrt((f n levels)^2 + sigma^2) + 1))`. `several_blocks` says whether a vector
/// has more than one block of rotation, so that f is 2 instead of 1. `sigma` is the standard deviation of the noise of
/// the sum in steps of the grid, or 0. `None` if more than 64 bits are needed.
pub fn value_bits(members: u16, levels: u32, several_blocks: bool, sigma: f64) -> Option<u8> {
    let factor = if several_blocks { 2.0 } else { 1.0 };
    let worst = factor * f64::from(members) * f64::from(levels);
    let range = 2.0 * DEVIATIONS * (worst * worst + sigma * sigma).sqrt() + 1.0;
    let mut power = 1.0;
    (0..=BITS_MAX).find(|bits| {
        let fits = power >= range;
        power *= 2.0;
        fits && *bits > 0
    })
}

/// Fewest survivors of a group: `n - floor(dropouts n)`.
pub fn survivors_min(members: u16, dropouts: f64) -> u16 {
    members - share(members, dropouts)
}

/// Fewest survivors of a group that do not work with the coordinator, at least 1: those whose noise is sure to be in
/// the sum.
pub fn honest_min(members: u16, dropouts: f64, corrupt: f64) -> u16 {
    survivors_min(members, dropouts).saturating_sub(share(members, corrupt)).max(1)
}

/// Fewest neighbours from which a member must have shares. Where everybody is a neighbour, those of a group that loses
/// as many as it may; else as many as rebuild a secret, because any of them may be lost by chance.
pub fn inbox_min(members: u16, degree: u16, threshold: u16, dropouts: f64) -> u16 {
    match degree == members - 1 {
        true => survivors_min(members, dropouts) - 1,
        false => threshold,
    }
}

/// Signatures over the same survivors that make them the only ones while at most `corrupt n` members lie:
/// `floor((n + corrupt n) / 2) + 1`.
pub fn quorum(members: u16, corrupt: f64) -> u16 {
    (members + share(members, corrupt)) / 2 + 1
}

/// A share of a whole, rounded down.
fn share(whole: u16, share: f64) -> u16 {
    (share.clamp(0.0, 1.0) * f64::from(whole) + PRODUCT_ERROR) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_table() {
        let members = [3, 10, 32, 64, 128, 256, 512, 1024];
        let of = |levels, several| members.map(|members| value_bits(members, levels, several, 0.0).unwrap());
        assert_eq!(of(1, false), [6, 8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(of(8, false), [9, 11, 12, 13, 14, 15, 16, 17]);
        assert_eq!(of(8, true), [10, 12, 13, 14, 15, 16, 17, 18]);
        // sigma is z levels sqrt(d) with d = 2^20.
        let noised = |members, z: f64| value_bits(members, 8, true, z * 8.0 * 1024.0).unwrap();
        assert_eq!([noised(128, 1.0), noised(128, 4.0), noised(1024, 1.0), noised(1024, 5.0)], [17, 19, 18, 20]);
        assert_eq!(value_bits(3, 1, false, 1e30), None);
        assert_eq!(value_bits(3, 1, false, f64::NAN), None);
    }

    #[test]
    fn members_follow_from_the_shares_of_those_who_are_lost_or_lie() {
        assert_eq!((survivors_min(128, 0.3), survivors_min(3, 0.3), survivors_min(10, 0.0)), (90, 3, 10));
        assert_eq!((honest_min(128, 0.3, 0.1), honest_min(3, 0.3, 0.1), honest_min(3, 0.5, 0.33)), (78, 3, 2));
        assert_eq!((inbox_min(128, 56, 25, 0.3), inbox_min(10, 9, 6, 0.3), inbox_min(4, 3, 2, 0.3)), (25, 6, 2));
        assert_eq!((survivors_min(100, 0.29), quorum(100, 0.29)), (71, 65), "no product is rounded away");
        assert_eq!((quorum(128, 0.1), quorum(3, 0.1), quorum(10, 0.0), quorum(3, 1.0)), (71, 2, 6, 4));
    }

    /// 1,000,000 values of 15 bits, as in the table of costs.
    #[test]
    fn a_body_has_the_bytes_of_its_bits() {
        assert_eq!(body_bytes(15, 1_000_000, 5), 34 + 1_875_000 + 40);
        assert_eq!(body_bytes(3, 3, 0), 34 + 2);
    }
}
