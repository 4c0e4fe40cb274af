//! Uneven splits from a symmetric Dirichlet distribution: Hsu, Qi and Brown, "Measuring the effects of non-identical
//! data distribution for federated visual classification" (2019).

use tributary_protocol::seed::Stream;

/// Splits the examples of each class in proportions drawn for that class. Every client gets at least one example,
/// provided that there are as many examples as clients.
pub(super) fn split(labels: &[u32], clients: usize, concentration: f64, stream: &mut Stream) -> Vec<Vec<usize>> {
    let mut split = vec![vec![]; clients];
    let mut classes: Vec<u32> = labels.to_vec();
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        let mut members: Vec<usize> = (0..labels.len()).filter(|example| labels[*example] == class).collect();
        stream.shuffle(&mut members);
        let counts = largest_remainders(&shares(concentration, clients, stream), members.len());
        let mut members = members.into_iter();
        for (client, count) in split.iter_mut().zip(counts) {
            client.extend(members.by_ref().take(count));
        }
    }
    fill_the_empty(&mut split);
    split
}

/// A client without examples cannot train: it takes one from the client that has most at that moment.
fn fill_the_empty(split: &mut [Vec<usize>]) {
    while let Some(empty) = split.iter().position(Vec::is_empty) {
        let richest = (0..split.len()).max_by_key(|client| split[*client].len()).expect("the empty client exists");
        let example =
            split[richest].pop().expect("there are at least as many examples as clients, so one client has two");
        split[empty].push(example);
    }
}

/// Whole numbers in given proportions that add up to `total` (Hamilton's method).
fn largest_remainders(shares: &[f64], total: usize) -> Vec<usize> {
    let exact: Vec<f64> = shares.iter().map(|share| share * total as f64).collect();
    let mut counts: Vec<usize> = exact.iter().map(|exact| exact.floor() as usize).collect();
    let mut by_remainder: Vec<usize> = (0..shares.len()).collect();
    by_remainder.sort_by(|a, b| (exact[*b] - exact[*b].floor()).total_cmp(&(exact[*a] - exact[*a].floor())));
    let missing = total.saturating_sub(counts.iter().sum());
    by_remainder.iter().cycle().take(missing).for_each(|index| counts[*index] += 1);
    counts
}

/// Proportions from a symmetric Dirichlet distribution: gamma variates divided by their sum. They are computed from
/// logarithms, because with a small concentration all variates can be too small for a float.
fn shares(concentration: f64, count: usize, stream: &mut Stream) -> Vec<f64> {
    let logarithms: Vec<f64> = (0..count).map(|_| gamma_logarithm(concentration, stream)).collect();
    let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let variates: Vec<f64> = logarithms.iter().map(|logarithm| (logarithm - largest).exp()).collect();
    let sum: f64 = variates.iter().sum();
    variates.iter().map(|variate| variate / sum).collect()
}

/// The logarithm of a gamma variate with this shape and scale 1: Marsaglia and Tsang, "A simple method for generating
/// gamma variables" (2000), section 4, and section 6 for shapes below 1.
fn gamma_logarithm(shape: f64, stream: &mut Stream) -> f64 {
    if shape < 1.0 {
        return gamma_logarithm(shape + 1.0, stream) + open_unit(stream).ln() / shape;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(stream);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && open_unit(stream).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d.ln() + v.ln();
        }
    }
}

/// A standard normal variate (Box and Muller 1958).
fn normal(stream: &mut Stream) -> f64 {
    (-2.0 * open_unit(stream).ln()).sqrt() * (std::f64::consts::TAU * stream.unit()).cos()
}

/// Uniform in `(0, 1]`, so that it has a logarithm.
fn open_unit(stream: &mut Stream) -> f64 {
    1.0 - stream.unit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_protocol::seed::Seed;

    /// Mean and variance of a gamma variate both equal its shape (k, with scale 1).
    #[test]
    fn gamma_variates_have_their_mean_and_variance() {
        for shape in [0.5, 1.0, 4.0] {
            let mut stream = Seed(11).stream();
            let draws: Vec<f64> = (0..100_000).map(|_| gamma_logarithm(shape, &mut stream).exp()).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
            assert!((mean / shape - 1.0).abs() < 0.03 && (variance / shape - 1.0).abs() < 0.05, "{mean} {variance}");
        }
    }

    #[test]
    fn rounding_keeps_the_sum_and_favours_the_largest_remainder() {
        assert_eq!(largest_remainders(&[0.5, 0.3, 0.2], 4), [2, 1, 1]);
        assert_eq!(largest_remainders(&[0.05, 0.05, 0.9], 3), [0, 0, 3]);
        assert_eq!(largest_remainders(&[1.0 / 3.0; 3], 10).iter().sum::<usize>(), 10);
    }
}
