//! Chances of draws without replacement, as logarithms: 2^-40 is beyond what a sum of chances near 1 can tell.

/// Logarithms of factorials.
pub(super) struct Factorials(Vec<f64>);

impl Factorials {
    /// The factorials of all numbers up to this one.
    pub(super) fn up_to(most: u32) -> Self {
        let mut sum = 0.0;
        let positive = (1..=most).map(|number| {
            sum += f64::from(number).ln();
            sum
        });
        Self(std::iter::once(0.0).chain(positive).collect())
    }

    /// The logarithm of the number of ways to choose `chosen` of `all`.
    pub(super) fn ln_choose(&self, all: u32, chosen: u32) -> f64 {
        match chosen <= all {
            true => self.0[all as usize] - self.0[chosen as usize] - self.0[(all - chosen) as usize],
            false => f64::NEG_INFINITY,
        }
    }

    /// The chance that exactly `found` of the `marked` ones are among `drawn` of `all`.
    fn chance(&self, all: u32, marked: u32, drawn: u32, found: u32) -> f64 {
        if found > drawn || found > marked || drawn - found > all - marked {
            return 0.0;
        }
        let ways = self.ln_choose(marked, found) + self.ln_choose(all - marked, drawn - found);
        (ways - self.ln_choose(all, drawn)).exp()
    }

    /// The chance that at least `found` of the `marked` ones are among `drawn` of `all`.
    pub(super) fn at_least(&self, all: u32, marked: u32, drawn: u32, found: u32) -> f64 {
        // From the smallest chance on, so that none is lost in the sum.
        (found..=drawn.min(marked)).rev().map(|found| self.chance(all, marked, drawn, found)).sum()
    }

    /// The smallest number that is found with at most this chance, or a larger one: the most marked ones that a draw
    /// bears, plus 1.
    pub(super) fn rarely_found(&self, all: u32, marked: u32, drawn: u32, chance_below: f64) -> u32 {
        let (mut sum, mut found) = (0.0, drawn + 1);
        while found > 0 {
            sum += self.chance(all, marked, drawn, found - 1);
            if sum >= chance_below {
                break;
            }
            found -= 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_small_draws_that_are_counted_by_hand() {
        let factorials = Factorials::up_to(60);
        let near = |got: f64, wanted: f64| assert!((got / wanted - 1.0).abs() < 1e-12, "{got} is not {wanted}");
        // Two of four marked among six, three drawn: 4 of 20 draws have one of them, 12 two, 4 three.
        near(factorials.chance(6, 4, 3, 2), 12.0 / 20.0);
        near(factorials.at_least(6, 4, 3, 3), 4.0 / 20.0);
        near(factorials.at_least(6, 4, 3, 0), 1.0);
        near(factorials.ln_choose(60, 30).exp(), 118_264_581_564_861_424.0);
        assert_eq!(factorials.at_least(6, 2, 3, 3), 0.0);
        assert_eq!(factorials.ln_choose(3, 4), f64::NEG_INFINITY);
    }

    #[test]
    fn what_is_rarely_found_is_the_end_of_the_tail() {
        let factorials = Factorials::up_to(40);
        for chance_below in [0.5, 1e-2, 1e-6] {
            let found = factorials.rarely_found(40, 12, 10, chance_below);
            assert!(factorials.at_least(40, 12, 10, found) < chance_below);
            assert!(factorials.at_least(40, 12, 10, found - 1) >= chance_below);
        }
        assert_eq!(factorials.rarely_found(40, 0, 10, 1e-6), 1, "nothing is found where nothing is marked");
        assert_eq!(factorials.rarely_found(40, 40, 10, 1e-6), 11, "all are found where all are marked");
    }
}
