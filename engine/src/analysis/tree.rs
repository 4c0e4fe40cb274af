//! Counts of a range that is divided in two again and again, and the quantiles that follow from them.
//!
//! Each level of the tree counts all rows, with independent noise. The counts that fit best have parents that are the
//! sums of their children (Hay et al. 2010, <https://arxiv.org/abs/0904.0942>, section 4; here without a root, because
//! nobody counts all rows).

/// The counts of the smallest parts that fit a noisy tree best.
#[derive(Debug)]
pub(super) struct Tree {
    /// Rows below the beginning of each part, and of all.
    below: Vec<f64>,
    /// Variances of the subtrees' estimates by level, in those of one count.
    variances: Vec<f64>,
}

impl Tree {
    /// Of the counts of 2, 4, 8, .. parts.
    pub(super) fn of(counts: &[f64], levels: usize) -> Self {
        let mut above: Vec<Vec<f64>> =
            (1..=levels).map(|level| counts[(1 << level) - 2..(2 << level) - 2].to_vec()).collect();
        let mut variances = vec![1.0; levels];
        for level in (0..levels - 1).rev() {
            let of_children = 2.0 * variances[level + 1];
            let weight = of_children / (1.0 + of_children);
            variances[level] = weight;
            let (upper, lower) = above.split_at_mut(level + 1);
            for (count, children) in upper[level].iter_mut().zip(lower[0].chunks(2)) {
                *count = weight * *count + (1.0 - weight) * (children[0] + children[1]);
            }
        }
        let mut parts = above[0].clone();
        for children in &above[1..] {
            parts = parts
                .iter()
                .zip(children.chunks(2))
                .flat_map(|(parent, pair)| {
                    let difference = pair[0] - pair[1];
                    [(parent + difference) / 2.0, (parent - difference) / 2.0]
                })
                .collect();
        }
        let mut below = vec![0.0];
        below.extend(parts.iter().scan(0.0, |sum, part| {
            *sum += part;
            Some(*sum)
        }));
        Self { below, variances }
    }

    /// All rows.
    pub(super) fn total(&self) -> f64 {
        self.below[self.below.len() - 1]
    }

    /// Where this share of the rows is below, as a part of the range, between the ends of an interval. `deviations` is
    /// that of one count's noise, times the number of deviations of the interval.
    pub(super) fn quantile(&self, share: f64, deviations: f64) -> [f64; 3] {
        let wanted = share * self.total();
        let parts = self.below.len() - 1;
        // Noise makes counts fall; the middle between the largest before and the smallest behind does not.
        let mut largest = self.below.clone();
        (1..largest.len()).for_each(|place| largest[place] = largest[place].max(largest[place - 1]));
        let mut smallest = self.below.clone();
        (0..parts).rev().for_each(|place| smallest[place] = smallest[place].min(smallest[place + 1]));
        let excess = |place: usize| (largest[place] + smallest[place]) / 2.0 - wanted;
        let within = |place: usize| deviations * self.variance(place, share).sqrt();
        [-1.0, 0.0, 1.0].map(|side| crossing(parts, &|place| excess(place) - side * within(place)))
    }

    /// The variance of the rows below a part, less this share of all rows, in those of one count.
    fn variance(&self, part: usize, share: f64) -> f64 {
        let levels = self.variances.len();
        // The rows below are `of_parent` times the estimate of the subtree, and something independent of it.
        let (mut of_parent, mut independent) = if part >> levels == 0 { (0.0, 0.0) } else { (1.0, 0.0) };
        let part = part.min((1 << levels) - 1);
        for level in (0..levels).rev() {
            let is_right = (part >> (levels - 1 - level)) & 1 == 1;
            // Children are half their parent, and half of a difference on either side.
            let of_difference: f64 = if is_right { (1.0 - of_parent) / 2.0 } else { of_parent / 2.0 };
            independent += of_difference * of_difference * 2.0 * self.variances[level];
            of_parent = if is_right { (1.0 + of_parent) / 2.0 } else { of_parent / 2.0 };
        }
        let of_total = of_parent - share;
        of_total * of_total * 2.0 * self.variances[0] + independent
    }
}

/// Where a function of places begins to be 0 or more, as a part of all places, by straight lines between them.
fn crossing(parts: usize, of: &dyn Fn(usize) -> f64) -> f64 {
    let place = (0..=parts).find(|place| of(*place) >= 0.0).unwrap_or(parts);
    if place == 0 {
        return 0.0;
    }
    let (before, after) = (of(place - 1), of(place));
    let back = if after > before { (after / (after - before)).clamp(0.0, 1.0) } else { 0.0 };
    (place as f64 - back) / parts as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, wanted: f64) {
        assert!((got - wanted).abs() < 1e-9, "{got} is not {wanted}");
    }

    #[test]
    fn counts_without_noise_stay_and_quantiles_lie_between_them() {
        let tree = Tree::of(&[3.0, 1.0, 1.0, 2.0, 1.0, 0.0], 2);
        assert_eq!(tree.below, [0.0, 1.0, 3.0, 4.0, 4.0]);
        let [low, middle, high] = tree.quantile(0.5, 0.0);
        near(middle, 0.375);
        near(low, middle);
        near(high, middle);
        near(tree.quantile(0.25, 0.0)[1], 0.25);
    }

    /// Ranks of 0, 3, 1, 2 and 4 lie between 0, 1, 1, 2, 4 and 0, 3, 3, 3, 4: in the middle they do not fall.
    #[test]
    fn a_quantile_of_counts_that_noise_makes_fall_is_between_both_ways_to_order_them() {
        let tree = Tree { below: vec![0.0, 3.0, 1.0, 2.0, 4.0], variances: vec![2.0 / 3.0, 1.0] };
        for (share, wanted) in [(0.25, 0.125), (0.5, 0.25), (0.55, 0.6), (0.75, 0.75 + 0.5 / 1.5 / 4.0), (1.0, 1.0)] {
            near(tree.quantile(share, 0.0)[1], wanted);
        }
    }

    /// Goal: the fit is that of least squares. Method: the normal equations of two levels by hand: with y the counts
    /// and h the parts, h_i minimises the sum of (y_l - h_1 - h_2)^2 + (y_1 - h_1)^2 + ..
    #[test]
    fn the_fit_is_that_of_least_squares() {
        let counts = [10.0, 4.0, 6.0, 1.0, 3.0, 3.0];
        let tree = Tree::of(&counts, 2);
        let parts: Vec<f64> = tree.below.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (half, pair) in parts.chunks(2).enumerate() {
            for (place, part) in pair.iter().enumerate() {
                let of_half = counts[half] - pair.iter().sum::<f64>();
                near(of_half + counts[2 + 2 * half + place] - part, 0.0);
            }
        }
    }

    /// The variance of two levels: from the inverse of the normal equations, of the rows below each part.
    #[test]
    fn the_variance_of_a_rank_is_that_of_the_fit() {
        let tree = Tree::of(&[0.0; 6], 2);
        near(tree.variances[0], 2.0 / 3.0);
        // One part: its variance is 2/3 within a half, whose covariance of both parts is -1/3.
        near(tree.variance(1, 0.0), 2.0 / 3.0);
        near(tree.variance(2, 0.0), 2.0 / 3.0);
        near(tree.variance(3, 0.0), 4.0 / 3.0);
        near(tree.variance(4, 0.0), 4.0 / 3.0);
        near(tree.variance(0, 0.5), 1.0 / 3.0);
        near(tree.variance(2, 0.5), 1.0 / 3.0);
    }
}
