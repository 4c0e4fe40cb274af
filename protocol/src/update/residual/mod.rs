//! Error feedback: what a device keeps of one update and adds to the next.
//!
//! Seide et al. 2014; Karimireddy, Rebjock, Stich and Jaggi 2019 (arXiv:1901.09847, algorithm 2). With the delta g and
//! the residual e of the round before, the device encodes p = g + e. The new residual is p minus what the server
//! decodes. All deltas so far are therefore the sum of what was sent and the residual.
//!
//! `dgc` (Lin et al. 2018, arXiv:1712.01887) also keeps a momentum u: u <- m u + g and v <- v + u, where v takes the
//! place of p. Where a value was sent, u becomes zero.
//!
//! Everything here is a function of its arguments. The caller stores the new [`Residual`] only when the server has
//! accepted the update, so a device that drops out or whose upload is refused continues with the old one.

mod file;

use std::sync::Arc;

use super::codec::Codec;
use super::codecs::RESIDUAL_AGE_ROUNDS_MAX;
use super::decoder::{UpdateDecoder, UpdateLimits};
use super::encode::{check_finite, encode};
use super::error::EncodeError;
use super::header::UpdateHeader;
use super::sink::DeltaSink;
use crate::hash::Sha256Hash;
use crate::model::ParameterList;
use crate::seed::Seed;
pub use file::{Residual, ResidualError};

/// What the error feedback of an update needs.
#[derive(Clone, Copy, Debug)]
pub struct Feedback<'a> {
    /// What the client's earlier update left out.
    pub residual: Option<&'a Residual>,
    /// The model that the delta is relative to.
    pub model_sha256: Sha256Hash,
}

/// Encodes the sum of the delta and the residual, as [`encode`] would. Returns the file and the new residual.
///
/// A residual that does not fit ([`Residual::fits`]) is
/// ignored. For a codec without error feedback this is [`encode`], and there is no new residual. Store the new residual
/// once the server has accepted the update; until then the old one is valid.
///
/// # Errors
/// [`EncodeError`] for a value that is not finite or beyond the codec's range.
///
/// # Panics
/// If the delta has not one value for each parameter, a mistake of the caller.
pub fn encode_with_residual(
    delta: &[f32],
    parameters: &Arc<ParameterList>,
    header: &UpdateHeader,
    round: u32,
    seed: Seed,
    Feedback { residual, model_sha256 }: Feedback<'_>,
) -> Result<(Vec<u8>, Option<Residual>), EncodeError> {
    if !header.codec.properties().error_feedback {
        return Ok((encode(delta, parameters, header, round, seed)?, None));
    }
    check_finite(delta)?;
    let residual = residual.filter(|residual| residual.fits(&header.codec, round, delta.len()));
    let mut accumulated = delta.to_vec();
    let momentum = compensate(&header.codec, &mut accumulated, residual);
    let file = encode(&accumulated, parameters, header, round, seed)?;
    let (values, momentum) = remaining(accumulated, momentum, &file, parameters, header);
    Ok((file, Some(Residual { values, momentum, round, model_sha256 })))
}

impl Residual {
    /// Whether the residual can be added to an update of this round with `values` values.
    ///
    /// It cannot if its length differs, if it is older than the codec's settings allow, or if it is from a later round,
    /// as after the restore of an older database.
    pub fn fits(&self, codec: &Codec, round: u32, values: usize) -> bool {
        let lengths_fit = self.values.len() == values && self.momentum.as_ref().is_none_or(|u| u.len() == values);
        let young = round.checked_sub(self.round).is_some_and(|age| age <= residual_age_rounds_max(codec));
        lengths_fit && young
    }
}

fn residual_age_rounds_max(codec: &Codec) -> u32 {
    match codec {
        Codec::TopK(top_k) => top_k.residual_age_rounds_max,
        Codec::Dgc(dgc) => dgc.residual_age_rounds_max,
        _ => RESIDUAL_AGE_ROUNDS_MAX,
    }
}

/// Turns the delta into the vector to encode, and returns the new momentum where the codec has one.
fn compensate(codec: &Codec, delta: &mut [f32], residual: Option<&Residual>) -> Option<Vec<f32>> {
    let Codec::Dgc(dgc) = codec else {
        if let Some(residual) = residual {
            add(delta, &residual.values);
        }
        return None;
    };
    clip(delta, dgc.clip);
    if let Some(before) = residual.and_then(|residual| residual.momentum.as_deref()) {
        for (value, before) in delta.iter_mut().zip(before) {
            // u <- m u + g as a product and a sum: a fused instruction would round differently on some CPUs.
            *value += dgc.momentum * before;
        }
    }
    let momentum = delta.to_vec();
    if let Some(residual) = residual {
        add(delta, &residual.values);
    }
    Some(momentum)
}

fn add(values: &mut [f32], others: &[f32]) {
    for (value, other) in values.iter_mut().zip(others) {
        *value += other;
    }
}

/// Scales a delta down to the L2 norm `norm_max` if its norm is larger; 0 allows any norm.
fn clip(delta: &mut [f32], norm_max: f32) {
    if norm_max == 0.0 {
        return;
    }
    // Eight sums, each in the order of the vector: this vectorises, and the result is the same on every CPU.
    const LANES: usize = 8;
    let mut squares = [0.0f64; LANES];
    for values in delta.chunks(LANES) {
        for (sum, value) in squares.iter_mut().zip(values) {
            *sum += f64::from(*value) * f64::from(*value);
        }
    }
    let norm = squares.iter().sum::<f64>().sqrt();
    if norm > f64::from(norm_max) {
        let factor = f64::from(norm_max) / norm;
        delta.iter_mut().for_each(|value| *value = (f64::from(*value) * factor) as f32);
    }
}

/// The residual and momentum that remain once the server has decoded the file. The file is decoded here too, so that
/// the residual accounts for the codec's rounding.
fn remaining(
    accumulated: Vec<f32>,
    momentum: Option<Vec<f32>>,
    file: &[u8],
    parameters: &Arc<ParameterList>,
    header: &UpdateHeader,
) -> (Vec<f32>, Option<Vec<f32>>) {
    let masked = matches!(header.codec, Codec::Dgc(dgc) if dgc.momentum_masking);
    let mut remaining = Remaining { values: accumulated, momentum, masked };
    let limits = UpdateLimits::of_magnitude(f32::MAX);
    let mut decoder = UpdateDecoder::new(Arc::clone(parameters), header.clone(), limits);
    decoder.push(file, &mut remaining).expect("what was encoded can be decoded");
    decoder.finish().expect("what was encoded is whole");
    (remaining.values, remaining.momentum)
}

/// Subtracts what is sent. A value that is sent unchanged leaves zero; one that is sent rounded leaves an exact
/// difference, since two f32 within a factor of two of each other subtract without rounding (Sterbenz 1974).
struct Remaining {
    values: Vec<f32>,
    momentum: Option<Vec<f32>>,
    /// Momentum factor masking: whether the momentum of a value that is sent becomes zero.
    masked: bool,
}

impl Remaining {
    fn sent(&mut self, index: usize, value: f32) {
        self.values[index] -= value;
        if self.masked
            && value != 0.0
            && let Some(momentum) = &mut self.momentum
        {
            momentum[index] = 0.0;
        }
    }
}

impl DeltaSink for Remaining {
    fn dense(&mut self, first: usize, values: &[f32]) {
        values.iter().enumerate().for_each(|(index, value)| self.sent(first + index, *value));
    }

    fn sparse(&mut self, first: usize, indices: &[u32], values: &[f32]) {
        indices.iter().zip(values).for_each(|(index, value)| self.sent(first + *index as usize, *value));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ParameterSpec;
    use crate::update::{Dgc, SparseValues, TopK};

    const MODEL: Sha256Hash = Sha256Hash([7; 32]);

    fn feedback(residual: Option<&Residual>) -> Feedback<'_> {
        Feedback { residual, model_sha256: MODEL }
    }

    fn parameters(values: usize) -> Arc<ParameterList> {
        let half = values / 2;
        let specs = vec![ParameterSpec::new("a", [half]), ParameterSpec::new("b", [values - half])];
        Arc::new(ParameterList::new(specs).unwrap())
    }

    fn header(codec: Codec) -> UpdateHeader {
        UpdateHeader { codec, job: "job_1".into(), base_version: 1 }
    }

    /// Encodes a delta. Returns what the server decodes, and the new residual.
    fn sent(codec: Codec, delta: &[f32], round: u32, residual: Option<&Residual>) -> (Vec<f32>, Option<Residual>) {
        let (parameters, header) = (parameters(delta.len()), header(codec));
        let (file, residual) =
            encode_with_residual(delta, &parameters, &header, round, Seed(u64::from(round)), feedback(residual))
                .unwrap();
        let mut decoder = UpdateDecoder::new(parameters, header, UpdateLimits::of_magnitude(f32::MAX));
        let mut decoded = vec![0.0; delta.len()];
        decoder.push(&file, &mut decoded).unwrap();
        decoder.finish().unwrap();
        (decoded, residual)
    }

    fn top_k(values: SparseValues) -> Codec {
        Codec::TopK(TopK { density: 0.2, values, ..TopK::default() })
    }

    fn dgc() -> Dgc {
        Dgc { density: 0.2, values: SparseValues::F32, warm_up_rounds: 0, ..Dgc::default() }
    }

    /// Deltas of several rounds.
    fn deltas() -> impl Strategy<Value = Vec<Vec<f32>>> {
        (4usize..40).prop_flat_map(|values| {
            prop::collection::vec(prop::collection::vec(prop_oneof![Just(0.0f32), -2.0f32..2.0], values), 1..6)
        })
    }

    proptest! {
        #[test]
        fn sent_and_residual_sum_to_what_was_accumulated(
            deltas in deltas(),
            values in prop::sample::select(vec![SparseValues::F32, SparseValues::F16, SparseValues::Int8]),
        ) {
            let mut residual: Option<Residual> = None;
            for (round, delta) in (1..).zip(&deltas) {
                let kept = residual.map_or(vec![0.0; delta.len()], |residual| residual.values);
                let before = Residual { values: kept.clone(), momentum: None, round: round - 1, model_sha256: MODEL };
                let (decoded, after) = sent(top_k(values), delta, round, Some(&before));
                let after = after.unwrap();
                for index in 0..delta.len() {
                    let accumulated = delta[index] + kept[index];
                    // To the bit: a copy leaves zero, and between nearby numbers the difference is exact.
                    prop_assert_eq!(decoded[index] + after.values[index], accumulated);
                    prop_assert_eq!(accumulated - decoded[index], after.values[index]);
                    if values == SparseValues::F32 && decoded[index] != 0.0 {
                        prop_assert_eq!(decoded[index].to_bits(), accumulated.to_bits());
                    }
                }
                residual = Some(after);
            }
        }

        #[test]
        fn dgc_is_momentum_sgd_at_density_1(deltas in deltas()) {
            let codec = Codec::Dgc(Dgc { density: 1.0, momentum_masking: false, ..dgc() });
            let mut velocity = vec![0.0f32; deltas[0].len()];
            let mut residual = None;
            for (round, delta) in (1..).zip(&deltas) {
                velocity.iter_mut().zip(delta).for_each(|(u, g)| *u = g + 0.9 * *u);
                let (decoded, after) = sent(codec, delta, round, residual.as_ref());
                prop_assert_eq!(&decoded, &velocity);
                prop_assert!(after.as_ref().unwrap().values.iter().all(|value| *value == 0.0));
                residual = after;
            }
        }

        #[test]
        fn momentum_and_residual_are_zero_where_dgc_sent(deltas in deltas()) {
            let (mut u, mut v) = (vec![0.0f32; deltas[0].len()], vec![0.0f32; deltas[0].len()]);
            let mut residual = None;
            for (round, delta) in (1..).zip(&deltas) {
                for index in 0..delta.len() {
                    u[index] = delta[index] + 0.9 * u[index];
                    v[index] += u[index];
                }
                let (decoded, after) = sent(Codec::Dgc(dgc()), delta, round, residual.as_ref());
                for index in 0..delta.len() {
                    if decoded[index] != 0.0 {
                        prop_assert_eq!(decoded[index], v[index]);
                        (u[index], v[index]) = (0.0, 0.0);
                    }
                }
                let after = after.unwrap();
                prop_assert_eq!(&after.values, &v);
                prop_assert_eq!(after.momentum.as_ref(), Some(&u));
                residual = Some(after);
            }
        }
    }

    fn residual() -> Residual {
        let (values, momentum) = (vec![1.0, -2.0, 1e-40], Some(vec![0.5, 0.0, -0.0]));
        Residual { values, momentum, round: 12, model_sha256: MODEL }
    }

    #[test]
    fn what_is_not_sent_is_sent_the_next_time() {
        let codec = Codec::TopK(TopK { density: 0.25, values: SparseValues::F32, ..TopK::default() });
        let (first, residual) = sent(codec, &[3.0, 2.0, -1.0, 0.0], 1, None);
        assert_eq!(first, [3.0, 0.0, 0.0, 0.0]);
        assert_eq!(residual.as_ref().unwrap().values, [0.0, 2.0, -1.0, 0.0]);
        let (second, residual) = sent(codec, &[0.5, 0.5, -2.0, 0.0], 2, residual.as_ref());
        assert_eq!(second, [0.0, 0.0, -3.0, 0.0]);
        let residual = residual.unwrap();
        assert_eq!((residual.values, residual.momentum, residual.round), (vec![0.5, 2.5, 0.0, 0.0], None, 2));
    }

    #[test]
    fn a_device_that_drops_out_keeps_what_it_had() {
        let codec = Codec::Dgc(dgc());
        let (_, kept) = sent(codec, &[3.0, 2.0, -1.0, 0.5], 1, None);
        // The update of round 2 is lost; round 3 continues with the residual of round 1.
        let before = kept.clone();
        let _ = sent(codec, &[9.0, 9.0, 9.0, 9.0], 2, kept.as_ref());
        assert_eq!(kept, before);
        let (third, residual) = sent(codec, &[0.0; 4], 3, kept.as_ref());
        assert_eq!(third, [0.0, 2.0 + 0.9 * 2.0, 0.0, 0.0]);
        assert_eq!(residual.unwrap().values[0], 0.0);
    }

    #[test]
    fn a_residual_that_is_too_old_or_of_another_model_is_ignored() {
        let codec = Codec::TopK(TopK { residual_age_rounds_max: 10, ..TopK::default() });
        let residual = residual();
        for (round, values, fits) in [
            (12, 3, true),
            (13, 3, true),
            (22, 3, true),
            (23, 3, false),
            (11, 3, false),
            (13, 4, false),
            (13, 2, false),
        ] {
            assert_eq!(residual.fits(&codec, round, values), fits, "round {round}, {values} values");
        }
        assert!(residual.fits(&Codec::Sign, 112, 3) && !residual.fits(&Codec::Sign, 113, 3));
        let delta = [0.25, 0.5, 1.0];
        assert_eq!(sent(codec, &delta, 23, Some(&residual)), sent(codec, &delta, 23, None));
        assert_ne!(sent(codec, &delta, 22, Some(&residual)), sent(codec, &delta, 22, None));
    }

    #[test]
    fn a_codec_without_error_feedback_leaves_no_residual() {
        let (decoded, after) = sent(Codec::F32, &[1.0, 2.0, 3.0], 13, Some(&residual()));
        assert_eq!((decoded, after), (vec![1.0, 2.0, 3.0], None));
    }

    #[test]
    fn a_long_delta_is_clipped_before_it_is_accumulated() {
        let codec = Codec::Dgc(Dgc { clip: 1.0, density: 1.0, ..dgc() });
        assert_eq!(sent(codec, &[3.0, 0.0, 4.0], 1, None).0, [0.6, 0.0, 0.8]);
        assert_eq!(sent(codec, &[0.3, 0.0, 0.4], 1, None).0, [0.3, 0.0, 0.4]);
        assert_eq!(sent(codec, &[f32::MAX, 0.0, 0.0], 1, None).0, [1.0, 0.0, 0.0]);
    }

    #[test]
    fn what_no_update_can_hold_is_refused() {
        let parameters = parameters(3);
        let header = header(top_k(SparseValues::F16));
        let encode =
            |delta: &[f32], residual| encode_with_residual(delta, &parameters, &header, 1, Seed(1), feedback(residual));
        assert_eq!(encode(&[1.0, f32::NAN, 0.0], None), Err(EncodeError::NotFinite { index: 1 }));
        let values = vec![0.0, 0.0, f32::MAX];
        let residual = Residual { values, momentum: None, round: 1, model_sha256: MODEL };
        assert_eq!(encode(&[1.0, 1.0, f32::MAX], Some(&residual)), Err(EncodeError::NotFinite { index: 2 }));
    }
}
