//! What follows from the sums of all tables: the means, deviations and replacements that every client uses.

use tributary_protocol::inputs::{Column, ColumnKind, Described, Description, Inputs, MissingValues, Moments, Target};

/// Inputs with what these sums fix. What the job file gives stays.
///
/// A column whose values nobody told (all are missing or withheld) is fed as it is. A column that never changes has a
/// deviation of 1: its inputs are 0.
#[must_use]
pub fn described(inputs: &Inputs, sums: &Description) -> Inputs {
    let (columns, target) = sums.columns.split_at(inputs.columns.len().min(sums.columns.len()));
    let with = |(column, sums): (&Column, &Described)| match sums {
        Described::Numbers(moments) => with_moments(column, moments),
        Described::Categories(counts) => with_counts(column, counts),
    };
    let target = inputs.target.as_ref().map(|given| match target.first() {
        Some(Described::Numbers(moments)) if given.is_number() => {
            let (mean, deviation) = scale(given.mean, given.deviation, moments);
            Target { mean, deviation, ..given.clone() }
        }
        _ => given.clone(),
    });
    Inputs { columns: inputs.columns.iter().zip(columns).map(with).collect(), target, ..inputs.clone() }
}

fn with_moments(column: &Column, moments: &Moments) -> Column {
    let (mean, deviation) = scale(column.mean, column.deviation, moments);
    Column { mean, deviation, ..column.clone() }
}

fn scale(mean: Option<f64>, deviation: Option<f64>, moments: &Moments) -> (Option<f64>, Option<f64>) {
    let measured = moments.deviation().filter(|deviation| *deviation > 0.0);
    (mean.or(moments.mean()).or(Some(0.0)), deviation.or(measured).or(Some(1.0)))
}

/// The most frequent category replaces missing ones; of equally frequent ones the first.
fn with_counts(column: &Column, counts: &[u64]) -> Column {
    let is_open =
        column.kind == ColumnKind::Category && column.missing == MissingValues::Replace && column.replacement.is_none();
    let most = counts.iter().enumerate().rev().max_by_key(|(_, count)| **count).map_or(0, |(code, _)| code);
    Column { replacement: if is_open { Some(most as f64) } else { column.replacement }, ..column.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> Inputs {
        serde_json::from_value(serde_json::json!({
            "standardize": "federated",
            "columns": [
                { "name": "age" },
                { "name": "ward", "kind": "category", "categories": ["east", "west", "north"], "missing": "replace" },
                { "name": "height", "mean": 170.0 },
            ],
            "target": { "name": "days" },
        }))
        .unwrap()
    }

    /// The sums of two sites: ages 20 and 40, then 30; wards 1 and 1, then 0; heights 160, 180, 170; days 4, 4, 4.
    fn sums(inputs: &Inputs) -> Description {
        let site = |rows: &[[f64; 4]]| {
            let mut sums = Description::empty(inputs);
            sums.examples = rows.len() as u64;
            for row in rows {
                for (column, value) in sums.columns.iter_mut().zip(row) {
                    match column {
                        Described::Numbers(moments) => moments.include(*value).unwrap(),
                        Described::Categories(counts) => counts[*value as usize] += 1,
                    }
                }
            }
            sums
        };
        let mut sums = site(&[[20.0, 1.0, 160.0, 4.0], [40.0, 1.0, 180.0, 4.0]]);
        sums.add(&site(&[[30.0, 0.0, 170.0, 4.0]])).unwrap();
        sums
    }

    #[test]
    fn sums_fix_what_the_job_file_leaves_open() {
        let inputs = inputs();
        assert!(inputs.lacks_statistics());
        let fixed = described(&inputs, &sums(&inputs));
        assert!(!fixed.lacks_statistics());
        let [age, ward, height] = &fixed.columns[..] else { panic!("three columns") };
        assert_eq!((age.mean, age.deviation), (Some(30.0), Some((200.0f64 / 3.0).sqrt())));
        assert_eq!((ward.mean, ward.replacement), (None, Some(1.0)));
        assert_eq!((height.mean, height.deviation), (Some(170.0), Some((200.0f64 / 3.0).sqrt())));
        let target = fixed.target.as_ref().unwrap();
        assert_eq!((target.mean, target.deviation), (Some(4.0), Some(1.0)), "days never change");
        assert_eq!(fixed.schema_hash(), inputs.schema_hash());
    }

    #[test]
    fn classes_have_no_mean_whatever_sums_come() {
        let mut inputs = inputs();
        let sums = sums(&inputs);
        inputs.target.as_mut().unwrap().classes = vec!["short".into(), "long".into()];
        let target = described(&inputs, &sums).target.unwrap();
        assert_eq!((target.mean, target.deviation), (None, None));
    }

    #[test]
    fn a_column_that_nobody_told_is_fed_as_it_is() {
        let inputs = inputs();
        let mut withheld = sums(&inputs);
        withheld.withhold_below(4);
        let fixed = described(&inputs, &withheld);
        assert_eq!((fixed.columns[0].mean, fixed.columns[0].deviation), (Some(0.0), Some(1.0)));
        assert!(!fixed.lacks_statistics());
    }
}
