//! Deep gradient compression: the largest values of a momentum.
//!
//! Lin, Han, Mao, Wang and Dally 2018 (arXiv:1712.01887, algorithm 4). The device keeps a momentum u <- m u + g and a
//! residual v <- v + u. It sends the largest values of v, subtracts them from v, and sets u to zero there (momentum
//! factor masking, equation 7). [`super::super::residual`] updates u and v; this module encodes v.
//!
//! A warm-up sends more in the first rounds: a quarter of the values in round 1, then less by a constant factor per
//! round (with the defaults 25 %, 6.3 %, 1.6 %, 0.4 % and then 0.1 %; section 3.3 of the paper does the same by
//! epochs).

use serde::{Deserialize, Serialize};

use super::properties::Properties;
use super::settings::{BadSetting, RESIDUAL_AGE_ROUNDS_MAX, check_density};
use super::sparse::{self, SparseValues};
use super::top_k;
use crate::model::ParameterList;
use crate::update::error::SectionError;
use crate::update::frame::{self, Part, Section, SectionCodec};

/// Density in the first round of a warm-up.
const WARM_UP_DENSITY: f64 = 0.25;
/// Longest warm-up in rounds.
const WARM_UP_ROUNDS_MAX: u32 = 10_000;

/// Settings of `dgc`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Dgc {
    /// Share of the values that is sent after the warm-up, above 0 and at most 1. Default: 0.001.
    pub density: f64,
    /// Encoding of the values that are sent. Default: `f16`.
    pub values: SparseValues,
    /// Momentum m, at least 0 and below 1. Default: 0.9.
    pub momentum: f32,
    /// Whether the momentum of a value becomes zero when the value is sent (momentum factor masking). Default: true.
    pub momentum_masking: bool,
    /// Largest L2 norm of a delta; a longer one is scaled down before it is accumulated. 0 disables clipping. For N
    /// clients per round the paper uses the largest norm of their sum, divided by the square root of N. Default: 0.
    pub clip: f32,
    /// Rounds of the warm-up, in which the density falls from 0.25 to `density`. At most 10,000. Default: 4.
    pub warm_up_rounds: u32,
    /// Age in rounds after which a device drops its residual and its momentum. Default: 100.
    pub residual_age_rounds_max: u32,
}

impl Default for Dgc {
    fn default() -> Self {
        Self {
            density: 0.001,
            values: SparseValues::F16,
            momentum: 0.9,
            momentum_masking: true,
            clip: 0.0,
            warm_up_rounds: 4,
            residual_age_rounds_max: RESIDUAL_AGE_ROUNDS_MAX,
        }
    }
}

impl Dgc {
    pub(in crate::update) fn properties(&self) -> Properties {
        top_k::properties(self.density, self.density_in_round(1), self.values)
    }

    pub(in crate::update) fn check(&self) -> Result<(), BadSetting> {
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(("momentum", "at least 0 and below 1"));
        }
        if !(self.clip >= 0.0 && self.clip.is_finite()) {
            return Err(("clip", "a length, or 0 for none"));
        }
        if self.warm_up_rounds > WARM_UP_ROUNDS_MAX {
            return Err(("warm_up_rounds", "at most 10000"));
        }
        check_density(self.density)
    }

    /// Encodes `accumulated`, the v of the paper, in a round of the job, from 1.
    pub(in crate::update) fn encode(&self, accumulated: &[f32], parameters: &ParameterList, round: u32) -> Vec<u8> {
        top_k::encode_largest(accumulated, parameters, self.density_in_round(round), self.values)
    }

    /// Density in a round of the job, from 1: `0.25 (density / 0.25)^((round - 1) / warm_up_rounds)`, but at least
    /// `density`.
    pub fn density_in_round(&self, round: u32) -> f64 {
        let passed = round.saturating_sub(1);
        if passed >= self.warm_up_rounds || self.density >= WARM_UP_DENSITY {
            return self.density;
        }
        let factor = root(self.density / WARM_UP_DENSITY, self.warm_up_rounds);
        (WARM_UP_DENSITY * power(factor, passed)).max(self.density)
    }
}

impl SectionCodec for Dgc {
    fn section_bytes_max(&self, parts: &[Part]) -> usize {
        // Whatever the density, all of the largest values may be in one section.
        sparse::section_bytes_max(self.values, frame::values(parts))
    }

    fn decode(&self, bytes: &[u8], parts: &[Part], out: &mut Section) -> Result<(), SectionError> {
        sparse::read(self.values, bytes, frame::values(parts), out)
    }
}

/// The `degree`th root of a number from 0 to 1, by bisection. It only multiplies, so the result is the same on every
/// platform, unlike that of `powf`.
fn root(number: f64, degree: u32) -> f64 {
    const HALVINGS: usize = 60;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if power(middle, degree) < number {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// A whole power, by squaring.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::codecs::sparse::testing::{decoded_frame, normal, parameters};

    #[test]
    fn the_density_falls_as_in_the_paper() {
        let dgc = Dgc::default();
        for (round, expected) in [(1, 0.25), (2, 0.063), (3, 0.0158), (4, 0.004), (5, 0.001), (6, 0.001), (9999, 0.001)]
        {
            let density = dgc.density_in_round(round);
            assert!((density / expected - 1.0).abs() < 0.02, "round {round}: {density}");
        }
        assert_eq!(dgc.density_in_round(5), 0.001);
        assert_eq!(dgc.density_in_round(0), 0.25);
        assert_eq!(Dgc { warm_up_rounds: 0, ..dgc }.density_in_round(1), 0.001);
        assert_eq!(Dgc { density: 0.5, ..dgc }.density_in_round(1), 0.5);
        let slow = Dgc { warm_up_rounds: WARM_UP_ROUNDS_MAX, ..dgc };
        let falling: Vec<f64> =
            (1..=WARM_UP_ROUNDS_MAX + 1).step_by(100).map(|round| slow.density_in_round(round)).collect();
        assert!(falling.is_sorted_by(|before, after| before > after));
    }

    #[test]
    fn a_round_sends_the_share_that_is_its_own() {
        let delta = normal(4000, 1);
        let parameters = parameters(&[4000]);
        let dgc = Dgc { values: SparseValues::F32, ..Dgc::default() };
        for (round, sent) in [(1, 1000), (2, 252), (5, 4), (100, 4)] {
            let frame = dgc.encode(&delta, &parameters, round);
            let decoded = decoded_frame(&frame, &parameters, dgc).unwrap();
            assert_eq!(decoded.iter().filter(|value| **value != 0.0).count(), sent, "round {round}");
            assert!(8.0 * frame.len() as f64 / 4000.0 <= dgc.properties().bits_per_value_max);
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let dgc = Dgc::default();
        for (wrong, setting) in [
            (Dgc { momentum: 1.0, ..dgc }, "momentum"),
            (Dgc { momentum: f32::NAN, ..dgc }, "momentum"),
            (Dgc { clip: -1.0, ..dgc }, "clip"),
            (Dgc { clip: f32::INFINITY, ..dgc }, "clip"),
            (Dgc { warm_up_rounds: WARM_UP_ROUNDS_MAX + 1, ..dgc }, "warm_up_rounds"),
            (Dgc { density: 0.0, ..dgc }, "density"),
        ] {
            assert_eq!(wrong.check().unwrap_err().0, setting);
        }
        assert_eq!(dgc.check(), Ok(()));
    }
}
