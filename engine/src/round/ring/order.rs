//! Who is next to whom.

use tributary_protocol::seed::Seed;

/// Places members around the ring: the first attempt has them by enrolment number, each further one in another order,
/// so that two whose link fails are rarely neighbours again.
pub fn around<T>(members: &mut [T], number: impl Fn(&T) -> u64, seed: Seed, attempt: u32) {
    members.sort_by_key(&number);
    if attempt > 1 {
        let seed = seed.derive("ring", attempt.into());
        members.sort_by_key(|member| seed.derive("member", number(member)).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_attempt_has_other_neighbours() {
        let ring = |attempt| {
            let mut members: Vec<u64> = (1..=8).rev().collect();
            around(&mut members, |number| *number, Seed(7), attempt);
            members
        };
        assert_eq!(ring(1), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_ne!(ring(2), ring(1));
        assert_eq!(ring(2), ring(2));
        assert_ne!(ring(2), ring(3));
    }
}
