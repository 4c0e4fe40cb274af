//! Where members go on that exchange while they train.

/// The fewest exchanges with which a member can go on, among members that have completed so many.
///
/// Nobody completes an exchange in which another member did not take part, so members of one attempt are one apart at
/// most. Whoever is ahead goes back by one. A member that lost its memory is further behind, and stays out.
#[must_use]
pub fn goes_on_from(exchanged: impl Iterator<Item = u32>) -> u32 {
    exchanged.max().unwrap_or_default().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_more_than_one_exchange_behind_stay_out() {
        let stay = |exchanged: &[u32]| {
            let from = goes_on_from(exchanged.iter().copied());
            exchanged.iter().copied().filter(|exchanged| *exchanged >= from).collect::<Vec<_>>()
        };
        assert_eq!(stay(&[0, 0, 1, 0]), [0, 0, 1, 0], "the first exchange is made again");
        assert_eq!(stay(&[7, 6, 0, 7]), [7, 6, 7]);
        assert_eq!(stay(&[0, 0]), [0, 0]);
        assert!(stay(&[]).is_empty());
    }
}
