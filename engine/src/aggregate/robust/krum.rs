//! Krum and multi-Krum (Blanchard et al. 2017, <https://arxiv.org/abs/1703.02757>) and the selection of Bulyan (El
//! Mhamdi et al. 2018, <https://arxiv.org/abs/1802.07927>).

use super::distances::Distances;

/// The score of each vector: the sum of its `n - f - 2` smallest squared distances to others.
pub(in crate::aggregate) fn scores(distances: &Distances, byzantine: u32) -> Vec<f64> {
    let all: Vec<usize> = (0..distances.vectors()).collect();
    all.iter().map(|i| score(distances, &all, *i, byzantine as usize)).collect()
}

/// The score among some of the vectors. At least one neighbour counts, as far as there is one: Bulyan repeats Krum
/// until fewer than f + 3 vectors are left.
fn score(distances: &Distances, among: &[usize], i: usize, byzantine: usize) -> f64 {
    let mut squares: Vec<f64> = among.iter().filter(|j| **j != i).map(|j| distances.square(i, *j)).collect();
    squares.sort_unstable_by(f64::total_cmp);
    squares.truncate(among.len().saturating_sub(byzantine + 2).max(1));
    squares.iter().sum()
}

/// The vectors with the `count` smallest scores; of equal ones the first.
pub(in crate::aggregate) fn best(distances: &Distances, byzantine: u32, count: usize) -> Vec<usize> {
    let scores = scores(distances, byzantine);
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|i, j| scores[*i].total_cmp(&scores[*j]));
    order.truncate(count);
    order
}

/// Bulyan's selection: Krum, repeated `n - 2f` times without replacement.
pub(in crate::aggregate) fn repeated(distances: &Distances, byzantine: u32) -> Vec<usize> {
    let mut left: Vec<usize> = (0..distances.vectors()).collect();
    let count = left.len().saturating_sub(2 * byzantine as usize).max(1);
    let mut selected = Vec::with_capacity(count);
    while selected.len() < count {
        let scores = left.iter().map(|i| score(distances, &left, *i, byzantine as usize));
        let best = scores.enumerate().min_by(|(_, one), (_, other)| one.total_cmp(other));
        let Some((place, _)) = best else { break };
        selected.push(left.remove(place));
    }
    selected.sort_unstable();
    selected
}
