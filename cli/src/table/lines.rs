//! The lines of a table, one by one.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use super::error::{TableError, TableFileError};
use super::sniff::Sniffed;
use crate::error::CliError;

/// Longest line in bytes, within a few thousand.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;
/// Bytes that are looked at to find delimiter and header.
const SNIFFED_BYTES: usize = 64 * 1024;

/// The content of a file, unpacked if its name ends in .gz.
pub(super) fn unpacked(path: &Path) -> Result<Box<dyn Read>, CliError> {
    let file = File::open(path).map_err(CliError::file("read", path))?;
    Ok(match path.extension() {
        Some(extension) if extension == "gz" => Box::new(flate2::read::MultiGzDecoder::new(file)),
        _ => Box::new(file),
    })
}

/// A reader that gives so many bytes for one line of a table. A line is in memory with the places of its fields, and a
/// quote that is never closed makes one line of all that follow.
struct Bounded<R> {
    inner: R,
    left: Rc<Cell<usize>>,
    /// Whether the lines of the table end with `\r\n`: the parser would count one line too few.
    drops_returns: bool,
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
        if !self.drops_returns || count == 0 {
            return Ok(count);
        }
        let mut kept = 0;
        for at in 0..count {
            buffer[kept] = buffer[at];
            kept += usize::from(buffer[at] != b'\r');
        }
        // Nothing would be the end.
        if kept == 0 { self.read(buffer) } else { Ok(kept) }
    }
}

/// Gives each line of a CSV file to `take`, with what was found out about it.
pub(super) fn each_line(
    path: &Path,
    mut take: impl FnMut(&Sniffed, &csv::StringRecord) -> Result<(), TableError>,
) -> Result<(), CliError> {
    let reader = unpacked(path)?;
    let read = read_lines(reader, (None, None), |sniffed| *sniffed, |sniffed, record| take(sniffed, record));
    read.map(drop).map_err(|source| TableFileError { path: path.to_owned(), source }.into())
}

/// Gives each line of a table to `push`.
pub(super) fn read_lines<R>(
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
    let mut lines =
        csv::ReaderBuilder::new().delimiter(sniffed.delimiter).has_headers(false).trim(csv::Trim::All).from_reader(
            Bounded {
                drops_returns: begin.windows(2).any(|pair| pair == b"\r\n"),
                inner: begin.as_slice().chain(reader),
                left: Rc::clone(&left),
            },
        );
    let mut rows = begin_with(&sniffed);
    let mut record = csv::StringRecord::new();
    while lines.read_record(&mut record)? {
        push(&mut rows, &record)?;
        left.set(LINE_BYTES_MAX);
    }
    Ok(rows)
}
