//! Update statistics: the largest magnitude of a delta, and the squares of its L2 norm.
//!
//! Magnitudes are compared as the integers of their bits: the order is the same, and infinities and NaNs are above all
//! finite numbers, so the maximum also tells whether all values are finite. A maximum of integers does not depend on
//! the order of evaluation, so the compiler can vectorise it.

use crate::for_each_cpu;

/// Number of sums that make up the squared norm. Value `i` of the flat vector belongs to sum `i % LANES`, and each sum
/// is in the order of the vector, so the result does not depend on the CPU or on the pieces in which a file arrives.
pub(super) const LANES: usize = 16;

/// The bits of a magnitude.
#[inline(always)]
pub(super) fn magnitude_bits(value: f32) -> i32 {
    value.abs().to_bits() as i32
}

/// The exact square.
#[inline(always)]
pub(super) fn square(value: f32) -> f64 {
    f64::from(value) * f64::from(value)
}

for_each_cpu! {
    /// The bits of the largest magnitude. They are at least those of infinity if a value is not finite.
    ///
    /// Reads 4 bytes per value; the bandwidth of memory is the limit.
    pub(super) fn largest_bits(values: &[f32]) -> i32 {
        values.iter().fold(0, |largest, value| largest.max(magnitude_bits(*value)))
    }
}

for_each_cpu! {
    /// Returns the bits of the largest magnitude, and the lanes plus the squares of the values, which begin at index
    /// `first` of the flat vector.
    ///
    /// Reads 4 bytes per value, usually from the first-level cache. The lanes stay in registers; the conversion to f64
    /// is the limit.
    pub(super) fn statistics(lanes: [f64; LANES], first: usize, values: &[f32]) -> (i32, [f64; LANES]) {
        let (before, aligned) = values.split_at(values.len().min(first.next_multiple_of(LANES) - first));
        let (rows, after) = aligned.as_chunks::<LANES>();
        let (mut lanes, mut largest) = (lanes, [0; LANES]);
        for (index, value) in before.iter().enumerate() {
            lanes[(first + index) % LANES] += square(*value);
        }
        for row in rows {
            for ((lane, largest), value) in lanes.iter_mut().zip(&mut largest).zip(row) {
                *lane += square(*value);
                *largest = magnitude_bits(*value).max(*largest);
            }
        }
        for (lane, value) in lanes.iter_mut().zip(after) {
            *lane += square(*value);
        }
        let edges = before.iter().chain(after).map(|value| magnitude_bits(*value));
        (largest.into_iter().chain(edges).fold(0, i32::max), lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;
    use crate::seed::Seed;

    #[test]
    fn every_cpu_gives_the_same_statistics_whatever_the_blocks() {
        let mut stream = Seed(11).stream();
        let mut values: Vec<f32> = (0..3000).map(|_| stream.uniform(-1.0, 1.0)).collect();
        values[1234] = -7.5;
        let whole = statistics(Cpu::portable(), [0.0; LANES], 5, &values);
        assert_eq!(whole.0, magnitude_bits(7.5));
        for cpu in Cpu::all() {
            assert_eq!(largest_bits(cpu, &values), whole.0, "{cpu:?}");
            for cut in [0, 1, 10, 11, 12, 27, 1000, 2999, 3000] {
                let (first, lanes) = statistics(cpu, [0.0; LANES], 5, &values[..cut]);
                let (second, lanes) = statistics(cpu, lanes, 5 + cut, &values[cut..]);
                assert_eq!((first.max(second), lanes), whole, "{cpu:?} cut at {cut}");
            }
            for (place, value) in [(0, f32::NAN), (500, f32::INFINITY), (2999, -f32::NAN)] {
                let mut values = values.clone();
                values[place] = value;
                let infinite = magnitude_bits(f32::INFINITY);
                assert!(statistics(cpu, [0.0; LANES], 3, &values).0 >= infinite, "{cpu:?}");
                assert!(largest_bits(cpu, &values) >= infinite, "{cpu:?}");
            }
        }
    }
}
