//! The least value of a function of four numbers (Nelder and Mead 1965).

/// Most steps of a search.
const STEPS_MAX: usize = 600;
/// The search ends when the values at its corners differ by less, relatively.
const NARROW: f64 = 1e-10;

type Point = [f64; 4];

/// A point at which the function is least, near enough. The search depends on nothing but the function and the start.
pub(super) fn least(function: impl Fn(Point) -> f64, start: Point) -> Point {
    let mut found = search(&function, start, 0.4);
    // A search may end in a corner that it folded itself into: it begins anew at what it found.
    for _ in 0..2 {
        found = search(&function, found, 0.1);
    }
    found
}

fn search(function: &impl Fn(Point) -> f64, start: Point, edge: f64) -> Point {
    let moved = |at: usize| {
        let mut point = start;
        if at > 0 {
            point[at - 1] += edge;
        }
        (function(point), point)
    };
    let mut corners: [(f64, Point); 5] = std::array::from_fn(moved);
    for _ in 0..STEPS_MAX {
        corners.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (best, worst) = (corners[0], corners[4]);
        if (worst.0 - best.0).abs() <= NARROW * best.0.abs() {
            break;
        }
        let middle: Point =
            std::array::from_fn(|axis| corners[..4].iter().map(|corner| corner.1[axis]).sum::<f64>() / 4.0);
        let along = |factor: f64| {
            let point = std::array::from_fn(|axis| middle[axis] + factor * (middle[axis] - worst.1[axis]));
            (function(point), point)
        };
        let reflected = along(1.0);
        corners[4] = if reflected.0 < best.0 {
            let expanded = along(2.0);
            if expanded.0 < reflected.0 { expanded } else { reflected }
        } else if reflected.0 < corners[3].0 {
            reflected
        } else {
            let contracted = if reflected.0 < worst.0 { along(0.5) } else { along(-0.5) };
            if contracted.0 < worst.0.min(reflected.0) { contracted } else { worst }
        };
        if corners[4].1 == worst.1 {
            for corner in &mut corners[1..] {
                let point = std::array::from_fn(|axis| (best.1[axis] + corner.1[axis]) / 2.0);
                *corner = (function(point), point);
            }
        }
    }
    corners.sort_by(|one, other| one.0.total_cmp(&other.0));
    corners[0].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bent_valley_is_followed_to_its_end() {
        let valley = |[a, b, c, d]: Point| {
            100.0 * (b - a * a).powi(2) + (1.0 - a).powi(2) + (c - 2.0).powi(2) + (d + 1.0).powi(2) + 1.0
        };
        let found = least(valley, [-1.0, 1.0, 0.0, 0.0]);
        assert!(found.iter().zip([1.0, 1.0, 2.0, -1.0]).all(|(got, wanted)| (got - wanted).abs() < 1e-3), "{found:?}");
    }
}
