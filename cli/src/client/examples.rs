//! The examples of a client, from a table, from IDX files or from a built-in data set.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use tributary_client::examples::{IdxError, IdxShape, MemoryExamples, read_idx_examples};

use crate::data::digits::embedded_digits as all_digits;
use crate::data::labels as labels_of;
use crate::error::{CliError, Failure};
use crate::table::{self, LabelMap, Missing, Table, TableOptions};

#[derive(Clone, Debug, Default, Args, Deserialize)]
#[command(next_help_heading = "Examples (in the file: the table `examples`)")]
#[serde(deny_unknown_fields, default)]
pub(super) struct ExampleArgs {
    /// A table: each line is an example, one column its target. Gzipped if the file's name ends in .gz.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["idx_images", "dataset"])]
    csv: Option<PathBuf>,
    /// The table's first line is an example [default: the first line is a header if there is no number in it].
    #[arg(long, requires = "table")]
    no_header: bool,
    /// The table's first line holds the names of the columns.
    #[arg(long, requires = "table", conflicts_with = "no_header")]
    header: bool,
    /// What separates two fields of the table: a character, or tab [default: whichever of tab ; | and , all of the
    /// first lines have equally often].
    #[arg(long, value_name = "CHARACTER", requires = "table")]
    delimiter: Option<Delimiter>,
    /// The target's column: a name, or a number from 0 [default: the last column].
    #[arg(long, value_name = "COLUMN", requires = "table")]
    target_column: Option<String>,
    /// The target is a number to be predicted, not a class.
    #[arg(long, requires = "table")]
    regression: bool,
    /// Text labels by class: the first is class 0. All clients of a job need the same [default: the labels of the table
    /// in alphabetical order, which the state folder keeps].
    #[arg(long, value_name = "LABELS", value_delimiter = ',', requires = "table", conflicts_with = "regression")]
    label_map: Option<Vec<String>>,
    /// What becomes of missing values (nothing, NA, NaN, null, ?): mean (of the column in this table), or drop (the
    /// line is left out) [default: they are refused].
    #[arg(long, value_name = "mean|drop", requires = "table")]
    missing: Option<Missing>,
    /// Shifts and scales each column of inputs to a mean of 0 and a variance of 1, over the examples of this table
    /// alone. A level that differs between clients is lost, and the model expects inputs that were treated alike.
    #[arg(long, requires = "table", conflicts_with = "input_scale")]
    standardize: bool,
    /// Each input of the table is multiplied by this, for example 0.0625 for pixels from 0 to 16 [default: 1].
    #[arg(long, value_name = "FACTOR", requires = "table")]
    input_scale: Option<f32>,
    /// Shape of one input of a table or data set, for example 1,8,8 (channels, height, width) [default: one row of
    /// numbers].
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', requires = "shaped")]
    input_shape: Option<Vec<usize>>,
    /// Images in an IDX file (MNIST's format), gzipped or not.
    #[arg(long, value_name = "FILE", requires = "labels")]
    idx_images: Option<PathBuf>,
    /// Their labels in an IDX file.
    #[arg(long, value_name = "FILE", requires = "images")]
    idx_labels: Option<PathBuf>,
    /// Passes each image to the network as one row of numbers, not as [1, height, width].
    #[arg(long, requires = "images")]
    flat: bool,
    /// A data set that is part of this program.
    #[arg(long, value_enum, conflicts_with = "idx_images")]
    dataset: Option<BuiltIn>,
}

/// The data sets of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BuiltIn {
    /// 1,797 handwritten digits of 8x8 pixels from 0 to 1, as rows of 64 numbers.
    Digits,
}

/// Examples, and what a person wants to know about them.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) examples: MemoryExamples,
    /// Of text labels.
    pub(super) labels: Option<LabelMap>,
    /// The largest class and one; `None` for numbers.
    pub(super) classes: Option<usize>,
    pub(super) notes: Vec<String>,
}

/// What separates two fields of a table.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Delimiter(u8);

/// Why examples cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExamplesError {
    #[error("{} and {}: {source}", images.display(), labels.display())]
    Idx { images: PathBuf, labels: PathBuf, source: IdxError },
    #[error(
        "examples come from a table (csv), from IDX files (idx_images and idx_labels) or from a data set (dataset), with \
         options of that kind"
    )]
    Source,
}

impl Failure for ExamplesError {
    fn hint(&self) -> Option<String> {
        Some("`tributary client run --help` says how tables and IDX files are described".into())
    }
}

impl ExampleArgs {
    /// Flags, and the file for what they leave open.
    pub(super) fn over(self, file: Self) -> Self {
        Self {
            csv: self.csv.or(file.csv),
            no_header: self.no_header || (file.no_header && !self.header),
            header: self.header || (file.header && !self.no_header),
            delimiter: self.delimiter.or(file.delimiter),
            target_column: self.target_column.or(file.target_column),
            regression: self.regression || file.regression,
            label_map: self.label_map.or(file.label_map),
            missing: self.missing.or(file.missing),
            standardize: self.standardize || file.standardize,
            input_scale: self.input_scale.or(file.input_scale),
            input_shape: self.input_shape.or(file.input_shape),
            idx_images: self.idx_images.or(file.idx_images),
            idx_labels: self.idx_labels.or(file.idx_labels),
            flat: self.flat || file.flat,
            dataset: self.dataset.or(file.dataset),
        }
    }

    /// Reads the examples into memory. Text labels keep the classes that `kept` gives them, unless the settings say
    /// otherwise.
    pub(super) fn load(&self, kept: Option<LabelMap>) -> Result<Loaded, CliError> {
        let has_table_options = self.has_table_options();
        let examples = match (&self.csv, &self.idx_images, &self.idx_labels, self.dataset) {
            (Some(path), None, None, None) if !self.flat => {
                let Table { examples, labels, classes, notes, .. } = self.load_csv(path, kept)?;
                return Ok(Loaded { examples, labels, classes: (!self.regression).then_some(classes), notes });
            }
            (None, Some(images), Some(labels), None) if !has_table_options && self.input_shape.is_none() => {
                self.load_idx(images, labels)?
            }
            (None, None, None, Some(BuiltIn::Digits)) if !has_table_options && !self.flat => {
                let shape = self.input_shape.clone().unwrap_or_else(|| vec![64]);
                let wrong = || CliError::BadSetting(format!("input_shape: {shape:?} has not the 64 values of a digit"));
                all_digits(&shape).map_err(|_| wrong())?
            }
            // clap refuses these on the command line. A file may still have them.
            _ => return Err(ExamplesError::Source.into()),
        };
        let largest = labels_of(&examples).and_then(|classes| classes.into_iter().max());
        let classes = largest.map(|largest| largest as usize + 1);
        Ok(Loaded { examples, labels: None, classes, notes: Vec::new() })
    }

    fn has_table_options(&self) -> bool {
        let has_values = self.delimiter.is_some()
            || self.target_column.is_some()
            || self.input_scale.is_some()
            || self.label_map.is_some()
            || self.missing.is_some();
        self.no_header || self.header || self.regression || self.standardize || has_values
    }

    fn load_csv(&self, path: &Path, kept: Option<LabelMap>) -> Result<Table, CliError> {
        let options = TableOptions {
            delimiter: self.delimiter.map(|Delimiter(letter)| letter),
            has_header: (self.header || self.no_header).then_some(self.header),
            target_column: self.target_column.clone(),
            regression: self.regression,
            missing: self.missing,
            standardize: self.standardize,
            input_scale: self.input_scale,
            input_shape: self.input_shape.clone(),
            labels: self.label_map.clone().map(LabelMap::new).or(kept),
        };
        table::read_file(path, &options)
    }

    fn load_idx(&self, images: &Path, labels: &Path) -> Result<MemoryExamples, CliError> {
        let shape = if self.flat { IdxShape::Flat } else { IdxShape::Image };
        let examples = read_idx_examples(open(images)?, open(labels)?, shape);
        let failed = |source| ExamplesError::Idx { images: images.to_owned(), labels: labels.to_owned(), source };
        Ok(examples.map_err(failed)?)
    }
}

fn open(path: &Path) -> Result<File, CliError> {
    File::open(path).map_err(CliError::file("read", path))
}

impl FromStr for Delimiter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text.as_bytes() {
            b"\\t" | b"tab" => Ok(Self(b'\t')),
            [letter] if letter.is_ascii() && *letter != b'"' => Ok(Self(*letter)),
            _ => Err("it must be one ASCII character, or tab"),
        }
    }
}

impl TryFrom<String> for Delimiter {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        text.parse()
    }
}
