//! What an update counts for in the combination of its round: its weight, and its part of the divisor.

use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::job_file::{Divisor, JobFile, StalenessWeight};

use super::gathering::Weighing;

/// What an update counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// What its values are multiplied by.
    pub weight: Weight,
    /// What it adds to the divisor of the mean.
    pub divisor: Weight,
}

/// How staleness changes what updates count for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Discount {
    factor: StalenessWeight,
    divisor: Divisor,
}

impl Discount {
    pub fn of(job: &JobFile) -> Self {
        match job.round.mode.buffered() {
            Some(buffered) => Self { factor: buffered.staleness_weight, divisor: buffered.divisor },
            // Every update of a synchronous round starts from the version of its round.
            None => Self { factor: StalenessWeight::Constant, divisor: Divisor::Weights },
        }
    }

    /// The weight of an update from this many examples that is this many versions behind.
    pub fn weight(&self, examples: Weight, staleness: u32) -> Weight {
        examples.discounted(self.factor.factor(staleness))
    }

    /// What such an update counts for in a sum.
    pub fn share(&self, weighing: Weighing, contribution: Contribution, staleness: u32) -> Share {
        let full = weighing.weight(contribution);
        let weight = self.weight(full, staleness);
        let divisor = match self.divisor {
            Divisor::Count => full,
            Divisor::Weights => weight,
        };
        Share { weight, divisor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{Accumulator, Combined, SumCaps};

    fn discount(divisor: Divisor) -> Discount {
        Discount { factor: StalenessWeight::Polynomial { a: 0.5 }, divisor }
    }

    fn of_one(examples: u32) -> Contribution {
        Contribution::of_one(Weight::examples(examples))
    }

    /// Updates of one unit each, of which the third is three versions behind.
    fn mean(discount: &Discount, updates: &[([f32; 3], u32)]) -> Vec<f64> {
        let caps = SumCaps { weight_max: Weight::examples(1), magnitude_max: 8.0, updates_max: 3 };
        let sum = Accumulator::new(3, caps).unwrap();
        for (values, staleness) in updates {
            let Share { weight, divisor } = discount.share(Weighing::Uniform, of_one(9), *staleness);
            sum.add(0, values, weight);
            sum.count(Contribution { weight: divisor, updates: 1 }).unwrap();
        }
        sum.mean(0..3).unwrap()
    }

    #[test]
    fn a_discount_shortens_the_step_or_moves_the_mean() {
        let updates = [([1.0, 0.0, 0.0], 0), ([0.0, 1.0, 0.0], 1), ([0.0, 0.0, 1.0], 3)];
        let factors = [1.0, 0.5_f64.sqrt(), 0.5];
        let close = |got: Vec<f64>, divisor: f64| {
            let expected = factors.map(|factor| factor / divisor);
            assert!(got.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-5), "{got:?}, {expected:?}");
        };
        close(mean(&discount(Divisor::Count), &updates), 3.0);
        close(mean(&discount(Divisor::Weights), &updates), factors.iter().sum());
    }

    /// One round of FedBuff from (1, -2, 0.5), with updates of equal weight that are 0, 1 and 3 versions behind: the
    /// printed digits of an independent computation in f64.
    #[test]
    fn fedbuff_equals_its_vectors_with_either_divisor() {
        let deltas = [[0.3, -0.1, 0.02], [-0.1, 0.4, 0.0], [0.2, 0.1, -0.06]];
        let model = |divisor| {
            let discount = discount(divisor);
            // So many examples that rounding to 2^-16 of one is below the digits.
            let share = |staleness| discount.share(Weighing::Examples, of_one(1 << 30), staleness);
            let shares = [0, 1, 3].map(share);
            let total: f64 = shares.iter().map(|share| share.divisor.as_f64()).sum();
            let step = |index: usize| -> f64 {
                deltas.iter().zip(&shares).map(|(delta, share)| delta[index] * share.weight.as_f64() / total).sum()
            };
            [1.0 + step(0), -2.0 + step(1), 0.5 + step(2)].map(|value| format!("{value:.12}"))
        };
        assert_eq!(model(Divisor::Count), ["1.109763107294", "-1.922385762508", "0.496666666667"]);
        assert_eq!(model(Divisor::Weights), ["1.149195011627", "-1.894503195559", "0.495469181607"]);
    }

    #[test]
    fn a_synchronous_job_discounts_nothing() {
        let text = "name = 'j'\npopulation = 'p'\nmodel = { parameters = [{ name = 'w', shape = [1] }] }\n\
                    training = { epochs = 1, optimizer = { kind = 'sgd', learning_rate = 1.0 } }\n";
        let examples = Weight::examples(7);
        let share = Discount::of(&JobFile::parse(text).unwrap()).share(Weighing::Examples, of_one(7), 5);
        assert_eq!(share, Share { weight: examples, divisor: examples });
        let mode = "round = { mode = { kind = 'buffered', buffer = 1, concurrency = 1 } }";
        let share = Discount::of(&JobFile::parse(&format!("{text}{mode}")).unwrap());
        assert_eq!(share.share(Weighing::Examples, of_one(7), 3).divisor, examples);
        assert_eq!(share.weight(examples, 3).as_f64(), 3.5);
    }

    #[test]
    fn no_update_loses_all_its_weight() {
        let steep = Discount { factor: StalenessWeight::Polynomial { a: 50.0 }, divisor: Divisor::Weights };
        let weight = steep.weight(Weight::examples(1), 1_000);
        assert!(!weight.is_zero() && weight.as_f64() < 1e-4);
    }
}
