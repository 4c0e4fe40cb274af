//! Tables of examples as people have them: with text labels, missing values, any delimiter, with or without a header.
//!
//! The SDK's reader takes tables of numbers. This one is for files that were made for other programs: it looks at the
//! first lines to find out what it was not told, and explains what it found.

mod columns;
mod draft;
mod error;
mod labels;
#[cfg(feature = "formats")]
mod parquet;
mod rows;
mod schema;
mod sniff;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use tributary_protocol::inputs::Inputs;

use crate::error::CliError;

pub(crate) use columns::Missing;
pub(crate) use draft::{Draft, draft};
pub(crate) use labels::LabelMap;
pub(crate) use rows::{Table, TableOptions};
pub(crate) use schema::{RawTable, SchemaOptions};

use error::{TableError, TableFileError};
use rows::Rows;
use schema::SchemaRows;
use sniff::Sniffed;

/// Longest line in bytes, within a few thousand.
const LINE_BYTES_MAX: usize = 1 << 20;
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

/// A reader that gives so many bytes for one line of a table. A line is in memory with the places of its fields, and a
/// quote that is never closed makes one line of all that follow.
struct Bounded<R> {
    inner: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(self.left.get());
        if wanted == 0 && !buffer.is_empty() {
            let what = format!("a line has more than {LINE_BYTES_MAX} bytes; is a quote never closed?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let count = self.inner.read(&mut buffer[..wanted])?;
        self.left.set(self.left.get() - count);
        Ok(count)
    }
}

/// Reads a whole table into memory.
fn read(reader: impl Read, options: &TableOptions) -> Result<Table, TableError> {
    let begin = |sniffed: &Sniffed| Rows::new(options, sniffed);
    read_lines(reader, (options.delimiter, options.has_header), begin, Rows::push)?.finish()
}

/// Reads a table, in CSV or Parquet by its name, by the columns of a job.
pub(crate) fn read_by_schema(
    path: &Path,
    inputs: &Inputs,
    delimiter: Option<u8>,
    options: &SchemaOptions,
) -> Result<RawTable, CliError> {
    let file = File::open(path).map_err(CliError::file("read", path))?;
    let table = match path.extension() {
        #[cfg(feature = "formats")]
        Some(extension) if extension == "parquet" => parquet::read_by_schema(file, inputs, options),
        Some(extension) if extension == "gz" => {
            schema_lines(flate2::read::MultiGzDecoder::new(file), inputs, delimiter, options)
        }
        _ => schema_lines(file, inputs, delimiter, options),
    };
    Ok(table.map_err(|source| TableFileError { path: path.to_owned(), source })?)
}

/// Gives each line of a CSV file to `take`, with what was found out about it.
fn each_line(
    path: &Path,
    mut take: impl FnMut(&Sniffed, &csv::StringRecord) -> Result<(), TableError>,
) -> Result<(), CliError> {
    let file = File::open(path).map_err(CliError::file("read", path))?;
    let reader: Box<dyn Read> = match path.extension() {
        Some(extension) if extension == "gz" => Box::new(flate2::read::MultiGzDecoder::new(file)),
        _ => Box::new(file),
    };
    let read = read_lines(reader, (None, None), |sniffed| *sniffed, |sniffed, record| take(sniffed, record));
    read.map(drop).map_err(|source| TableFileError { path: path.to_owned(), source }.into())
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

/// Gives each line of a table to `push`.
fn read_lines<R>(
    reader: impl Read,
    (delimiter, has_header): (Option<u8>, Option<bool>),
    begin_with: impl FnOnce(&Sniffed) -> R,
    mut push: impl FnMut(&mut R, &csv::StringRecord) -> Result<(), TableError>,
) -> Result<R, TableError> {
    let mut reader = BufReader::with_capacity(SNIFFED_BYTES, reader);
    let mut begin = Vec::new();
    // A reader may give less than the buffer holds at once.
    reader.by_ref().take(SNIFFED_BYTES as u64).read_to_end(&mut begin)?;
    let sniffed = Sniffed::of(&begin, delimiter, has_header);
    let left = Rc::new(Cell::new(LINE_BYTES_MAX));
    let mut lines = csv::ReaderBuilder::new()
        .delimiter(sniffed.delimiter)
        .has_headers(false)
        .trim(csv::Trim::All)
        .from_reader(Bounded { inner: begin.as_slice().chain(reader), left: Rc::clone(&left) });
    let mut rows = begin_with(&sniffed);
    let mut record = csv::StringRecord::new();
    while lines.read_record(&mut record)? {
        push(&mut rows, &record)?;
        left.set(LINE_BYTES_MAX);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests;
