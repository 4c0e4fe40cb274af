//! Tables of examples as people have them: with text labels, missing values, any delimiter, with or without a header.
//!
//! The SDK's reader takes tables of numbers. This one is for files that were made for other programs: it looks at the
//! first lines to find out what it was not told, and explains what it found.

mod columns;
mod error;
mod labels;
#[cfg(feature = "formats")]
mod parquet;
mod rows;
mod sniff;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::error::CliError;

pub(crate) use columns::Missing;
pub(crate) use labels::LabelMap;
pub(crate) use rows::{Table, TableOptions};

use error::{TableError, TableFileError};
use rows::Rows;
use sniff::Sniffed;

/// Bytes that are looked at to find delimiter and header.
const SNIFFED_BYTES: usize = 64 * 1024;

/// Reads the table of a file, gzipped if its name ends in .gz.
pub(crate) fn read_file(path: &Path, options: &TableOptions) -> Result<Table, CliError> {
    let file = File::open(path).map_err(CliError::file("read", path))?;
    let reader: Box<dyn Read> = match path.extension() {
        Some(extension) if extension == "gz" => Box::new(flate2::read::MultiGzDecoder::new(file)),
        _ => Box::new(file),
    };
    Ok(read(reader, options).map_err(|source| TableFileError { path: path.to_owned(), source })?)
}

/// Reads the table of a Parquet file, whose columns have names.
#[cfg(feature = "formats")]
pub(crate) fn read_parquet(path: &Path, options: &TableOptions) -> Result<Table, CliError> {
    let file = File::open(path).map_err(CliError::file("read", path))?;
    Ok(parquet::read(file, options).map_err(|source| TableFileError { path: path.to_owned(), source })?)
}

/// Reads a whole table into memory.
fn read(reader: impl Read, options: &TableOptions) -> Result<Table, TableError> {
    let mut reader = BufReader::with_capacity(SNIFFED_BYTES, reader);
    let mut begin = Vec::new();
    // A reader may give less than the buffer holds at once.
    reader.by_ref().take(SNIFFED_BYTES as u64).read_to_end(&mut begin)?;
    let sniffed = Sniffed::of(&begin, options.delimiter, options.has_header);
    let mut lines = csv::ReaderBuilder::new()
        .delimiter(sniffed.delimiter)
        .has_headers(false)
        .trim(csv::Trim::All)
        .from_reader(begin.as_slice().chain(reader));
    let mut rows = Rows::new(options, &sniffed);
    let mut record = csv::StringRecord::new();
    while lines.read_record(&mut record)? {
        rows.push(&record)?;
    }
    rows.finish()
}

#[cfg(test)]
mod tests;
