//! Instruction sets.

use pulp::{Arch, Simd, WithSimd};

use super::vectors::{MANY_REGISTERS, PANEL_VECTORS};

/// An instruction set that this CPU has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level(Arch);

impl Level {
    /// The widest that this CPU has.
    pub(crate) fn best() -> Self {
        Self(Arch::new())
    }

    /// Every level that this CPU has and that has tiles of its own, the narrowest first.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut levels = vec![Self(Arch::Scalar)];
        #[cfg(target_arch = "x86_64")]
        levels.extend(pulp::x86::V3::try_new().map(|simd| Self(Arch::V3(simd))));
        if Self::best().lanes() != levels[levels.len() - 1].lanes() {
            levels.push(Self::best());
        }
        levels
    }

    pub(crate) fn run<K: WithSimd>(self, kernel: K) -> K::Output {
        self.0.dispatch(kernel)
    }

    /// Numbers in a vector.
    fn lanes(self) -> usize {
        self.run(Lanes)
    }

    /// Output channels in a panel of weights.
    pub(crate) fn panel(self) -> usize {
        PANEL_VECTORS * self.lanes()
    }

    /// Output channels whose weight gradients are summed at once: one panel, or two where there are enough registers.
    pub(crate) fn gradient_panel(self, outputs: usize) -> usize {
        let two = outputs > self.panel() && self.run(Registers) >= MANY_REGISTERS;
        if two { 2 * self.panel() } else { self.panel() }
    }
}

struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F32_LANES
    }
}

struct Registers;

impl WithSimd for Registers {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::REGISTER_COUNT
    }
}
