//! The links of a ring that go through the coordinator, and whether the star would be less for it.

/// Bytes of a value in a sum of up to 16 updates in `f32`, with which a sum is estimated before there is one
/// (measured: 5.0 to 5.5).
const SUM_BYTES_PER_VALUE: f64 = 5.5;

/// The places of members that have no way to the next one around the ring.
pub fn relayed<T>(members: &[T], lacks_way: impl Fn(&T, &T) -> bool) -> Vec<usize> {
    let next = |place: usize| &members[(place + 1) % members.len()];
    (0..members.len()).filter(|place| lacks_way(&members[*place], next(*place))).collect()
}

/// Whether the coordinator would receive less if its members sent their own updates, of at most so many bytes: a ring
/// of so many members brings one sum of so many values, and each relayed link has 2 (m - 1) / m sums.
///
/// Without relayed links a group is formed in any case: its job asks for it, and one sum shows less than single
/// updates.
#[must_use]
pub fn star_is_less([members, relayed]: [usize; 2], values: usize, update_bytes: u64) -> bool {
    let (members, relayed) = (members as f64, relayed as f64);
    let sum_bytes = SUM_BYTES_PER_VALUE * values as f64;
    let ring_bytes = sum_bytes * (1.0 + relayed * 2.0 * (members - 1.0) / members);
    relayed > 0.0 && members * (update_bytes as f64) < ring_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_relayed_where_two_neighbours_have_no_way() {
        let lacks = |pairs: &'static [(u8, u8)]| move |a: &u8, b: &u8| pairs.contains(&(*a.min(b), *a.max(b)));
        assert_eq!(relayed(&[1, 2, 3, 4], lacks(&[(2, 3), (1, 3)])), [1], "1 and 3 are not next to each other");
        assert_eq!(relayed(&[1, 2, 3, 4], lacks(&[(1, 4)])), [3], "the last one sends to the first");
        assert_eq!(relayed(&[1, 2], lacks(&[(1, 2)])), [0, 1], "two have two links");
        assert_eq!(relayed(&[1, 2, 3], lacks(&[])), [0; 0]);
    }

    #[test]
    fn the_star_is_chosen_where_its_updates_are_less_than_what_is_relayed() {
        // A million values: 4 MB in f32, and 1.03 MB in int8; a sum has 5.5 MB.
        let is_star = |members, relayed, update_bytes| star_is_less([members, relayed], 1_000_000, update_bytes);
        for members in 2..=256 {
            assert!(!is_star(members, 0, 1), "a group without relayed links is formed");
            assert!(is_star(members, members, 4_000_000), "all links relayed: {members}");
        }
        // 5.5 + 8.8 = 14.3 MB against 20 MB, and 5.5 + 17.6 = 23.1 MB.
        assert_eq!([1, 2].map(|relayed| is_star(5, relayed, 4_000_000)), [false, true]);
        assert!(is_star(5, 1, 1_030_000), "rounded updates are less than one relayed link");
    }
}
