//! Correlated noise with two buffers.
//!
//! Noise that is added in one version is partly taken away in later ones, so that a model, which is the sum of its
//! steps, holds much less of it than of independent noise with the same promise. The noise n of version t follows from
//! fresh noise z by `n = z - S_1 - S_2`, then `S_i = theta_i S_i + omega_i n` (buffered linear Toeplitz: Dvijotham et
//! al. 2024, <https://arxiv.org/abs/2404.16706>; McMahan, Xu and Zhang 2024, <https://arxiv.org/abs/2408.08868>).

use tributary_protocol::job_file::NoiseBuffers;

use super::search::least;
use super::{FIXED_PLACES, NOISE_PLACES};

/// One is 2^32 in [`Blt`].
const PLACES: u32 = 32;
const ONE: f64 = (1u64 << PLACES) as f64;

/// Decays and weights of the two buffers, in multiples of 2^-32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blt {
    pub theta: [u32; 2],
    pub omega: [u32; 2],
}

/// How units take part in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participation {
    /// Versions of the job.
    pub versions: u32,
    /// Versions from one update of a unit to its next, at least.
    pub separation: u32,
    /// Most updates of a unit.
    pub times: u32,
}

/// The standard deviation of the noise in a version's distance from the first, for fresh noise of the sensitivity and a
/// clip of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Of the last version, which has the most.
    pub last: f64,
    /// The root of the mean of the squares over all versions.
    pub mean: f64,
}

impl From<NoiseBuffers> for Blt {
    fn from(NoiseBuffers { theta, omega }: NoiseBuffers) -> Self {
        Self { theta, omega }
    }
}

impl From<Blt> for NoiseBuffers {
    fn from(Blt { theta, omega }: Blt) -> Self {
        Self { theta, omega }
    }
}

impl Blt {
    /// The buffers with the least noise in the last version (Nelder and Mead 1965). A job keeps those that are found
    /// when it is created: a search on another machine may end a little elsewhere.
    pub fn fit(participation: Participation) -> Self {
        let noise = |point: [f64; 4]| {
            let blt = Self::from_point(point);
            if blt.first_coefficient() > 1.0 { f64::INFINITY } else { blt.distance(participation).last }
        };
        let versions = f64::from(participation.versions.max(2));
        // From several starts: with few versions between two updates the best fast buffer forgets at once.
        let found = [0.8, 0.5, 0.04].map(|fast| {
            let start = [inverse_sigmoid(1.0 - 5.0 / (versions + 10.0)), inverse_sigmoid(fast), -1.7, -1.7];
            least(noise, start)
        });
        let best = found.into_iter().min_by(|one, other| noise(*one).total_cmp(&noise(*other)));
        Self::from_point(best.expect("there are three"))
    }

    /// A point of the search: every one is two decays between 0 and 1 and two weights above 0.
    fn from_point([slow, fast, of_slow, of_fast]: [f64; 4]) -> Self {
        let fixed = |value: f64| (value * ONE).round().clamp(0.0, ONE - 1.0) as u32;
        let omega = [of_slow, of_fast].map(|logarithm| fixed(logarithm.exp().min(1.0)));
        Self { theta: [slow, fast].map(|value| fixed(sigmoid(value))), omega }
    }

    /// Coefficient 1 of the matrix that makes fresh noise of the noise; coefficient 0 is 1, and they must not increase.
    fn first_coefficient(&self) -> f64 {
        self.omega.map(|omega| f64::from(omega) / ONE).iter().sum()
    }

    /// The square of what one unit can change in all releases together, for a clip of 1.
    pub fn sensitivity_squared(&self, participation: Participation) -> f64 {
        moved_squared(&self.coefficients(participation.versions), participation)
    }

    fn coefficients(&self, count: u32) -> Vec<f64> {
        let theta = self.theta.map(|theta| f64::from(theta) / ONE);
        let mut terms = self.omega.map(|omega| f64::from(omega) / ONE);
        let mut coefficients = vec![1.0];
        while coefficients.len() < count as usize {
            coefficients.push(terms[0] + terms[1]);
            terms = [terms[0] * theta[0], terms[1] * theta[1]];
        }
        coefficients
    }

    /// The noise in the distance of versions from the first, with fresh noise of the sensitivity.
    pub fn distance(&self, participation: Participation) -> Distance {
        let [theta, omega] = [self.theta, self.omega].map(|values| values.map(|value| f64::from(value) / ONE));
        let mut buffers = [0.0; 2];
        let noise = (0..participation.versions).map(|version| {
            let noise = f64::from(u8::from(version == 0)) - buffers[0] - buffers[1];
            buffers = [0, 1].map(|at| theta[at] * buffers[at] + omega[at] * noise);
            noise
        });
        distance(noise, self.sensitivity_squared(participation))
    }
}

/// The noise in the distance of versions from the first: from what fresh noise of 1 in the first version becomes in
/// each, and from the square of the sensitivity.
pub(super) fn distance(noise: impl Iterator<Item = f64>, sensitivity: f64) -> Distance {
    let (mut versions, mut sum, mut squares, mut total) = (0u32, 0.0, 0.0, 0.0);
    for noise in noise {
        versions += 1;
        sum += noise;
        squares += sum * sum;
        total += squares;
    }
    let mean = total / f64::from(versions.max(1));
    Distance { last: (sensitivity * squares).sqrt(), mean: (sensitivity * mean).sqrt() }
}

/// The squared norm of the sum of the columns that the updates of one unit meet, in the matrix with these coefficients.
/// It is largest with the least separation (Kalinin and Lampert 2024, for coefficients that do not increase).
pub(super) fn moved_squared(coefficients: &[f64], Participation { separation, times, .. }: Participation) -> f64 {
    let separation = separation.max(1) as usize;
    let mut sums: Vec<f64> = Vec::with_capacity(coefficients.len());
    for (at, coefficient) in coefficients.iter().enumerate() {
        // What the columns before this one meet, less what the first of them met when there were too many.
        let before = at.checked_sub(separation).map_or(0.0, |before| sums[before]);
        let first = at.checked_sub(separation * times as usize).map_or(0.0, |first| coefficients[first]);
        sums.push(coefficient + before - first);
    }
    sums.iter().map(|sum| sum * sum).sum()
}

fn sigmoid(value: f64) -> f64 {
    1.0 / (1.0 + (-value).exp())
}

fn inverse_sigmoid(share: f64) -> f64 {
    (share / (1.0 - share)).ln()
}

/// The noise of one parameter from version to version, in units of the fresh noise's standard deviation, with
/// [`FIXED_PLACES`] binary places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers(pub [i128; 2]);

impl Buffers {
    /// Bytes of the buffers of one parameter as they are stored.
    pub const BYTES: usize = 32;

    /// The noise of the next version, from its fresh noise.
    pub fn next(&mut self, blt: &Blt, fresh: i128) -> i128 {
        let noise = fresh.saturating_sub(self.0[0]).saturating_sub(self.0[1]);
        for (at, buffer) in self.0.iter_mut().enumerate() {
            *buffer = times(*buffer, blt.theta[at]).saturating_add(times(noise, blt.omega[at]));
        }
        noise
    }

    /// As they are stored: two little-endian numbers.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (first, second) = bytes.split_at_mut(Self::BYTES / 2);
        first.copy_from_slice(&self.0[0].to_le_bytes());
        second.copy_from_slice(&self.0[1].to_le_bytes());
        bytes
    }

    /// The inverse of [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (halves, _) = bytes.as_chunks::<16>();
        Self([i128::from_le_bytes(halves[0]), i128::from_le_bytes(halves[1])])
    }
}

/// Noise with [`FIXED_PLACES`] as steps of a sum's grid, rounded to the nearest.
pub fn in_steps(noise: i128) -> i64 {
    let lost = FIXED_PLACES - NOISE_PLACES;
    let rounded = noise.saturating_add(1 << (lost - 1)) >> lost;
    i64::try_from(rounded).expect("128 bits less the lost ones fit into 64")
}

/// A number times a factor in multiples of 2^-32, rounded down. The parts keep the product within 128 bits.
fn times(value: i128, factor: u32) -> i128 {
    let (high, low) = (value >> PLACES, value & i128::from(u32::MAX));
    high * i128::from(factor) + ((low * i128::from(factor)) >> PLACES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blt(theta: [f64; 2], omega: [f64; 2]) -> Blt {
        let fixed = |values: [f64; 2]| values.map(|value| (value * ONE).round() as u32);
        Blt { theta: fixed(theta), omega: fixed(omega) }
    }

    /// Versions, separation and times; theta and omega; s^2, RMSE of the last version and mean, as printed.
    type Row = ((u32, u32, u32), [f64; 2], [f64; 2], [f64; 3]);
    const TABLE: [Row; 5] = [
        (
            (100, 100, 1),
            [0.988_859_714, 0.772_987_822],
            [0.146_027_872, 0.323_541_575],
            [2.518_821, 2.536_523, 2.373_294],
        ),
        (
            (100, 20, 5),
            [0.924_984_288, 0.036_124_604],
            [0.443_638_725, 0.084_480_022],
            [15.865_641, 7.340_436, 6.143_941],
        ),
        (
            (500, 100, 5),
            [0.984_449_503, 0.648_433_127],
            [0.218_579_892, 0.280_570_486],
            [18.826_914, 8.492_353, 7.297_853],
        ),
        (
            (2000, 500, 4),
            [0.996_532_797, 0.849_781_548],
            [0.105_299_557, 0.331_744_277],
            [16.048_805, 8.173_129, 7.238_350],
        ),
        (
            (2000, 100, 20),
            [0.987_943_793, 0.609_934_043],
            [0.238_576_089, 0.268_221_013],
            [119.455_459, 27.016_177, 21.697_787],
        ),
    ];

    fn near(got: f64, wanted: f64, within: f64) {
        assert!((got - wanted).abs() <= within * wanted.abs(), "{got} is not {wanted}");
    }

    #[test]
    fn sensitivity_and_distance_are_those_of_the_table_and_the_fit_is_as_good() {
        for ((versions, separation, times), theta, omega, [squared, last, mean]) in TABLE {
            let participation = Participation { versions, separation, times };
            let printed = blt(theta, omega);
            near(printed.sensitivity_squared(participation), squared, 1e-6);
            let distance = printed.distance(participation);
            near(distance.last, last, 1e-6);
            near(distance.mean, mean, 1e-6);
            let fitted = Blt::fit(participation);
            let found = fitted.distance(participation).last;
            assert!(found <= last * (1.0 + 2e-4), "{participation:?}: {found} against {last}, {fitted:?}");
            assert!(fitted.first_coefficient() <= 1.0);
            assert_eq!(fitted, Blt::fit(participation), "the same everywhere");
        }
    }

    #[test]
    fn noise_follows_the_printed_trace() {
        let (_, theta, omega, _) = TABLE[3];
        let (blt, mut buffers) = (blt(theta, omega), Buffers::default());
        let one = 1i128 << FIXED_PLACES;
        let noise = [1, -2, 0, 3, 1, 0, 0, 2].map(|fresh: i128| {
            let noise = buffers.next(&blt, fresh * one);
            assert_eq!(Buffers::from_bytes(&buffers.to_bytes()), buffers);
            noise
        });
        let wanted = [
            1.0,
            -2.437_043_834,
            0.678_250_353_528,
            3.302_199_489_181,
            -0.174_700_462_033,
            -0.961_254_041_951,
            -0.433_276_708_448,
            1.799_620_215_676,
        ];
        for (noise, wanted) in noise.iter().zip(wanted) {
            let got = *noise as f64 / one as f64;
            assert!((got - wanted).abs() < 1e-9, "{got} is not {wanted}");
            let steps = in_steps(*noise) as f64 / f64::from(1u32 << NOISE_PLACES);
            assert!((steps - wanted).abs() < 1e-6, "{steps} is not {wanted}");
        }
    }

    #[test]
    fn a_point_of_the_search_has_the_decays_that_it_was_made_of() {
        for share in [0.04, 0.5, 0.8] {
            near(sigmoid(inverse_sigmoid(share)), share, 1e-12);
        }
        let quarter = 1 << (PLACES - 2);
        let Blt { theta, omega } = Blt::from_point([inverse_sigmoid(0.25), 40.0, 0.25f64.ln(), 1.0]);
        assert_eq!((theta, omega), ([quarter, u32::MAX], [quarter, u32::MAX]), "values stay below 1");
    }

    #[test]
    fn steps_are_rounded_to_the_nearest() {
        let step = 1i128 << (FIXED_PLACES - NOISE_PLACES);
        let noise = [3 * step, 3 * step + step / 2, 3 * step + step / 2 - 1, -step / 2 - 1, i128::MAX, i128::MIN];
        assert_eq!(noise.map(in_steps), [3, 4, 3, -1, (1 << 27) - 1, -1 << 27]);
    }

    #[test]
    fn products_are_rounded_down() {
        assert_eq!(times(3 << PLACES, 1 << 31), 3 << 31);
        assert_eq!((times(-1, 1), times(1, u32::MAX), times(-3, 1 << 31)), (-1, 0, -2));
        let most = i128::MAX >> 1;
        assert!(times(most, u32::MAX) <= most && times(-most, u32::MAX) >= -most);
    }
}
