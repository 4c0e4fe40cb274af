//! Examples from tables of numbers. Each line is one example, one column is the target.

use std::io::{self, BufRead, BufReader, Read};

use super::contract::{ExamplesError, Targets};
use super::memory::MemoryExamples;

/// Longest line in bytes: 1 MiB.
pub const CSV_LINE_BYTES_MAX: u64 = 1 << 20;

/// How to read a table.
#[derive(Clone, Debug, PartialEq)]
pub struct CsvOptions {
    /// The character between two fields.
    pub delimiter: char,
    /// Whether the first line holds the names of the columns.
    pub has_header: bool,
    /// The column of the target. All others are inputs, from left to right.
    pub target_column: Column,
    /// The type of the target.
    pub target: CsvTarget,
    /// Each input is multiplied by this: `1.0 / 16.0` for pixels from 0 to 16, for example.
    pub input_scale: f32,
    /// Shape of one input; `None` for `[columns - 1]`.
    pub input_shape: Option<Vec<usize>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The last column.
    Last,
    /// By number, counted from 0.
    Number(usize),
    /// By name, which needs a header.
    Name(String),
}

/// The type of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvTarget {
    /// A class, numbered from 0.
    Class,
    /// A value to predict.
    Value,
}

impl Default for CsvOptions {
    /// Commas, a header, classes in the last column, inputs without scaling.
    fn default() -> Self {
        Self {
            delimiter: ',',
            has_header: true,
            target_column: Column::Last,
            target: CsvTarget::Class,
            input_scale: 1.0,
            input_shape: None,
        }
    }
}

/// Why a table cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// Reading failed, or the bytes are not UTF-8.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// A line is not an example.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, counted from 1 with the header and empty lines.
        line: u64,
        /// What is wrong with it.
        problem: CsvProblem,
    },
    /// The target column does not exist.
    #[error("there is no column {0}")]
    NoSuchColumn(String),
    /// The values do not make examples of the given shape.
    #[error(transparent)]
    Examples(#[from] ExamplesError),
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsvProblem {
    /// It is longer than [`CSV_LINE_BYTES_MAX`].
    #[error("is longer than {CSV_LINE_BYTES_MAX} bytes")]
    TooLong,
    /// It has another number of fields than the first line.
    #[error("has {got} fields instead of {expected}")]
    Fields {
        /// Number of fields in the first line.
        expected: usize,
        /// Number of fields in this line.
        got: usize,
    },
    /// A field is not a finite number.
    #[error("column {column}: {text:?} is not a finite number")]
    NotANumber {
        /// Number of the column, counted from 0.
        column: usize,
        /// The beginning of the field.
        text: String,
    },
    /// A target is not a class.
    #[error("column {column}: {text:?} is not a class (0, 1, ..)")]
    NotAClass {
        /// Number of the column, counted from 0.
        column: usize,
        /// The beginning of the field.
        text: String,
    },
}

/// Reads a whole table into memory. Empty lines are skipped; fields may be quoted.
///
/// # Errors
/// [`CsvError`], which names the line and the column where one is to blame.
pub fn read_csv(reader: impl Read, options: &CsvOptions) -> Result<MemoryExamples, CsvError> {
    let mut lines = Lines { reader: BufReader::new(reader), number: 0, text: String::new() };
    let names: Option<Vec<String>> = match options.has_header && lines.advance()? {
        true => Some(fields(&lines.text, options.delimiter).map(str::to_owned).collect()),
        false => None,
    };
    let mut columns = names.as_ref().map(Vec::len);
    let (mut inputs, mut classes, mut values) = (Vec::new(), Vec::new(), Vec::new());
    while lines.advance()? {
        let failed = |problem| CsvError::Line { line: lines.number, problem };
        let got = fields(&lines.text, options.delimiter).count();
        let expected = *columns.get_or_insert(got);
        if got != expected {
            return Err(failed(CsvProblem::Fields { expected, got }));
        }
        let target = target_column(&options.target_column, names.as_deref(), expected)?;
        for (column, text) in fields(&lines.text, options.delimiter).enumerate() {
            if column != target {
                inputs.push(number(column, text).map_err(failed)? * options.input_scale);
            } else if options.target == CsvTarget::Class {
                classes.push(class(column, text).map_err(failed)?);
            } else {
                values.push(number(column, text).map_err(failed)?);
            }
        }
    }
    let targets = match options.target {
        CsvTarget::Class => Targets::Classes(classes),
        CsvTarget::Value => Targets::Values { values, width: 1 },
    };
    let shape = options.input_shape.clone().unwrap_or_else(|| vec![columns.unwrap_or_default().saturating_sub(1)]);
    Ok(MemoryExamples::new(shape, inputs, targets)?)
}

/// Reads the lines of a text that are not empty.
struct Lines<R> {
    reader: BufReader<R>,
    /// Number of the line in `text`, counted from 1.
    number: u64,
    text: String,
}

impl<R: Read> Lines<R> {
    /// Reads the next line; `false` at the end.
    fn advance(&mut self) -> Result<bool, CsvError> {
        loop {
            self.text.clear();
            self.number += 1;
            let bytes = self.reader.by_ref().take(CSV_LINE_BYTES_MAX + 1).read_line(&mut self.text)? as u64;
            if bytes > CSV_LINE_BYTES_MAX {
                return Err(CsvError::Line { line: self.number, problem: CsvProblem::TooLong });
            }
            if bytes == 0 || !self.text.trim().is_empty() {
                return Ok(bytes > 0);
            }
        }
    }
}

/// The fields of a line without surrounding blanks and quotes. A delimiter within quotes separates nothing.
fn fields(line: &str, delimiter: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let divides = move |letter: char| {
        quoted ^= letter == '"';
        letter == delimiter && !quoted
    };
    let line = line.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
    line.split(divides).map(|field| field.trim().trim_matches('"').trim())
}

fn target_column(column: &Column, names: Option<&[String]>, columns: usize) -> Result<usize, CsvError> {
    let (found, called) = match column {
        Column::Last => (columns.checked_sub(1), "at the end".to_owned()),
        Column::Number(number) => ((*number < columns).then_some(*number), number.to_string()),
        Column::Name(name) => {
            (names.and_then(|names| names.iter().position(|other| other == name)), format!("{name:?}"))
        }
    };
    found.ok_or(CsvError::NoSuchColumn(called))
}

fn number(column: usize, text: &str) -> Result<f32, CsvProblem> {
    let parsed = text.parse::<f32>().ok().filter(|value| value.is_finite());
    parsed.ok_or_else(|| CsvProblem::NotANumber { column, text: shortened(text) })
}

/// A class, which some programs write as `3.0`.
fn class(column: usize, text: &str) -> Result<u32, CsvProblem> {
    let whole = text.split_once('.').filter(|(_, rest)| rest.bytes().all(|digit| digit == b'0'));
    let parsed = whole.map_or(text, |(whole, _)| whole).parse::<u32>().ok();
    parsed.ok_or_else(|| CsvProblem::NotAClass { column, text: shortened(text) })
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::super::contract::{Batch, Examples};
    use super::*;

    fn all(examples: &MemoryExamples) -> Batch {
        examples.batch(&(0..examples.len()).collect::<Vec<_>>()).unwrap()
    }

    fn error(text: &str, options: &CsvOptions) -> String {
        read_csv(text.as_bytes(), options).expect_err("must be refused").to_string()
    }

    #[test]
    fn all_columns_but_the_target_are_inputs() {
        let options = CsvOptions { input_scale: 0.5, ..CsvOptions::default() };
        let batch = all(&read_csv("a,b,digit\n1, 2,3\n4,5.5,6.0\n".as_bytes(), &options).unwrap());
        assert_eq!(batch.inputs, [0.5, 1.0, 2.0, 2.75]);
        assert_eq!(batch.targets, Targets::Classes(vec![3, 6]));
    }

    #[test]
    fn the_target_may_be_any_column_and_a_number() {
        let options = CsvOptions {
            delimiter: ';',
            has_header: false,
            target_column: Column::Number(0),
            target: CsvTarget::Value,
            input_shape: Some(vec![1, 1, 2]),
            ..CsvOptions::default()
        };
        let examples = read_csv("-1.5;2;3\n4;5;6".as_bytes(), &options).unwrap();
        assert_eq!(examples.input_shape(), [1, 1, 2]);
        let batch = all(&examples);
        assert_eq!(batch.inputs, [2.0, 3.0, 5.0, 6.0]);
        assert_eq!(batch.targets, Targets::Values { values: vec![-1.5, 4.0], width: 1 });
        let by_name = CsvOptions { target_column: Column::Name("y".into()), ..CsvOptions::default() };
        assert_eq!(all(&read_csv("x,y,z\n1,2,3".as_bytes(), &by_name).unwrap()).targets, Targets::Classes(vec![2]));
    }

    #[test]
    fn quotes_blanks_byte_order_marks_and_windows_line_ends_are_understood() {
        let options = CsvOptions { target_column: Column::Name("b, c".into()), ..CsvOptions::default() };
        let text = "\u{feff}\"a\",\"b, c\"\r\n\"1.5\" , \"2\"\r\n\r\n -1e1,0\r\n";
        let batch = all(&read_csv(text.as_bytes(), &options).unwrap());
        assert_eq!(batch.inputs, [1.5, -10.0]);
        assert_eq!(batch.targets, Targets::Classes(vec![2, 0]));
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let endless = "1".repeat(CSV_LINE_BYTES_MAX as usize + 1);
        assert_eq!(error(&format!("a,b\n{endless}"), &CsvOptions::default()), "line 2: is longer than 1048576 bytes");
    }

    #[test]
    fn a_bad_line_is_named_with_its_column() {
        let options = CsvOptions::default();
        assert_eq!(error("a,b\n1,0\n1,0,0\n", &options), "line 3: has 3 fields instead of 2");
        assert_eq!(error("a,b\r\n1,0\r\n\r\nx,0", &options), "line 4: column 0: \"x\" is not a finite number");
        assert_eq!(error("a,b\nNaN,0\n", &options), "line 2: column 0: \"NaN\" is not a finite number");
        assert_eq!(error("a,b\n1,-1\n", &options), "line 2: column 1: \"-1\" is not a class (0, 1, ..)");
        assert_eq!(error("a,b\n1,1.5\n", &options), "line 2: column 1: \"1.5\" is not a class (0, 1, ..)");
        let no_header = CsvOptions { has_header: false, ..CsvOptions::default() };
        assert_eq!(error("1,", &no_header), "line 1: column 1: \"\" is not a class (0, 1, ..)");
    }

    #[test]
    fn a_column_that_is_not_there_and_a_shape_that_does_not_fit_are_refused() {
        let with = |target_column| CsvOptions { target_column, ..CsvOptions::default() };
        assert_eq!(error("a,b\n1,0\n", &with(Column::Number(2))), "there is no column 2");
        assert_eq!(error("a,b\n1,0\n", &with(Column::Name("c".into()))), "there is no column \"c\"");
        let shape = CsvOptions { input_shape: Some(vec![2]), ..CsvOptions::default() };
        assert!(error("a,b\n1,0\n", &shape).contains("not a whole number of examples"));
        assert!(error("a\n1\n", &CsvOptions::default()).contains("is not a shape"));
        assert!(error("", &CsvOptions::default()).contains("is not a shape"));
    }
}
