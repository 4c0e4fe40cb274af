//! `tributary predict`: what an exported model says of the rows of a table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tributary_client::predict::{Prediction, UsableError, UsableModel};

use crate::client::parse_names;
use crate::error::{CliError, Failure};
use crate::format::percent;
use crate::output::Output;
use crate::table::{SchemaOptions, read_by_schema};

#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// A file that `tributary job export` wrote.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// A table with the columns of the model, in any order; others are ignored. Gzipped if its name ends in .gz,
    /// Parquet if it ends in .parquet.
    #[arg(long, value_name = "FILE")]
    csv: PathBuf,
    /// The name in this table of a column of the model, where it is another one, such as age_years=age; may be
    /// repeated.
    #[arg(long = "map", value_name = "MODEL_COLUMN=TABLE_COLUMN", value_parser = parse_names)]
    map: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
enum PredictFailed {
    #[error("{}: {source}", path.display())]
    Model { path: PathBuf, source: UsableError },
    #[error("{}: row {row}: {source}", path.display())]
    Row { path: PathBuf, row: usize, source: UsableError },
    #[error("{}: the model does not name its columns", .0.display())]
    NoColumns(PathBuf),
}

impl Failure for PredictFailed {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoColumns(_) => {
                Some("a job whose file has [model.inputs] makes models that do (docs/predict.md)".into())
            }
            Self::Model { .. } | Self::Row { .. } => None,
        }
    }
}

pub(crate) fn run(args: &PredictArgs, output: &Output) -> Result<(), CliError> {
    let file = std::fs::read(&args.model).map_err(CliError::file("read", &args.model))?;
    let wrong = |source| PredictFailed::Model { path: args.model.clone(), source };
    let model = UsableModel::from_bytes(&file).map_err(wrong)?;
    let inputs = model.card().model.inputs.clone().filter(|inputs| !inputs.columns.is_empty());
    let inputs = inputs.ok_or_else(|| PredictFailed::NoColumns(args.model.clone()))?;
    let names: BTreeMap<String, String> = args.map.iter().cloned().collect();
    let options = SchemaOptions { names, ..SchemaOptions::default() };
    let table = read_by_schema(&args.csv, &inputs, None, &options)?;
    table.notes.iter().for_each(|note| output.note(note));
    let mut prediction = Prediction::default();
    for (row, values) in (1..).zip(table.values.chunks(inputs.columns.len())) {
        let wrong = |source| PredictFailed::Row { path: args.csv.clone(), row, source };
        model.predict_into(values, &mut prediction).map_err(wrong)?;
        show(&model, row, &prediction, output)?;
    }
    Ok(())
}

fn show(model: &UsableModel, row: usize, prediction: &Prediction, output: &Output) -> Result<(), CliError> {
    let Some(class) = prediction.class else {
        let numbers = &prediction.numbers;
        let told = json!({ "row": row, "numbers": numbers });
        return output.object(&told, || {
            let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            texts.join(" ")
        });
    };
    let named = prediction.probabilities.iter().enumerate();
    let probabilities: BTreeMap<String, f32> = named.map(|(class, share)| (model.class_name(class), *share)).collect();
    let (name, sure) = (model.class_name(class), prediction.probabilities.get(class).copied().unwrap_or_default());
    let told = json!({ "row": row, "class": name, "probabilities": probabilities, "outputs": prediction.outputs });
    output.object(&told, || format!("{name}  {}", percent(sure.into())))
}
