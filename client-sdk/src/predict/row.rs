//! A row of an app, by the names of its columns.

use tributary_protocol::inputs::{Column, ColumnKind};

use super::usable::{Prediction, UsableError, UsableModel};
use crate::inputs::days;

/// A value of a row, as an app has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A number, the code of a category, or a date in days since 1970; NaN is missing.
    Number(f64),
    /// A category, an ISO date, or a number as text; an empty one is missing.
    Text(&'a str),
}

impl UsableModel {
    /// The raw values of a row in the order of the model's columns. Columns that the model has not are ignored.
    ///
    /// # Errors
    /// [`UsableError::Row`] names the column that is missing, repeated, or whose value cannot be read.
    pub fn raw(&self, row: &[(&str, Value<'_>)]) -> Result<Vec<f64>, UsableError> {
        let columns = self.card().model.inputs.as_ref().map(|inputs| inputs.columns.as_slice()).unwrap_or_default();
        if columns.is_empty() {
            return Err(UsableError::Row("the model does not name its columns: pass its values in their order".into()));
        }
        columns.iter().map(|column| value_of(column, row)).collect()
    }

    /// What the model says of a row, by the names of its columns.
    ///
    /// # Errors
    /// As [`Self::raw`] and [`Self::predict`].
    pub fn predict_row(&self, row: &[(&str, Value<'_>)]) -> Result<Prediction, UsableError> {
        self.predict(&self.raw(row)?)
    }
}

fn value_of(column: &Column, row: &[(&str, Value<'_>)]) -> Result<f64, UsableError> {
    let name = &column.name;
    let wrong = |why: String| Err(UsableError::Row(format!("{name}{why}")));
    let mut found = row.iter().filter(|(named, _)| named == name);
    let value = match (found.next(), found.next()) {
        (None, _) => return wrong(" is missing in the row".into()),
        (Some(_), Some(_)) => return wrong(" is in the row twice".into()),
        (Some((_, value)), None) => *value,
    };
    let text = match value {
        Value::Number(number) => return Ok(number),
        Value::Text(text) => text,
    };
    // A category may have an empty text.
    let category = column.categories.iter().position(|known| known == text);
    let number = match column.kind {
        ColumnKind::Category => category.map(|code| code as f64),
        ColumnKind::Number => text.parse().ok(),
        ColumnKind::Date => days(text),
    };
    match number {
        Some(number) => Ok(number),
        None if text.is_empty() => Ok(f64::NAN),
        None if column.kind == ColumnKind::Category => {
            wrong(format!(" is {text:?}, which is none of {}", column.categories.join(", ")))
        }
        None => wrong(format!(" is {text:?}, which is no {}", noun(column.kind))),
    }
}

fn noun(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Number => "number",
        ColumnKind::Category => "category",
        ColumnKind::Date => "date such as 2026-11-25",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_protocol::card::ModelCard;
    use tributary_protocol::hash::Sha256Hash;
    use tributary_protocol::job_model::JobModel;
    use tributary_protocol::model::Model;
    use tributary_protocol::plan::Loss;

    use super::Value::{Number, Text};
    use super::*;

    fn model(inputs: &str) -> UsableModel {
        let layers = r#"{"input":[4],"layers":[{"kind":"linear","out_features":2,"bias":false}]"#;
        let model: JobModel = serde_json::from_str(&format!("{layers}{inputs}}}")).unwrap();
        let values = Model::new(Arc::new(model.parameters().unwrap()), vec![1.0; 8]).unwrap();
        let hash = Sha256Hash::of(b"");
        let job = "stays".parse().unwrap();
        let card = ModelCard { job, version: 1, sha256: hash, plan_sha256: hash, loss: Loss::CrossEntropy, model };
        UsableModel::new(card, &values).unwrap()
    }

    const COLUMNS: &str = r#","inputs":{"columns":[{"name":"age"},{"name":"admitted","kind":"date"},
        {"name":"ward","kind":"category","categories":["east","west"]}]}"#;

    #[test]
    fn a_row_is_put_in_the_order_of_the_columns() {
        let model = model(COLUMNS);
        let row = [("ward", Text("west")), ("other", Text("x")), ("admitted", Text("1970-01-03")), ("age", Text("4"))];
        assert_eq!(model.raw(&row).unwrap(), [4.0, 2.0, 1.0]);
        let row = [("ward", Number(1.0)), ("age", Text("")), ("admitted", Number(2.5))];
        let raw = model.raw(&row).unwrap();
        assert!(raw[0].is_nan() && raw[1..] == [2.5, 1.0]);
        let row = [("ward", Text("east")), ("age", Number(3.0)), ("admitted", Number(0.0))];
        assert_eq!(model.predict_row(&row).unwrap(), model.predict(&[3.0, 0.0, 0.0]).unwrap());
    }

    #[test]
    fn a_row_that_does_not_fit_is_refused_by_column() {
        let good = [("age", Number(1.0)), ("admitted", Number(1.0)), ("ward", Number(1.0))];
        let refused = |row: &[(&str, Value<'_>)]| model(COLUMNS).raw(row).unwrap_err().to_string();
        let with = |place: usize, value| {
            let mut row = good;
            row[place].1 = value;
            refused(&row)
        };
        assert_eq!(refused(&good[..2]), "ward is missing in the row");
        assert_eq!(refused(&[good[0], good[0], good[1], good[2]]), "age is in the row twice");
        assert_eq!(with(0, Text("old")), "age is \"old\", which is no number");
        assert_eq!(with(1, Text("today")), "admitted is \"today\", which is no date such as 2026-11-25");
        assert_eq!(with(2, Text("north")), "ward is \"north\", which is none of east, west");
        assert!(model("").raw(&good).unwrap_err().to_string().contains("does not name its columns"));
    }
}
