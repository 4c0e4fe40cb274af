//! The inner loops of the exact sum.

use tributary_protocol::for_each_cpu;

/// 1.5 * 2^52: an f64 this large has no places behind the point, so adding it rounds to an integer, ties to even.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
const TWO_POW_32: f64 = 4_294_967_296.0;

/// `value.round_ties_even() as i64`, for absolute values below 2^63.
///
/// Plain x86-64 has no instruction for either half of that and calls a function for each number. Rounding a high and a
/// low half by addition uses only what vectorises everywhere: 0.5 instead of 1.6 ns per parameter on one core.
#[inline(always)]
pub(super) fn quantise(value: f64) -> i64 {
    // A multiple of 2^32 is even, so the remainder rounds, ties too, as the whole would. Nothing before that
    // rounding is inexact: the halves are powers of two apart and the difference fits 53 bits.
    let high = value * (1.0 / TWO_POW_32) + ROUNDER;
    let low = (value - (high - ROUNDER) * TWO_POW_32) + ROUNDER;
    (rounded_bits(high) << 32).wrapping_add(rounded_bits(low))
}

/// The integer that was added to [`ROUNDER`]: consecutive integers there are consecutive bit patterns.
#[inline(always)]
fn rounded_bits(sum: f64) -> i64 {
    sum.to_bits().wrapping_sub(ROUNDER.to_bits()).cast_signed()
}

for_each_cpu! {
    /// `sums[i] += round(values[i] * factor)`, one rounding per value.
    ///
    /// 20 bytes move per parameter (4 and 8 read, 8 written): memory bandwidth is the limit. Addition wraps, so that
    /// subtracting an update is the exact inverse of adding it; no sum within the caps overflows.
    pub(super) fn add_scaled(sums: &mut [i64], values: &[f32], factor: f64) {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum = sum.wrapping_add(quantise(f64::from(*value) * factor));
        }
    }
}

for_each_cpu! {
    /// Appends `round(values[i] * factor)`: what [`add_scaled`] makes of sums that are zero.
    ///
    /// 12 bytes move per parameter (4 read, 8 written).
    pub(super) fn scaled(sums: &mut Vec<i64>, values: &[f32], factor: f64) {
        sums.extend(values.iter().map(|value| quantise(f64::from(*value) * factor)));
    }
}

for_each_cpu! {
    /// Appends `sums[i] / divisor`. 16 bytes move per parameter; without AVX-512 the conversions are the limit.
    pub(super) fn divided(quotients: &mut Vec<f64>, sums: &[i64], divisor: f64) {
        quotients.extend(sums.iter().map(|sum| *sum as f64 / divisor));
    }
}

/// `sums[place(indices[i])] += round(values[i] * factor)`, one rounding per value.
///
/// 24 bytes move per value (8 of index and value, 16 of the sum), and each value may touch a cache line of its own:
/// memory latency is the limit, not bandwidth.
pub(super) fn add_scattered(
    sums: &mut [i64],
    place: impl Fn(u32) -> usize,
    indices: &[u32],
    values: &[f32],
    factor: f64,
) {
    for (index, value) in indices.iter().zip(values) {
        let sum = &mut sums[place(*index)];
        *sum = sum.wrapping_add(quantise(f64::from(*value) * factor));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use tributary_protocol::cpu::Cpu;
    use tributary_protocol::seed::Seed;

    use super::*;

    proptest! {
        #[test]
        fn quantising_is_rounding_with_ties_to_even(mantissa in -1.0f64..1.0, exponent in 0i32..63, half in any::<bool>()) {
            let mut value = mantissa * 2f64.powi(exponent);
            if half {
                value = value.trunc() + 0.5;
            }
            prop_assert_eq!(quantise(value), value.round_ties_even() as i64);
            prop_assert_eq!(quantise(-value), -quantise(value));
        }
    }

    #[test]
    fn quantising_is_right_where_it_is_hardest() {
        let largest = (1u64 << 63) as f64;
        let half_block = 2_147_483_648.0;
        for value in [
            0.0,
            -0.0,
            0.5,
            1.5,
            2.5,
            half_block,
            half_block - 0.5,
            half_block + 0.5,
            3.0 * half_block,
            TWO_POW_32 - 0.5,
            TWO_POW_32 + 0.5,
            4_503_599_627_370_495.5,
            ROUNDER,
            largest.next_down(),
            f64::MIN_POSITIVE,
        ] {
            assert_eq!(quantise(value), value.round_ties_even() as i64, "{value}");
            assert_eq!(quantise(-value), -(value.round_ties_even() as i64), "-{value}");
        }
    }

    #[test]
    fn every_cpu_adds_the_same_bits() {
        let mut stream = Seed(1).stream();
        let values: Vec<f32> = (0..1003).map(|_| stream.uniform(-8.0, 8.0)).collect();
        for factor in [1.0, -3.0 * 2f64.powi(20), 1000.0 * 2f64.powi(48)] {
            let expected: Vec<i64> =
                values.iter().map(|value| 7 + (f64::from(*value) * factor).round_ties_even() as i64).collect();
            for cpu in Cpu::all() {
                let mut sums = vec![7; values.len()];
                add_scaled(cpu, &mut sums, &values, factor);
                assert_eq!(sums, expected, "{cpu:?}");
                let mut sums = vec![7];
                scaled(cpu, &mut sums, &values, factor);
                assert!(sums[1..].iter().zip(&expected).all(|(sum, expected)| sum + 7 == *expected), "{cpu:?}");
                let mut quotients = Vec::new();
                divided(cpu, &mut quotients, &sums, factor);
                assert!(
                    quotients.iter().zip(&sums).all(|(quotient, sum)| *quotient == *sum as f64 / factor),
                    "{cpu:?}"
                );
            }
        }
    }
}
