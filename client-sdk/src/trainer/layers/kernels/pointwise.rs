//! Loops over values one by one, which the compiler turns into vectors.

use pulp::{Simd, WithSimd};

/// `to += from`.
pub(in super::super) struct Add<'a> {
    pub(in super::super) to: &'a mut [f32],
    pub(in super::super) from: &'a [f32],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.to.iter_mut().zip(self.from).for_each(|(to, from)| *to += from);
    }
}

/// `to *= by`.
pub(in super::super) struct Scale<'a> {
    pub(in super::super) to: &'a mut [f32],
    pub(in super::super) by: &'a [f32],
}

impl WithSimd for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.to.iter_mut().zip(self.by).for_each(|(to, by)| *to *= by);
    }
}

/// `sums += row` for each row, in order.
pub(in super::super) struct AddRows<'a> {
    pub(in super::super) sums: &'a mut [f32],
    pub(in super::super) rows: &'a [f32],
}

impl WithSimd for AddRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for row in self.rows.chunks_exact(self.sums.len()) {
            self.sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
    }
}

/// The gradient of ReLU: `dy` becomes 0 where `y` is not above 0.
pub(in super::super) struct ReluMask<'a> {
    pub(in super::super) y: &'a [f32],
    pub(in super::super) dy: &'a mut [f32],
}

impl WithSimd for ReluMask<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (dy, y) in self.dy.iter_mut().zip(self.y) {
            *dy = if *y > 0.0 { *dy } else { 0.0 };
        }
    }
}
