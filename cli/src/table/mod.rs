//! Tables of examples as people have them: with text labels, missing values, any delimiter, with or without a header.
//!
//! The SDK's reader takes tables of numbers. This one is for files that were made for other programs: it looks at the
//! first lines to find out what it was not told, and explains what it found.

mod cells;
mod columns;
mod draft;
mod error;
mod labels;
mod lines;
#[cfg(feature = "formats")]
mod parquet;
mod rows;
mod schema;
mod schema_error;
mod sniff;

use std::collections::BTreeMap;
#[cfg(feature = "formats")]
use std::fs::File;
use std::io::Read;
use std::path::Path;

use tributary_client::Cell;
use tributary_protocol::inputs::Inputs;

use crate::error::CliError;

pub(crate) use columns::Missing;
pub(crate) use draft::{Draft, draft};
pub(crate) use labels::LabelMap;
pub(crate) use rows::{Table, TableOptions};
pub(crate) use schema::{RawTable, SchemaOptions};

use cells::Cells;
use error::{TableError, TableFileError};
use lines::{read_lines, unpacked};
use rows::Rows;
use schema::SchemaRows;
use sniff::Sniffed;

/// Reads the table of a file, gzipped if its name ends in .gz.
pub(crate) fn read_file(path: &Path, options: &TableOptions) -> Result<Table, CliError> {
    Ok(read(unpacked(path)?, options).map_err(|source| TableFileError { path: path.to_owned(), source })?)
}

/// Reads the table of a Parquet file, whose columns have names.
#[cfg(feature = "formats")]
pub(crate) fn read_parquet(path: &Path, options: &TableOptions) -> Result<Table, CliError> {
    let file = File::open(path).map_err(CliError::file("read", path))?;
    Ok(parquet::read(file, options).map_err(|source| TableFileError { path: path.to_owned(), source })?)
}

/// Reads a whole table into memory.
fn read(reader: impl Read, options: &TableOptions) -> Result<Table, TableError> {
    let begin = |sniffed: &Sniffed| Rows::new(options, sniffed);
    read_lines(reader, (options.delimiter, options.has_header), begin, Rows::push)?.finish()
}

/// Reads a table by the columns of a job: Parquet if its name or the options say so, else CSV.
pub(crate) fn read_by_schema(
    path: &Path,
    inputs: &Inputs,
    delimiter: Option<u8>,
    options: &SchemaOptions,
) -> Result<RawTable, CliError> {
    let table = match options.is_parquet || path.extension().is_some_and(|extension| extension == "parquet") {
        #[cfg(feature = "formats")]
        true => {
            let file = File::open(path).map_err(CliError::file("read", path))?;
            parquet::read_by_schema(file, inputs, options)
        }
        _ => schema_lines(unpacked(path)?, inputs, delimiter, options),
    };
    Ok(table.map_err(|source| TableFileError { path: path.to_owned(), source })?)
}

/// Reads the raw values of some columns, row by row: Parquet if the file's name or the caller says so, else CSV with a
/// header.
pub(crate) fn read_cells(
    path: &Path,
    delimiter: Option<u8>,
    is_parquet: bool,
    columns: &[&str],
    names: &BTreeMap<String, String>,
) -> Result<Vec<Vec<Cell>>, CliError> {
    let cells = Cells::new(columns, names);
    let read = match is_parquet || path.extension().is_some_and(|extension| extension == "parquet") {
        #[cfg(feature = "formats")]
        true => {
            let file = File::open(path).map_err(CliError::file("read", path))?;
            let mut cells = cells;
            parquet::read_rows(file, |record| cells.push(record)).map(|()| cells)
        }
        _ => read_lines(unpacked(path)?, (delimiter, Some(true)), |_| cells, Cells::push),
    };
    Ok(read.map(Cells::finish).map_err(|source| TableFileError { path: path.to_owned(), source })?)
}

fn schema_lines(
    reader: impl Read,
    inputs: &Inputs,
    delimiter: Option<u8>,
    options: &SchemaOptions,
) -> Result<RawTable, TableError> {
    let begin = |_: &Sniffed| SchemaRows::new(inputs, options);
    read_lines(reader, (delimiter, None), begin, SchemaRows::push_record)?.finish()
}

#[cfg(test)]
mod tests;
