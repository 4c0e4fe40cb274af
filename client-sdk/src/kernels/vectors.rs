//! Slices as vectors, and what tiles are made of.

use pulp::Simd;

/// Vectors of output channels in a panel of weights.
pub(super) const PANEL_VECTORS: usize = 2;

/// AVX-512 and NEON have this many vector registers; AVX2 has half.
pub(super) const MANY_REGISTERS: usize = 32;

/// The whole vectors of a slice; what is left at its end is not part of them.
#[inline(always)]
pub(super) fn vectors<S: Simd>(values: &[f32]) -> &[S::f32s] {
    S::as_simd_f32s(values).0
}

#[inline(always)]
pub(super) fn vectors_mut<S: Simd>(values: &mut [f32]) -> &mut [S::f32s] {
    S::as_mut_simd_f32s(values).0
}

/// `max(value, 0)`, where a NaN stays a NaN: a divergence must not be hidden.
#[inline(always)]
pub(super) fn relu<S: Simd>(simd: S, value: S::f32s) -> S::f32s {
    let zero = simd.splat_f32s(0.0);
    simd.select_f32s(simd.less_than_f32s(value, zero), zero, value)
}

/// The values, at most a vector of them, with zeros behind. An instruction loads a whole vector, instead of a call.
#[inline(always)]
pub(super) fn load<S: Simd>(simd: S, values: &[f32]) -> S::f32s {
    match vectors::<S>(values) {
        [whole, ..] => *whole,
        [] => simd.partial_load_f32s(values),
    }
}

/// The first numbers of the vector, as many as there is room for.
#[inline(always)]
pub(super) fn store<S: Simd>(simd: S, to: &mut [f32], from: S::f32s) {
    match vectors_mut::<S>(to) {
        [whole, ..] => *whole = from,
        [] => simd.partial_store_f32s(to, from),
    }
}
