//! The middle of each coordinate: median, trimmed mean (Yin et al. 2018, <https://arxiv.org/abs/1803.01498>), and the
//! second half of Bulyan.

/// How the values of one parameter become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Middle {
    /// The median; of an even number of values the mean of the two in the middle.
    Median,
    /// The mean without the `cut` smallest and the `cut` largest values.
    Trimmed { cut: usize },
    /// The mean of the `keep` values that are nearest to the median.
    Nearest { keep: usize },
}

impl Middle {
    /// Combines a stripe: the values of the same parameters in each update.
    pub fn combine(self, stripe: &[&[f32]]) -> Vec<f64> {
        let parameters = stripe.first().map_or(0, |values| values.len());
        let mut column = vec![0.0; stripe.len()];
        let mut combined = Vec::with_capacity(parameters);
        for parameter in 0..parameters {
            for (value, update) in column.iter_mut().zip(stripe) {
                *value = update[parameter];
            }
            // Sorted first, so that the order of the updates changes no bit of a sum.
            column.sort_unstable_by(f32::total_cmp);
            combined.push(self.of(&column));
        }
        combined
    }

    /// The middle of sorted values, of which there is at least one.
    fn of(self, sorted: &[f32]) -> f64 {
        let n = sorted.len();
        match self {
            Self::Median => median(sorted),
            Self::Trimmed { cut } => mean(&sorted[cut.min((n - 1) / 2)..n - cut.min((n - 1) / 2)]),
            Self::Nearest { keep } => {
                let middle = median(sorted);
                let (mut from, mut to) = (0, n);
                // The nearest values are adjacent: the farther end is dropped until enough are left.
                while to - from > keep.max(1) {
                    let (below, above) = (middle - f64::from(sorted[from]), f64::from(sorted[to - 1]) - middle);
                    if below > above { from += 1 } else { to -= 1 }
                }
                mean(&sorted[from..to])
            }
        }
    }
}

fn median(sorted: &[f32]) -> f64 {
    let n = sorted.len();
    let [below, above] = [sorted[(n - 1) / 2], sorted[n / 2]].map(f64::from);
    if n % 2 == 1 { below } else { (below + above) / 2.0 }
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64
}
