//! Fields and columns of numbers.

use std::str::FromStr;

use serde::Deserialize;

use super::error::TableError;

/// What stands for a missing value in files of other programs.
const MISSING: [&str; 8] = ["", "na", "n/a", "nan", "null", "none", "?", "#n/a"];

/// What becomes of missing values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Missing {
    /// A missing input is the mean of its column in this table.
    Mean,
    /// Lines with a missing value are left out.
    Drop,
}

impl FromStr for Missing {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "mean" => Ok(Self::Mean),
            "drop" => Ok(Self::Drop),
            _ => Err("it is mean or drop"),
        }
    }
}

pub(super) fn is_missing(text: &str) -> bool {
    MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing))
}

pub(super) fn number(text: &str) -> Option<f32> {
    text.parse::<f32>().ok().filter(|value| value.is_finite())
}

/// A class, which some programs write as `3.0`.
pub(super) fn class(text: &str) -> Option<u32> {
    let whole = text.split_once('.').filter(|(_, rest)| rest.bytes().all(|digit| digit == b'0'));
    whole.map_or(text, |(whole, _)| whole).parse().ok()
}

/// Replaces each NaN by the mean of its column; `names` are those of the columns.
pub(super) fn fill_with_means(inputs: &mut [f32], names: &[String]) -> Result<(), TableError> {
    let columns = names.len();
    for (column, name) in names.iter().enumerate() {
        let present = || inputs.iter().skip(column).step_by(columns).filter(|value| !value.is_nan());
        let count = present().count();
        if count == inputs.len() / columns {
            continue;
        }
        if count == 0 {
            return Err(TableError::AllMissing(name.clone()));
        }
        let mean = (present().map(|value| f64::from(*value)).sum::<f64>() / count as f64) as f32;
        let values = inputs.iter_mut().skip(column).step_by(columns);
        values.filter(|value| value.is_nan()).for_each(|value| *value = mean);
    }
    Ok(())
}

/// Shifts and scales each column to a mean of 0 and a variance of 1. A column of equal values becomes 0.
pub(super) fn standardize(inputs: &mut [f32], columns: usize) {
    let count = (inputs.len() / columns) as f64;
    for column in 0..columns {
        let values = || inputs.iter().skip(column).step_by(columns).map(|value| f64::from(*value));
        let mean = values().sum::<f64>() / count;
        let deviation = (values().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        let scale = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
        for value in inputs.iter_mut().skip(column).step_by(columns) {
            *value = ((f64::from(*value) - mean) * scale) as f32;
        }
    }
}
