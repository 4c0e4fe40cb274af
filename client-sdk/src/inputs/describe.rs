//! The sums of a client's table, which fix what all clients feed their networks.

use tributary_protocol::inputs::{Described, Description, Inputs, OutOfRange};

use super::prepare::raw_batch;
use crate::examples::{Examples, ExamplesError, RawBatch, RawTargets};

/// Rows that a client tells together, unless its settings say otherwise: a smaller count could speak of one person.
pub const DESCRIBE_FLOOR: u64 = 5;
/// Rows that are read at a time.
const ROWS: usize = 4096;

/// The sums of all rows. Missing values are not counted.
///
/// # Errors
/// [`ExamplesError`] if rows cannot be read, or do not have the columns of the job.
pub fn describe(examples: &dyn Examples, inputs: &Inputs) -> Result<Description, ExamplesError> {
    let mut sums = Description::empty(inputs);
    let columns = inputs.columns.len();
    let all: Vec<usize> = (0..examples.len()).collect();
    for indices in all.chunks(ROWS) {
        let RawBatch { inputs: raw, targets } = raw_batch(examples, indices)?;
        if raw.len() != indices.len() * columns {
            let why = format!("{} values, where the job has {columns} columns", raw.len() / indices.len());
            return Err(ExamplesError::Unfit { index: indices[0], why });
        }
        let (of_columns, of_target) = sums.columns.split_at_mut(columns);
        for (row, index) in raw.chunks(columns).zip(indices) {
            for ((sum, column), value) in of_columns.iter_mut().zip(&inputs.columns).zip(row) {
                include(sum, *value)
                    .map_err(|why| ExamplesError::Unfit { index: *index, why: format!("{}: {why}", column.name) })?;
            }
        }
        if let (Some(sum), RawTargets::Values { values, width: 1 }) = (of_target.first_mut(), &targets) {
            for (value, index) in values.iter().zip(indices) {
                include(sum, *value)
                    .map_err(|why| ExamplesError::Unfit { index: *index, why: format!("the target: {why}") })?;
            }
        }
        sums.examples += indices.len() as u64;
    }
    Ok(sums)
}

fn include(sum: &mut Described, value: f64) -> Result<(), String> {
    match sum {
        _ if value.is_nan() => Ok(()),
        Described::Numbers(moments) => moments.include(value).map_err(|error: OutOfRange| error.to_string()),
        Described::Categories(counts) => {
            let last = counts.len().saturating_sub(1);
            let whole = value.fract() == 0.0 && (0.0..=last as f64).contains(&value);
            match counts.get_mut(value as usize).filter(|_| whole) {
                Some(count) => *count += 1,
                None => return Err(format!("{value} is no code of a category: those are 0 to {last}")),
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::MemoryExamples;

    fn inputs() -> Inputs {
        serde_json::from_value(serde_json::json!({
            "standardize": "federated",
            "columns": [{ "name": "age" }, { "name": "ward", "kind": "category", "categories": ["east", "west"] }],
            "target": { "name": "days" },
        }))
        .unwrap()
    }

    #[test]
    fn missing_values_are_not_counted() {
        let targets = RawTargets::Values { values: vec![1.0, 2.0, 6.0], width: 1 };
        let rows = vec![20.0, 1.0, f64::NAN, 0.0, 40.0, f64::NAN];
        let sums = describe(&MemoryExamples::from_rows(2, rows, targets).unwrap(), &inputs()).unwrap();
        let [Described::Numbers(age), Described::Categories(wards), Described::Numbers(days)] = &sums.columns[..]
        else {
            panic!("two columns and the target")
        };
        assert_eq!((age.count, age.mean(), days.mean()), (2, Some(30.0), Some(3.0)));
        assert_eq!((sums.examples, &wards[..]), (3, &[1, 1][..]));
        assert_eq!(sums.check(&inputs()), Ok(()));
    }

    #[test]
    fn rows_that_cannot_be_summed_are_named() {
        for (rows, said) in [
            (vec![1e15, 0.0], "example 0: age: 1000000000000000 cannot be summed"),
            (vec![1.0, 2.0], "example 0: ward: 2 is no code of a category: those are 0 to 1"),
        ] {
            let targets = RawTargets::Values { values: vec![0.0], width: 1 };
            let error = describe(&MemoryExamples::from_rows(2, rows, targets).unwrap(), &inputs()).unwrap_err();
            assert!(error.to_string().starts_with(said), "{error}");
        }
        let targets = RawTargets::Classes(vec![0]);
        assert!(describe(&MemoryExamples::from_rows(3, vec![1.0; 3], targets).unwrap(), &inputs()).is_err());
    }
}
