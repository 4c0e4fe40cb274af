//! The random factors of dropout, the same for every trainer.

use tributary_protocol::seed::{Seed, Stream};

/// The randomness of a step of training, counted from 0. It does not depend on earlier steps, so that a training can go
/// on after any of them.
pub(super) fn stream_of_step(seed: Seed, step: u64) -> Stream {
    seed.derive("dropout", step).stream()
}

/// `count` factors, 0 or `1 / (1 - probability)`. One random number of 64 bits decides about two values.
pub(super) fn dropout_mask(randomness: &mut Stream, count: usize, probability: f64) -> Vec<f32> {
    let kept = (1.0 / (1.0 - probability)) as f32;
    let threshold = (probability * (1u64 << 32) as f64) as u64;
    let mut mask = Vec::with_capacity(count + 1);
    while mask.len() < count {
        let both = randomness.next_u64();
        mask.extend([both >> 32, both & 0xffff_ffff].map(|half| if half < threshold { 0.0 } else { kept }));
    }
    mask.truncate(count);
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_drops_the_share_asked_for_and_keeps_the_mean() {
        for probability in [0.1, 0.5, 0.9] {
            let mask = dropout_mask(&mut Seed(1).stream(), 100_001, probability);
            assert_eq!(mask.len(), 100_001);
            let dropped = mask.iter().filter(|value| **value == 0.0).count() as f64 / 100_001.0;
            assert!((dropped - probability).abs() < 0.01, "{dropped} of {probability}");
            let mean = mask.iter().map(|value| f64::from(*value)).sum::<f64>() / 100_001.0;
            assert!((mean - 1.0).abs() < 0.03, "{mean}");
        }
    }

    #[test]
    fn a_mask_repeats_with_its_seed_only() {
        let mask = |seed| dropout_mask(&mut Seed(seed).stream(), 64, 0.5);
        assert_eq!(mask(1), mask(1));
        assert_ne!(mask(1), mask(2));
    }
}
