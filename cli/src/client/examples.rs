//! The examples of a client, from a table or from IDX files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::Deserialize;
use tributary_client::examples::{
    Column, CsvError, CsvOptions, CsvTarget, IdxError, IdxShape, MemoryExamples, read_csv, read_idx_examples,
};

use crate::error::{CliError, Failure};

const INPUT_SCALE_DEFAULT: f32 = 1.0;

#[derive(Clone, Debug, Default, Args, Deserialize)]
#[command(next_help_heading = "Examples (in the file: the table `examples`)")]
#[serde(deny_unknown_fields, default)]
pub(super) struct ExampleArgs {
    /// A table of numbers: each line is an example, one column its target. Gzipped if the file's name ends in .gz.
    #[arg(long, value_name = "FILE", conflicts_with = "idx_images")]
    csv: Option<PathBuf>,
    /// The table has no line with the names of the columns.
    #[arg(long, requires = "table")]
    no_header: bool,
    /// What separates two fields of the table: a character, or tab [default: ,].
    #[arg(long, value_name = "CHARACTER", requires = "table")]
    delimiter: Option<Delimiter>,
    /// The target's column: a name, or a number from 0 [default: the last column].
    #[arg(long, value_name = "COLUMN", requires = "table")]
    target_column: Option<String>,
    /// The target is a number to be predicted, not a class from 0.
    #[arg(long, requires = "table")]
    regression: bool,
    /// Each input of the table is multiplied by this, for example 0.0625 for pixels from 0 to 16 [default: 1].
    #[arg(long, value_name = "FACTOR", requires = "table")]
    input_scale: Option<f32>,
    /// Shape of one input of the table, for example 1,8,8 (channels, height, width) [default: one row of numbers].
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', requires = "table")]
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
}

/// What separates two fields of a table.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Delimiter(char);

/// Why examples cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExamplesError {
    #[error("{}: {source}", path.display())]
    Csv {
        path: PathBuf,
        /// Names line and column.
        source: CsvError,
    },
    #[error("{} and {}: {source}", images.display(), labels.display())]
    Idx { images: PathBuf, labels: PathBuf, source: IdxError },
    #[error(
        "examples come from a table (csv) or from IDX files (idx_images and idx_labels), with options of that kind"
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
            no_header: self.no_header || file.no_header,
            delimiter: self.delimiter.or(file.delimiter),
            target_column: self.target_column.or(file.target_column),
            regression: self.regression || file.regression,
            input_scale: self.input_scale.or(file.input_scale),
            input_shape: self.input_shape.or(file.input_shape),
            idx_images: self.idx_images.or(file.idx_images),
            idx_labels: self.idx_labels.or(file.idx_labels),
            flat: self.flat || file.flat,
        }
    }

    /// Reads the examples into memory.
    pub(super) fn load(&self) -> Result<MemoryExamples, CliError> {
        match (&self.csv, &self.idx_images, &self.idx_labels) {
            (Some(path), None, None) if !self.flat => self.load_csv(path),
            (None, Some(images), Some(labels)) if !self.has_table_options() => self.load_idx(images, labels),
            // clap refuses these on the command line. A file may still have them.
            _ => Err(ExamplesError::Source.into()),
        }
    }

    fn has_table_options(&self) -> bool {
        let Self { no_header, delimiter, target_column, regression, input_scale, input_shape, .. } = self;
        let has_values =
            delimiter.is_some() || target_column.is_some() || input_scale.is_some() || input_shape.is_some();
        *no_header || *regression || has_values
    }

    fn load_csv(&self, path: &Path) -> Result<MemoryExamples, CliError> {
        let options = CsvOptions {
            delimiter: self.delimiter.map_or(',', |Delimiter(letter)| letter),
            has_header: !self.no_header,
            target_column: self.target_column.as_deref().map_or(Column::Last, parse_column),
            target: if self.regression { CsvTarget::Value } else { CsvTarget::Class },
            input_scale: self.input_scale.unwrap_or(INPUT_SCALE_DEFAULT),
            input_shape: self.input_shape.clone(),
        };
        let file = open(path)?;
        let examples = match path.extension() {
            Some(extension) if extension == "gz" => read_csv(flate2::read::MultiGzDecoder::new(file), &options),
            _ => read_csv(file, &options),
        };
        Ok(examples.map_err(|source| ExamplesError::Csv { path: path.to_owned(), source })?)
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

fn parse_column(text: &str) -> Column {
    text.parse().map_or_else(|_| Column::Name(text.to_owned()), Column::Number)
}

impl FromStr for Delimiter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let mut letters = text.chars();
        match (text, letters.next(), letters.next()) {
            ("\\t" | "tab", ..) => Ok(Self('\t')),
            (_, Some(letter), None) => Ok(Self(letter)),
            _ => Err("it must be one character, or tab"),
        }
    }
}

impl TryFrom<String> for Delimiter {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        text.parse()
    }
}
