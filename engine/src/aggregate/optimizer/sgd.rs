//! Federated averaging (McMahan et al. 2017, <https://arxiv.org/abs/1602.05629>, algorithm 1) with a server learning
//! rate and a momentum (FedAvgM, Hsu et al. 2019, <https://arxiv.org/abs/1909.06335>).

use tributary_protocol::model::Companion;

use super::step::Optimizer;

/// The step is `rate * D` of the combined update D. With a rate of 1 and the weighted mean, the next model is the
/// weighted mean of the clients' models. With a momentum b, `v = b v + D` and the step is `rate * v`; with Nesterov
/// momentum `rate * (b v + D)`.
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    pub rate: f64,
    pub momentum: f64,
    pub nesterov: bool,
}

impl Sgd {
    /// Without a momentum.
    pub fn plain(rate: f64) -> Self {
        Self { rate, momentum: 0.0, nesterov: false }
    }
}

impl Optimizer for Sgd {
    fn companions(&self) -> &'static [Companion] {
        if self.momentum == 0.0 { &[] } else { &[Companion::Momentum] }
    }

    fn initial(&self, _: Companion) -> f64 {
        0.0
    }

    fn step(&self, block: &mut [f64], companions: &mut [Vec<f64>]) {
        if let [velocity] = companions {
            for (value, v) in block.iter_mut().zip(velocity) {
                *v = self.momentum * *v + *value;
                *value = if self.nesterov { self.momentum * *v + *value } else { *v };
            }
        }
        for value in block {
            *value *= self.rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aggregate::optimizer::step::{AggregateError, advance, rounded, step};
    use tributary_protocol::fixed::{Contribution, Weight};

    use crate::aggregate::{Accumulator, SumCaps};

    const CAPS: SumCaps = SumCaps { weight_max: Weight::examples(1000), magnitude_max: 8.0, updates_max: 50 };

    fn fedavg(model: &[f32], first: usize, sum: &Accumulator, rate: f64) -> Result<Vec<f32>, AggregateError> {
        advance(model, &step(&Sgd::plain(rate), sum, first..first + model.len(), &mut [])?, first)
    }

    fn delta(block: std::ops::Range<usize>, sum: &Accumulator, rate: f64) -> Result<Vec<f32>, AggregateError> {
        rounded(step(&Sgd::plain(rate), sum, block.clone(), &mut [])?, block.start)
    }

    fn sum_of(updates: &[(Vec<f32>, u32)]) -> Accumulator {
        let sum = Accumulator::new(updates[0].0.len(), CAPS).expect("the caps are right");
        for (delta, weight) in updates {
            let weight = Weight::examples(*weight);
            sum.add(0, delta, weight);
            sum.count(Contribution::of_one(weight)).expect("the update is within the caps");
        }
        sum
    }

    /// Whether `got` is the f32 nearest to `expected` or one of its neighbours.
    fn within_one_ulp(got: f32, expected: f64) -> bool {
        let nearest = expected as f32;
        got == nearest || got == nearest.next_up() || got == nearest.next_down()
    }

    /// Values with at least 2^-10 of magnitude, where an ulp of f32 is far above the sum's steps.
    fn value() -> impl Strategy<Value = f32> {
        prop_oneof![0.001f32..4.0, -4.0f32..-0.001]
    }

    proptest! {
        #[test]
        fn the_new_model_is_within_one_ulp_of_an_f64_reference(
            model in prop::collection::vec(value(), 3),
            updates in prop::collection::vec((prop::collection::vec(value(), 3), 1u32..=1000), 1..=50),
            rate in 0.1f64..2.0,
        ) {
            let sum = sum_of(&updates);
            let total: f64 = updates.iter().map(|(_, weight)| f64::from(*weight)).sum();
            // Half a step of the sum per update, and four roundings of f64 (see the accumulator's tests). The binary
            // point of these caps is 44.
            let mean_error_max = updates.len() as f64 / (total * 2f64.powi(45)) + 8.0 * 2f64.powi(-51);
            for (index, got) in fedavg(&model, 0, &sum, rate).unwrap().into_iter().enumerate() {
                let weighted: f64 =
                    updates.iter().map(|(delta, weight)| f64::from(delta[index]) * f64::from(*weight)).sum();
                let expected = f64::from(model[index]) + rate * weighted / total;
                // Where model and mean cancel out, an ulp shrinks below the sum's own error.
                let error = (f64::from(got) - expected).abs();
                prop_assert!(
                    within_one_ulp(got, expected) || error <= rate * mean_error_max + 1e-14,
                    "{got} instead of {expected}"
                );
            }
        }

        /// What a client computes from a model and a rounded step has the bits of what the coordinator computes.
        #[test]
        fn adding_a_rounded_step_in_f64_is_f32_addition(
            model in prop::collection::vec(any::<f32>(), 8), step in prop::collection::vec(any::<f32>(), 8),
        ) {
            for (weight, step) in model.iter().zip(&step) {
                let sum = weight + step;
                match advance(&[*weight], &[*step], 0) {
                    Ok(next) => prop_assert_eq!(next[0].to_bits(), sum.to_bits()),
                    Err(_) => prop_assert!(!sum.is_finite()),
                }
            }
        }

        #[test]
        fn one_client_is_identity(
            model in prop::collection::vec(value(), 4), local in prop::collection::vec(value(), 4), weight in 1u32..=1000,
        ) {
            let delta: Vec<f32> = local.iter().zip(&model).map(|(local, model)| local - model).collect();
            let next = fedavg(&model, 0, &sum_of(&[(delta.clone(), weight)]), 1.0).unwrap();
            for index in 0..4 {
                let expected = f64::from(model[index]) + f64::from(delta[index]);
                prop_assert!(within_one_ulp(next[index], expected), "{} instead of {expected}", next[index]);
            }
        }

        #[test]
        fn equal_weights_are_the_plain_mean(
            deltas in prop::collection::vec(prop::collection::vec(value(), 2), 1..=50), weight in 1u32..=1000,
        ) {
            let weighted: Vec<_> = deltas.iter().map(|delta| (delta.clone(), weight)).collect();
            let plain: Vec<_> = deltas.iter().map(|delta| (delta.clone(), 1)).collect();
            let next = |updates: &[_]| fedavg(&[1.0, -1.0], 0, &sum_of(updates), 1.0).unwrap();
            for (index, got) in next(&weighted).into_iter().enumerate() {
                let mean = deltas.iter().map(|delta| f64::from(delta[index])).sum::<f64>() / deltas.len() as f64;
                let expected = [1.0, -1.0][index] + mean;
                prop_assert!(within_one_ulp(got, expected) || (f64::from(got) - expected).abs() < 1e-12);
                prop_assert!(within_one_ulp(got, f64::from(next(&plain)[index])) || expected.abs() < 1e-6);
            }
        }
    }

    #[test]
    fn two_rounds_of_the_worked_example_are_met() {
        let updates = |deltas: [[f32; 3]; 3]| {
            let weighted: Vec<_> =
                deltas.iter().zip([10, 20, 30]).map(|(delta, weight)| (delta.to_vec(), weight)).collect();
            sum_of(&weighted)
        };
        let first = updates([[0.3, -0.1, 0.02], [-0.1, 0.4, 0.0], [0.2, 0.1, -0.06]]);
        let second = updates([[0.1, 0.1, 0.1], [0.05, -0.2, 0.0], [-0.15, 0.3, 0.05]]);
        let near = |got: &[f32], expected: [f64; 3]| {
            got.iter().zip(expected).all(|(got, expected)| within_one_ulp(*got, expected))
        };
        let model = fedavg(&[1.0, -2.0, 0.5], 0, &first, 1.0).unwrap();
        assert!(near(&model, [1.116666666667, -1.833333333333, 0.473333333333]), "{model:?}");
        let model = fedavg(&model, 0, &second, 1.0).unwrap();
        assert!(near(&model, [1.075, -1.733333333333, 0.515]), "{model:?}");
    }

    #[test]
    fn a_server_learning_rate_scales_the_step() {
        let sum = sum_of(&[(vec![1.0, -2.0], 3)]);
        assert_eq!(fedavg(&[1.0, 1.0], 0, &sum, 0.5), Ok(vec![1.5, 0.0]));
        assert_eq!(fedavg(&[1.0, 1.0], 0, &sum, 0.0), Ok(vec![1.0, 1.0]));
    }

    #[test]
    fn a_model_and_a_rounded_step_make_the_next_model() {
        let sum = sum_of(&[(vec![1.0, -2.0, 0.5], 3)]);
        assert_eq!(delta(1..3, &sum, 0.5), Ok(vec![-1.0, 0.25]));
        assert_eq!(advance(&[1.0, 1.0], &[-1.0f32, 0.25], 1), Ok(vec![0.0, 1.25]));
        assert_eq!(delta(1..3, &sum, 1e39), Err(AggregateError::NotFinite { index: 1 }));
        let error = AggregateError::NotFinite { index: 6 };
        assert_eq!(advance(&[1.0, f32::MAX], &[0.0f32, f32::MAX], 5), Err(error));
        assert_eq!(delta(2..4, &sum, 1.0), Err(AggregateError::WrongLength { model: 4, updates: 3 }));
        let empty = Accumulator::new(2, CAPS).unwrap();
        assert_eq!(delta(0..2, &empty, 1.0), Err(AggregateError::NoUpdates));
    }

    #[test]
    fn a_sum_that_makes_no_model_is_refused() {
        let sum = sum_of(&[(vec![1.0, -8.0], 3)]);
        let empty = Accumulator::new(2, CAPS).unwrap();
        assert_eq!(
            fedavg(&[0.0], 1, &sum, 1e38),
            Err(AggregateError::NotFinite { index: 1 }),
            "the index in the whole model"
        );
        assert_eq!(fedavg(&[0.0; 2], 1, &sum, 1.0), Err(AggregateError::WrongLength { model: 3, updates: 2 }));
        assert_eq!(fedavg(&[0.0; 2], 0, &empty, 1.0), Err(AggregateError::NoUpdates));
        assert_eq!(fedavg(&[0.0; 3], 0, &sum, 1.0), Err(AggregateError::WrongLength { model: 3, updates: 2 }));
        assert_eq!(fedavg(&[0.0; 2], 0, &sum, 1e38), Err(AggregateError::NotFinite { index: 1 }));
        assert_eq!(fedavg(&[0.0; 2], 0, &sum, f64::NAN), Err(AggregateError::NotFinite { index: 0 }));
    }
}
