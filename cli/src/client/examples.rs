//! The examples of a client, from a table, from images or from a built-in data set.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use tributary_client::examples::{IdxError, IdxShape, MemoryExamples, read_idx_examples};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;

use super::pairs::{attribute_table, parse_names};
use super::schema;
use crate::data::digits::embedded_digits as all_digits;
use crate::data::labels as labels_of;
use crate::error::{CliError, Failure};
#[cfg(feature = "formats")]
use crate::image_folder::read as read_images;
#[cfg(feature = "formats")]
use crate::table::read_parquet;
use crate::table::{self, LabelMap, Missing, SchemaOptions, Table, TableOptions};

#[derive(Clone, Debug, Default, Args, Deserialize)]
#[command(next_help_heading = "Examples (in the file: the table `examples`)")]
#[serde(deny_unknown_fields, default)]
pub(super) struct ExampleArgs {
    /// A table: each line is an example, one column its target. Gzipped if the file's name ends in .gz.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["parquet", "idx_images", "image_folder", "dataset"])]
    csv: Option<PathBuf>,
    /// A table in a Parquet file: each row is an example (releases read it; otherwise build with --features full).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["idx_images", "image_folder", "dataset"])]
    parquet: Option<PathBuf>,
    /// The table's first line is an example [default: the first line is a header if there is no number in it].
    #[arg(long, requires = "text")]
    no_header: bool,
    /// The table's first line holds the names of the columns.
    #[arg(long, requires = "text", conflicts_with = "no_header")]
    header: bool,
    /// What separates two fields of the table: a character, or tab [default: whichever of tab ; | and , all of the
    /// first lines have equally often].
    #[arg(long, value_name = "CHARACTER", requires = "text")]
    delimiter: Option<Delimiter>,
    /// The target's column: a name, or a number from 0 [default: the last column].
    #[arg(long, value_name = "COLUMN", requires = "table")]
    target_column: Option<String>,
    /// The target is a number to be predicted, not a class.
    #[arg(long, requires = "table")]
    regression: bool,
    /// Text labels by class: the first is class 0. All clients of a job need the same [default: the labels of the table
    /// or the folders of images, in alphabetical order, which the state folder keeps].
    #[arg(long, value_name = "LABELS", value_delimiter = ',', requires = "labelled", conflicts_with = "regression")]
    label_map: Option<Vec<String>>,
    /// What becomes of missing values (nothing, NA, NaN, null, ?): mean (of the column in this table), or drop (the
    /// line is left out) [default: they are refused].
    #[arg(long, value_name = "mean|drop", requires = "table")]
    missing: Option<Missing>,
    /// Shifts and scales each column of inputs to a mean of 0 and a variance of 1, over the examples of this table
    /// alone. A level that differs between clients is lost, and the model expects inputs that were treated alike.
    #[arg(long, requires = "table", conflicts_with = "input_scale")]
    standardize: bool,
    /// The name in this table of a column of the job, where it is another one, such as age_years=age; may be repeated.
    /// In the file: the table `map`.
    #[arg(long = "map", value_name = "JOB_COLUMN=TABLE_COLUMN", requires = "table", value_parser = parse_names)]
    #[serde(deserialize_with = "attribute_table")]
    map: Vec<(String, String)>,
    /// Columns of this table that the job does not have [default: such columns are refused].
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', requires = "table")]
    ignore: Option<Vec<String>>,
    /// The job whose columns this table has, where several jobs name columns [default: the newest that it fits].
    #[arg(long, value_name = "NAME", requires = "table")]
    job: Option<Name>,
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
    /// PNG and JPEG images in a folder that has a folder for each class (releases read them; otherwise build with
    /// --features full).
    #[arg(long, value_name = "FOLDER", requires = "image_size", conflicts_with_all = ["idx_images", "dataset"])]
    image_folder: Option<PathBuf>,
    /// Height and width that images of a folder are resized to, for example 28,28.
    #[arg(long, value_name = "HEIGHT,WIDTH", value_delimiter = ',', requires = "folder")]
    image_size: Option<Vec<u32>>,
    /// Makes images of a folder gray: one channel instead of red, green and blue.
    #[arg(long, requires = "folder")]
    gray: bool,
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

/// Where examples are.
#[derive(Clone, Copy)]
enum Source<'a> {
    Csv(&'a Path),
    Parquet(&'a Path),
    /// The file of the images.
    Idx(&'a Path),
    Folder(&'a Path),
    BuiltIn(BuiltIn),
}

/// What an option describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// How lines of text become rows.
    Lines,
    Columns,
    Labels,
    /// Of one input.
    Shape,
    IdxLabels,
    Flat,
    /// Of the inputs that images of a folder become.
    Size,
}

/// Largest height and width of an input made of an image.
const IMAGE_SIDE_MAX: u32 = 4_096;

/// Examples, and what a person wants to know about them.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) examples: MemoryExamples,
    /// Of text labels.
    pub(super) labels: Option<LabelMap>,
    /// The largest class and one; `None` for numbers.
    pub(super) classes: Option<usize>,
    pub(super) notes: Vec<String>,
    /// By which a job's columns were applied.
    pub(super) schema: Option<Sha256Hash>,
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
        "examples come from a table (csv or parquet), from IDX files (idx_images and idx_labels), from folders of images \
         (image_folder) or from a data set (dataset), with options of that kind"
    )]
    Source,
    /// Without the feature `formats`.
    #[cfg(not(feature = "formats"))]
    #[error("this program was built without the feature that reads {0}")]
    NotBuilt(&'static str),
}

impl Failure for ExamplesError {
    fn hint(&self) -> Option<String> {
        #[cfg(not(feature = "formats"))]
        if let Self::NotBuilt(_) = self {
            return Some("build it with `--features full`, or use a release".into());
        }
        Some("`tributary client run --help` says how examples are described".into())
    }
}

impl ExampleArgs {
    /// A table with the default settings: a Parquet file by the end of its name, else text.
    pub(super) fn of_table(file: PathBuf) -> Self {
        match file.extension().is_some_and(|extension| extension == "parquet") {
            true => Self { parquet: Some(file), ..Self::default() },
            false => Self { csv: Some(file), ..Self::default() },
        }
    }

    /// Whether there is a place where the examples are.
    pub(super) fn are_given(&self) -> bool {
        let files = [&self.csv, &self.parquet, &self.idx_images, &self.image_folder];
        files.iter().any(|file| file.is_some()) || self.dataset.is_some()
    }

    /// Flags, and the file for what they leave open.
    pub(super) fn over(self, file: Self) -> Self {
        Self {
            csv: self.csv.or(file.csv),
            parquet: self.parquet.or(file.parquet),
            no_header: self.no_header || (file.no_header && !self.header),
            header: self.header || (file.header && !self.no_header),
            delimiter: self.delimiter.or(file.delimiter),
            target_column: self.target_column.or(file.target_column),
            regression: self.regression || file.regression,
            label_map: self.label_map.or(file.label_map),
            missing: self.missing.or(file.missing),
            standardize: self.standardize || file.standardize,
            map: [file.map, self.map].concat(),
            ignore: self.ignore.or(file.ignore),
            job: self.job.or(file.job),
            input_scale: self.input_scale.or(file.input_scale),
            input_shape: self.input_shape.or(file.input_shape),
            idx_images: self.idx_images.or(file.idx_images),
            idx_labels: self.idx_labels.or(file.idx_labels),
            flat: self.flat || file.flat,
            image_folder: self.image_folder.or(file.image_folder),
            image_size: self.image_size.or(file.image_size),
            gray: self.gray || file.gray,
            dataset: self.dataset.or(file.dataset),
        }
    }

    /// Reads the examples into memory. Text labels keep the classes that `kept` gives them, unless the settings say
    /// otherwise.
    pub(super) fn load(&self, kept: Option<LabelMap>) -> Result<Loaded, CliError> {
        let examples = match self.source()? {
            Source::Csv(path) => return Ok(self.loaded(table::read_file(path, &self.table_options(kept))?)),
            Source::Parquet(path) => return Ok(self.loaded(read_parquet(path, &self.table_options(kept))?)),
            Source::Folder(path) => {
                let labels = self.label_map.clone().map(LabelMap::new).or(kept);
                let (examples, labels) = read_images(path, self.size()?, self.gray, labels)?;
                let classes = Some(labels.len());
                return Ok(Loaded { examples, labels: Some(labels), classes, notes: Vec::new(), schema: None });
            }
            Source::Idx(images) => {
                let labels = self.idx_labels.as_deref().ok_or(ExamplesError::Source)?;
                self.load_idx(images, labels)?
            }
            Source::BuiltIn(BuiltIn::Digits) => {
                let shape = self.input_shape.clone().unwrap_or_else(|| vec![64]);
                let wrong = || CliError::BadSetting(format!("input_shape: {shape:?} has not the 64 values of a digit"));
                all_digits(&shape).map_err(|_| wrong())?
            }
        };
        let largest = labels_of(&examples).and_then(|classes| classes.into_iter().max());
        let classes = largest.map(|largest| largest as usize + 1);
        Ok(Loaded { examples, labels: None, classes, notes: Vec::new(), schema: None })
    }

    /// The table, where the examples are one.
    pub(super) fn table(&self) -> Result<Option<schema::Table<'_>>, ExamplesError> {
        let (path, is_parquet) = match self.source()? {
            Source::Csv(path) => (path, false),
            Source::Parquet(path) => (path, true),
            _ => return Ok(None),
        };
        Ok(Some(schema::Table {
            path,
            delimiter: self.delimiter.map(|Delimiter(letter)| letter),
            options: SchemaOptions {
                names: self.map.iter().cloned().collect(),
                ignored: self.ignore.clone().unwrap_or_default(),
                drops_missing: self.missing == Some(Missing::Drop),
                is_for_training: true,
                is_parquet,
            },
            job: self.job.as_ref(),
            standardizes: self.standardize,
        }))
    }

    /// Where the examples are. clap refuses a second place and options of another kind on the command line; a file may
    /// have them.
    fn source(&self) -> Result<Source<'_>, ExamplesError> {
        use About::{Columns, Flat, IdxLabels, Labels, Lines, Shape, Size};
        let places: [Option<(Source<'_>, &[About])>; 5] = [
            self.csv.as_deref().map(|path| (Source::Csv(path), &[Lines, Columns, Labels, Shape][..])),
            self.parquet.as_deref().map(|path| (Source::Parquet(path), &[Columns, Labels, Shape][..])),
            self.idx_images.as_deref().map(|images| (Source::Idx(images), &[IdxLabels, Flat][..])),
            self.image_folder.as_deref().map(|folder| (Source::Folder(folder), &[Size, Labels][..])),
            self.dataset.map(|dataset| (Source::BuiltIn(dataset), &[Shape][..])),
        ];
        let mut places = places.into_iter().flatten();
        let (Some((source, known)), None) = (places.next(), places.next()) else { return Err(ExamplesError::Source) };
        let has_columns = self.target_column.is_some() || self.input_scale.is_some() || self.missing.is_some();
        let by_name = !self.map.is_empty() || self.ignore.is_some() || self.job.is_some();
        let given = [
            (self.delimiter.is_some() || self.no_header || self.header, Lines),
            (has_columns || self.regression || self.standardize || by_name, Columns),
            (self.label_map.is_some(), Labels),
            (self.input_shape.is_some(), Shape),
            (self.idx_labels.is_some(), IdxLabels),
            (self.flat, Flat),
            (self.image_size.is_some() || self.gray, Size),
        ];
        match given.iter().all(|(is_given, about)| !is_given || known.contains(about)) {
            true => Ok(source),
            false => Err(ExamplesError::Source),
        }
    }

    /// Height and width of the images of a folder.
    fn size(&self) -> Result<[u32; 2], CliError> {
        let size = self.image_size.as_deref().and_then(|size| <[u32; 2]>::try_from(size).ok());
        let is_possible = |size: &[u32; 2]| size.iter().all(|side| (1..=IMAGE_SIDE_MAX).contains(side));
        size.filter(is_possible).ok_or_else(|| {
            CliError::BadSetting(format!("image_size: a height and a width from 1 to {IMAGE_SIDE_MAX} are needed"))
        })
    }

    fn table_options(&self, kept: Option<LabelMap>) -> TableOptions {
        TableOptions {
            delimiter: self.delimiter.map(|Delimiter(letter)| letter),
            has_header: (self.header || self.no_header).then_some(self.header),
            target_column: self.target_column.clone(),
            regression: self.regression,
            missing: self.missing,
            standardize: self.standardize,
            input_scale: self.input_scale,
            input_shape: self.input_shape.clone(),
            labels: self.label_map.clone().map(LabelMap::new).or(kept),
        }
    }

    fn loaded(&self, table: Table) -> Loaded {
        let Table { examples, labels, classes, notes, .. } = table;
        Loaded { examples, labels, classes: (!self.regression).then_some(classes), notes, schema: None }
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

#[cfg(not(feature = "formats"))]
fn read_parquet(_: &Path, _: &TableOptions) -> Result<Table, CliError> {
    Err(ExamplesError::NotBuilt("Parquet files").into())
}

#[cfg(not(feature = "formats"))]
fn read_images(_: &Path, _: [u32; 2], _: bool, _: Option<LabelMap>) -> Result<(MemoryExamples, LabelMap), CliError> {
    Err(ExamplesError::NotBuilt("folders of images").into())
}
