//! The exact discrete Gaussian: the noise that a client adds to integers.
//!
//! The sampler is algorithm D of Karney 2016 (<https://arxiv.org/abs/1303.6257>, section 5), with comparisons of
//! integers and of uniform deviates alone. The distribution is that of Canonne, Kamath and Steinke 2020
//! (<https://arxiv.org/abs/2004.00010>): an integer i has a probability in proportion to `exp(-i^2 / (2 sigma^2))`.

use super::uniform::{Uniform, falls, half};
use crate::seed::SecretStream;

/// Parts of a step in which the standard deviation is given.
const PARTS: u64 = 1 << 8;
/// Largest standard deviation: what is computed from it fits 64 bits.
const DEVIATION_MAX: f64 = (1u64 << 40) as f64;

/// Draws integers around zero with one standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscreteGaussian {
    /// The standard deviation in parts of a step.
    parts: u64,
}

impl DiscreteGaussian {
    /// The least standard deviation of whole 256ths of a step that is not below this one. `None` if that is not above
    /// 0, or beyond 2^40 steps.
    pub fn at_least(deviation: f64) -> Option<Self> {
        let fits = deviation > 0.0 && deviation <= DEVIATION_MAX;
        fits.then(|| Self { parts: (deviation * PARTS as f64).ceil() as u64 })
    }

    /// The parameter sigma, in steps.
    pub fn deviation(&self) -> f64 {
        self.parts as f64 / PARTS as f64
    }

    /// The next draw. The stream must be secret.
    pub fn draw(&self, stream: &mut SecretStream) -> i64 {
        let choices = self.parts.div_ceil(PARTS);
        loop {
            // The magnitude is sigma (k + x), where k has the probability exp(-k^2 / 2).
            let mut k = 0u64;
            while half(stream) {
                k += 1;
            }
            if !(0..k * k.saturating_sub(1)).all(|_| half(stream)) {
                continue;
            }
            let is_negative = stream.next_u64() >> 63 == 1;
            let first = (k * self.parts).div_ceil(PARTS);
            let magnitude = first + stream.below(choices);
            let over = magnitude * PARTS - k * self.parts;
            // Zero has no second sign.
            if over >= self.parts || (is_negative && magnitude == 0) {
                continue;
            }
            let mut x = Uniform::fraction(over, self.parts);
            if (0..=k).all(|_| falls(k, &mut x, stream)) {
                return if is_negative { -magnitude.cast_signed() } else { magnitude.cast_signed() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the distribution is the exact one. Method: chi-squared of the first classes against the probabilities of
    /// its definition, for deviations below and above a step; the p-values are above 0.001.
    #[test]
    fn draws_have_the_probabilities_of_the_definition() {
        const DRAWS: usize = 300_000;
        for (deviation, printed) in [
            (1.0, Some([0.398_942_278_267, 0.241_970_723_224, 0.053_990_966_224, 0.004_431_848_388])),
            (4.0, Some([0.099_735_570_1, 0.096_667_029_201, 0.088_016_331_691, 0.075_284_358_039])),
            (0.5, None),
            (2.625, None),
            (37.25, None),
        ] {
            let sampler = DiscreteGaussian::at_least(deviation).unwrap();
            assert_eq!(sampler.deviation().to_bits(), f64::to_bits(deviation));
            let weight = |value: i64| (-(value as f64).powi(2) / (2.0 * deviation * deviation)).exp();
            let whole: f64 = (-1_000..=1_000).map(weight).sum();
            if let Some(printed) = printed {
                let near = |at: usize| (weight(at as i64) / whole - printed[at]).abs() < 1e-9;
                assert!((0..4).all(near), "{deviation}");
            }
            let mut stream = SecretStream::of([9; 32]);
            let drawn: Vec<i64> = (0..DRAWS).map(|_| sampler.draw(&mut stream)).collect();
            let reach = (2.0 * deviation).ceil() as i64;
            let (mut squared, mut classes) = (0.0, 0);
            for value in -reach..=reach {
                let wanted = weight(value) / whole * DRAWS as f64;
                let count = drawn.iter().filter(|got| **got == value).count() as f64;
                squared += (count - wanted).powi(2) / wanted;
                classes += 1;
            }
            // Three deviations of chi squared above its mean.
            let most = f64::from(classes) + 3.1 * (2.0 * f64::from(classes)).sqrt() + 4.0;
            assert!(squared < most, "{deviation}: chi squared of {classes} classes is {squared}");
            let variance = drawn.iter().map(|value| (*value as f64).powi(2)).sum::<f64>() / DRAWS as f64;
            let exact: f64 = (-1_000..=1_000).map(|value| weight(value) * (value as f64).powi(2)).sum::<f64>() / whole;
            assert!((variance / exact - 1.0).abs() < 0.012, "{deviation}: {variance} {exact}");
        }
    }

    #[test]
    fn large_deviations_are_drawn_and_what_is_none_is_refused() {
        let mut stream = SecretStream::of([1; 32]);
        let sampler = DiscreteGaussian::at_least((1u64 << 40) as f64).unwrap();
        let mean_square =
            (0..4_000).map(|_| (sampler.draw(&mut stream) as f64 / (1u64 << 40) as f64).powi(2)).sum::<f64>() / 4_000.0;
        assert!((mean_square - 1.0).abs() < 0.1, "{mean_square}");
        for none in [0.0, -1.0, f64::NAN, f64::INFINITY, (1u64 << 41) as f64] {
            assert_eq!(DiscreteGaussian::at_least(none), None);
        }
        assert_eq!(DiscreteGaussian::at_least(2.501).unwrap().deviation(), 641.0 / 256.0);
    }

    /// What a key draws never changes.
    #[test]
    fn draws_are_a_function_of_the_key() {
        let sampler = DiscreteGaussian::at_least(100.0).unwrap();
        let drawn = |key: u8| {
            let mut stream = SecretStream::of([key; 32]);
            (0..6).map(|_| sampler.draw(&mut stream)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(3), drawn(3));
        assert_ne!(drawn(3), drawn(4));
    }
}
