//! Squared distances of all pairs of vectors.

use tributary_protocol::cpu::Cpu;
use tributary_protocol::for_each_cpu;

/// Partial sums of a distance, so that the loop uses vectors of the CPU. Their number fixes the order of addition.
const LANES: usize = 8;

/// `|V_i - V_j|^2` of n vectors, in f64. It takes 8 n^2 bytes; the vectors are added in stripes of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Distances {
    vectors: usize,
    squares: Vec<f64>,
}

impl Distances {
    /// The distances of vectors without parameters.
    pub fn zeros(vectors: usize) -> Self {
        Self { vectors, squares: vec![0.0; vectors * vectors] }
    }

    /// Adds a stripe: the values of the same parameters in each vector. 3 n^2 / 2 operations per parameter.
    ///
    /// # Panics
    /// If there are more or fewer vectors.
    pub fn add(&mut self, stripe: &[&[f32]]) {
        assert_eq!(stripe.len(), self.vectors, "vectors of a stripe");
        let cpu = Cpu::best();
        for (i, one) in stripe.iter().enumerate() {
            for (j, other) in stripe.iter().enumerate().skip(i + 1) {
                let square = square_distance(cpu, one, other);
                self.squares[i * self.vectors + j] += square;
                self.squares[j * self.vectors + i] += square;
            }
        }
    }

    /// Number of vectors.
    pub fn vectors(&self) -> usize {
        self.vectors
    }

    /// `|V_i - V_j|^2`.
    pub fn square(&self, i: usize, j: usize) -> f64 {
        self.squares[i * self.vectors + j]
    }
}

for_each_cpu! {
    fn square_distance(one: &[f32], other: &[f32]) -> f64 {
        let mut lanes = [0.0f64; LANES];
        let (ones, ones_left) = one.as_chunks::<LANES>();
        let (others, others_left) = other.as_chunks::<LANES>();
        for (one, other) in ones.iter().zip(others) {
            for (lane, (one, other)) in lanes.iter_mut().zip(one.iter().zip(other)) {
                let difference = f64::from(*one) - f64::from(*other);
                *lane += difference * difference;
            }
        }
        for (lane, (one, other)) in lanes.iter_mut().zip(ones_left.iter().zip(others_left)) {
            let difference = f64::from(*one) - f64::from(*other);
            *lane += difference * difference;
        }
        lanes.iter().sum()
    }
}
