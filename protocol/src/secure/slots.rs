//! What members tell beside the values of their updates: numbers that are masked and added up as they are.

use super::noised::MemberNoise;
use crate::seed::SecretStream;

/// Slots of a body.
pub const SLOTS: usize = 5;

/// Losses are told up to this one; larger ones count as it.
const LOSS_MAX: f64 = 64.0;
/// Steps of a loss up to [`LOSS_MAX`].
const LOSS_STEPS: f64 = 65_535.0;

/// What one member tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// Whether its update was within the clip.
    pub is_whole: bool,
    /// Examples of its training.
    pub examples: u32,
    /// Mean loss of its training. None for a loss that is not finite, or below 0.
    pub loss: Option<f64>,
}

/// What the members of a sum told together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// Members.
    pub members: u64,
    /// Of them: those whose updates were within the clip.
    pub whole: u64,
    /// Examples of their trainings.
    pub examples: u64,
    /// Mean of their losses; none unless all of them told one, because the mean of one would be that member's.
    pub loss: Option<f64>,
}

impl Told {
    /// The slots of a member that adds noise: examples and loss stay with it, and the bit of its clip is noised.
    pub fn noised(is_whole: bool, noise: &MemberNoise, random: &mut SecretStream) -> [u64; SLOTS] {
        [1, noise.bit(is_whole, random), 0, 0, 0]
    }

    /// The slots of a body: one member, whether it is whole, its examples, whether it tells a loss, that loss in steps.
    pub fn slots(&self) -> [u64; SLOTS] {
        let loss =
            self.loss.filter(|loss| *loss >= 0.0).map(|loss| (loss.min(LOSS_MAX) / LOSS_MAX * LOSS_STEPS).round());
        [1, self.is_whole.into(), self.examples.into(), loss.is_some().into(), loss.unwrap_or(0.0) as u64]
    }
}

impl Totals {
    /// Reads the sums of slots.
    pub fn of([members, whole, examples, losses, loss]: [u64; SLOTS]) -> Self {
        let mean = (losses > 0 && losses == members).then(|| loss as f64 / losses as f64 / LOSS_STEPS * LOSS_MAX);
        Self { members, whole, examples, loss: mean }
    }

    /// Reads the sums of slots of so many members that added noise.
    pub fn noised([members, bits, ..]: [u64; SLOTS], noise: &MemberNoise, count: u32) -> Self {
        Self { members, whole: noise.whole(bits, count).into(), examples: 0, loss: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_add_up() {
        let told = [
            Told { is_whole: true, examples: 60, loss: Some(0.5) },
            Told { is_whole: false, examples: 7, loss: Some(1.5) },
            Told { is_whole: true, examples: 1, loss: Some(1.0) },
            Told { is_whole: true, examples: u32::MAX, loss: Some(1.0) },
        ];
        let mut sums = [0u64; SLOTS];
        for told in told {
            sums.iter_mut().zip(told.slots()).for_each(|(sum, slot)| *sum = sum.wrapping_add(slot));
        }
        let totals = Totals::of(sums);
        assert_eq!((totals.members, totals.whole, totals.examples), (4, 3, 68 + u64::from(u32::MAX)));
        assert!((totals.loss.unwrap() - 1.0).abs() < 1e-3, "{totals:?}");
        assert_eq!(Totals::of([0; SLOTS]).loss, None);
        assert_eq!(Totals::of([3, 3, 9, 1, 500]).loss, None, "that of one member");
        assert_eq!(Told { loss: Some(1e9), ..told[0] }.slots()[4], 65_535);
        for untold in [Some(-1.0), Some(f64::NAN), None] {
            assert_eq!(Told { loss: untold, ..told[0] }.slots()[3], 0);
        }
    }
}
