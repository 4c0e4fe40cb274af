//! Small dense systems of linear equations.

/// Smallest pivot, against the largest entry of its column, below which a system is called singular.
const SINGULAR: f64 = 1e-12;

/// The combination of these columns that is nearest to the right side, by Householder reflections (Golub and Van Loan,
/// Matrix Computations, 5.3.2); of as many columns as values, the solution. Columns are at least as long as they are
/// many. None if one follows from the others.
pub(super) fn least_squares(mut columns: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let count = columns.len();
    if count == 0 || columns.iter().any(|column| column.len() != right.len()) || right.len() < count {
        return None;
    }
    let mut diagonal = Vec::with_capacity(count);
    for place in 0..count {
        let (done, rest) = columns.split_at_mut(place + 1);
        let column = &mut done[place];
        let scale = column.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        let norm = column[place..].iter().map(|value| value * value).sum::<f64>().sqrt();
        if norm <= SINGULAR * scale.max(f64::MIN_POSITIVE) {
            return None;
        }
        // Away from the first entry, so that nothing cancels.
        let head = if column[place] > 0.0 { -norm } else { norm };
        column[place] -= head;
        diagonal.push(head);
        let mirror = &column[place..];
        let length = mirror.iter().map(|value| value * value).sum::<f64>();
        for vector in rest.iter_mut().chain(std::iter::once(&mut right)) {
            let along: f64 = mirror.iter().zip(&vector[place..]).map(|(one, other)| one * other).sum();
            let factor = 2.0 * along / length;
            vector[place..].iter_mut().zip(mirror).for_each(|(value, one)| *value -= factor * one);
        }
    }
    let mut solution = vec![0.0; count];
    for place in (0..count).rev() {
        let known: f64 = (place + 1..count).map(|later| columns[later][place] * solution[later]).sum();
        solution[place] = (right[place] - known) / diagonal[place];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: &[f64], wanted: &[f64]) {
        assert_eq!(got.len(), wanted.len());
        assert!(got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-12), "{got:?} is not {wanted:?}");
    }

    #[test]
    fn square_systems_and_the_nearest_combination() {
        near(&least_squares(vec![vec![2.0, 0.0], vec![1.0, 4.0]], vec![4.0, 8.0]).unwrap(), &[1.0, 2.0]);
        near(&least_squares(vec![vec![0.0, 3.0], vec![5.0, 0.0]], vec![10.0, 6.0]).unwrap(), &[2.0, 2.0]);
        // The mean is nearest to three values.
        near(&least_squares(vec![vec![1.0; 3]], vec![1.0, 2.0, 6.0]).unwrap(), &[3.0]);
        near(&least_squares(vec![vec![1.0; 3], vec![0.0, 1.0, 2.0]], vec![1.0, 3.0, 5.0]).unwrap(), &[1.0, 2.0]);
    }

    #[test]
    fn a_system_without_one_solution_has_none() {
        assert_eq!(least_squares(vec![vec![1.0, 2.0], vec![2.0, 4.0]], vec![1.0, 1.0]), None);
        assert_eq!(least_squares(vec![vec![0.0, 0.0], vec![2.0, 4.0]], vec![1.0, 1.0]), None);
        assert_eq!(least_squares(vec![vec![1.0], vec![2.0]], vec![1.0]), None, "more unknowns than equations");
        assert_eq!(least_squares(Vec::new(), vec![1.0]), None);
    }
}
