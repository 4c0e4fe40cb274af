//! The inner loops of the exact sum.

use tributary_protocol::fixed::quantise;
use tributary_protocol::for_each_cpu;

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
    use tributary_protocol::cpu::Cpu;
    use tributary_protocol::seed::Seed;

    use super::*;

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
