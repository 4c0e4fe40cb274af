//! Inner products of vectors, and the two loops of L-BFGS on them.

/// The inner products of all pairs of vectors, added up parameter by parameter in order.
#[derive(Clone, Debug)]
pub(super) struct Products {
    pub(super) vectors: usize,
    /// Those of a vector with the vectors up to itself, vector after vector.
    sums: Vec<f64>,
}

impl Products {
    pub(super) fn zeros(vectors: usize) -> Self {
        Self { vectors, sums: vec![0.0; vectors * (vectors + 1) / 2] }
    }

    /// The sums so far.
    pub(super) fn bits(&self) -> Vec<u64> {
        self.sums.iter().map(|sum| sum.to_bits()).collect()
    }

    /// Goes on from such sums. Returns false for those of another number of vectors.
    pub(super) fn go_on(&mut self, bits: &[u64]) -> bool {
        let is_such = bits.len() == self.sums.len();
        if is_such {
            self.sums = bits.iter().map(|bits| f64::from_bits(*bits)).collect();
        }
        is_such
    }

    /// Adds the products of the vectors' values at one parameter.
    pub(super) fn add(&mut self, values: &[f64]) {
        let mut sums = self.sums.iter_mut();
        for (index, value) in values.iter().enumerate() {
            for (other, sum) in values[..=index].iter().zip(&mut sums) {
                *sum += value * other;
            }
        }
    }

    pub(super) fn of(&self, one: usize, other: usize) -> f64 {
        let (large, small) = (one.max(other), one.min(other));
        self.sums[large * (large + 1) / 2 + small]
    }

    /// The cosine of two vectors; 0 if one of them is zero.
    pub(super) fn cosine(&self, one: usize, other: usize) -> f64 {
        let norms = (self.of(one, one) * self.of(other, other)).sqrt();
        if norms > 0.0 { self.of(one, other) / norms } else { 0.0 }
    }

    /// The inner product of vector `one` with a combination of the vectors.
    fn with(&self, one: usize, combination: &[f64]) -> f64 {
        combination.iter().enumerate().map(|(other, share)| share * self.of(one, other)).sum()
    }

    /// The direction `-H g` by the two loops (Nocedal 1980) over these pairs, the newest first, as coefficients of the
    /// vectors; and its inner product with g, which is vector 0.
    pub(super) fn direction(&self, pairs: &[(usize, usize)]) -> (Vec<f64>, f64) {
        let mut q = vec![0.0; self.vectors];
        q[0] = 1.0;
        let mut taken = Vec::with_capacity(pairs.len());
        for &(s, y) in pairs {
            let share = self.with(s, &q) / self.of(s, y);
            q[y] -= share;
            taken.push(share);
        }
        if let Some(&(s, y)) = pairs.first() {
            let scale = self.of(s, y) / self.of(y, y);
            q.iter_mut().for_each(|share| *share *= scale);
        }
        for (&(s, y), share) in pairs.iter().zip(taken).rev() {
            q[s] += share - self.with(y, &q) / self.of(s, y);
        }
        q.iter_mut().for_each(|share| *share = -*share);
        let slope = self.with(0, &q);
        (q, slope)
    }
}
