//! Examples from tables of numbers: one line is one example, one column the target.

use std::io::{self, BufRead, BufReader, Read};

use super::{ExamplesError, MemoryExamples, Targets};

/// Longest line in bytes: 1 MiB.
pub const CSV_LINE_BYTES_MAX: u64 = 1 << 20;

/// How a table is to be read.
#[derive(Clone, Debug, PartialEq)]
pub struct CsvOptions {
    /// What stands between two fields.
    pub delimiter: char,
    /// Whether the first line has the columns' names.
    pub has_header: bool,
    /// Which column is the target; all others are inputs, from left to right.
    pub target_column: Column,
    /// What the target column holds.
    pub target: CsvTarget,
    /// Each input is multiplied by this, for example `1.0 / 16.0` for pixels from 0 to 16.
    pub input_scale: f32,
    /// Shape of one input; left out, `[columns - 1]`.
    pub input_shape: Option<Vec<usize>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The last one.
    Last,
    /// By number, from 0.
    Number(usize),
    /// By name; needs a header.
    Name(String),
}

/// What a target column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvTarget {
    /// Class numbers from 0.
    Class,
    /// A number to be predicted.
    Value,
}

impl Default for CsvOptions {
    /// Commas, a header, classes in the last column, inputs as they are.
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

/// Why a table gives no examples.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// Reading failed, or the bytes are no text in UTF-8.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// A line that is no example.
    #[error("line {line}: {problem}")]
    Line {
        /// Counted from 1, with the header and empty lines.
        line: u64,
        /// What is wrong.
        problem: CsvProblem,
    },
    /// The target column is not there.
    #[error("there is no column {0}")]
    NoSuchColumn(String),
    /// The numbers are no examples of the shape given.
    #[error(transparent)]
    Examples(#[from] ExamplesError),
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsvProblem {
    /// Longer than allowed.
    #[error("is longer than {CSV_LINE_BYTES_MAX} bytes")]
    TooLong,
    /// Other than the first line.
    #[error("has {got} fields instead of {expected}")]
    Fields {
        /// As in the first line.
        expected: usize,
        /// As in this line.
        got: usize,
    },
    /// Not a finite number.
    #[error("column {column}: {text:?} is no finite number")]
    NotANumber {
        /// Counted from 0.
        column: usize,
        /// What stands there, cut short.
        text: String,
    },
    /// Not a class number.
    #[error("column {column}: {text:?} is no class number (0, 1, ..)")]
    NotAClass {
        /// Counted from 0.
        column: usize,
        /// What stands there, cut short.
        text: String,
    },
}

/// Reads a whole table. Empty lines are skipped, fields may be quoted.
///
/// # Errors
/// [`CsvError`] names the line and the column.
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

/// The lines of a text that are not empty.
struct Lines<R> {
    reader: BufReader<R>,
    /// Of the line in `text`, counted from 1.
    number: u64,
    text: String,
}

impl<R: Read> Lines<R> {
    /// Goes to the next line; `false` at the end.
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

/// The fields of a line without the blanks and quotes around them. A delimiter within quotes divides nothing.
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

/// A class number, also where a program wrote it as `3.0`.
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
    use super::*;
    use crate::examples::Examples;

    fn all(examples: &MemoryExamples) -> crate::examples::Batch {
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
        assert_eq!(error("a,b\r\n1,0\r\n\r\nx,0", &options), "line 4: column 0: \"x\" is no finite number");
        assert_eq!(error("a,b\nNaN,0\n", &options), "line 2: column 0: \"NaN\" is no finite number");
        assert_eq!(error("a,b\n1,-1\n", &options), "line 2: column 1: \"-1\" is no class number (0, 1, ..)");
        assert_eq!(error("a,b\n1,1.5\n", &options), "line 2: column 1: \"1.5\" is no class number (0, 1, ..)");
        let no_header = CsvOptions { has_header: false, ..CsvOptions::default() };
        assert_eq!(error("1,", &no_header), "line 1: column 1: \"\" is no class number (0, 1, ..)");
    }

    #[test]
    fn a_column_that_is_not_there_and_a_shape_that_does_not_fit_are_refused() {
        let with = |target_column| CsvOptions { target_column, ..CsvOptions::default() };
        assert_eq!(error("a,b\n1,0\n", &with(Column::Number(2))), "there is no column 2");
        assert_eq!(error("a,b\n1,0\n", &with(Column::Name("c".into()))), "there is no column \"c\"");
        let shape = CsvOptions { input_shape: Some(vec![2]), ..CsvOptions::default() };
        assert!(error("a,b\n1,0\n", &shape).contains("no whole number of examples"));
        assert!(error("a\n1\n", &CsvOptions::default()).contains("is no shape"));
        assert!(error("", &CsvOptions::default()).contains("is no shape"));
    }
}
