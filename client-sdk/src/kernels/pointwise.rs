//! Loops over values one by one, which the compiler turns into vectors.

use pulp::{Simd, WithSimd};

/// `to += from`.
pub(crate) struct Add<'a> {
    pub(crate) to: &'a mut [f32],
    pub(crate) from: &'a [f32],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.to.iter_mut().zip(self.from).for_each(|(to, from)| *to += from);
    }
}

/// `to *= by`.
pub(crate) struct Scale<'a> {
    pub(crate) to: &'a mut [f32],
    pub(crate) by: &'a [f32],
}

impl WithSimd for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.to.iter_mut().zip(self.by).for_each(|(to, by)| *to *= by);
    }
}

/// `sums += row` for each row, in order.
pub(crate) struct AddRows<'a> {
    pub(crate) sums: &'a mut [f32],
    pub(crate) rows: &'a [f32],
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
pub(crate) struct ReluMask<'a> {
    pub(crate) y: &'a [f32],
    pub(crate) dy: &'a mut [f32],
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
