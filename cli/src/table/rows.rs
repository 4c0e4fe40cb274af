//! A table while it is read, line by line.

use tributary_client::examples::{MemoryExamples, Targets};
use tributary_protocol::text::visible;

use super::columns::{self, Missing, class, is_missing, number};
use super::error::{FieldProblem, TableError};
use super::labels::{self, LabelMap, shortened};
use super::sniff::Sniffed;

/// Names of columns that a message shows.
const NAMES_SHOWN_MAX: usize = 40;

/// How to read a table. What is `None` is found out.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableOptions {
    pub(crate) delimiter: Option<u8>,
    pub(crate) has_header: Option<bool>,
    /// A name, or a number from 0; `None`: the last column.
    pub(crate) target_column: Option<String>,
    /// The target is a number, not a class.
    pub(crate) regression: bool,
    pub(crate) missing: Option<Missing>,
    /// Each column of inputs is shifted and scaled to a mean of 0 and a variance of 1.
    pub(crate) standardize: bool,
    /// Each input is multiplied by this; `None`: by 1.
    pub(crate) input_scale: Option<f32>,
    /// `None`: one row of numbers.
    pub(crate) input_shape: Option<Vec<usize>>,
    /// The labels by class; `None`: classes are numbers, or the labels of the table in alphabetical order.
    pub(crate) labels: Option<LabelMap>,
}

/// A table that was read.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) examples: MemoryExamples,
    /// For text labels.
    pub(crate) labels: Option<LabelMap>,
    /// The largest class and one; 0 for numbers.
    pub(crate) classes: usize,
    /// What was found out or changed, as sentences.
    pub(crate) notes: Vec<String>,
}

/// A table while it is read.
pub(super) struct Rows<'a> {
    options: &'a TableOptions,
    notes: Vec<String>,
    header: Option<Vec<String>>,
    /// Whether the next line is the header.
    header_comes: bool,
    /// The target's column, known from the first line on.
    target: Option<usize>,
    columns: usize,
    /// Missing ones are NaN.
    inputs: Vec<f32>,
    /// The value of each example's target.
    values: Vec<f32>,
    /// The label of each example by its first occurrence.
    labels: labels::Seen,
    dropped: u64,
    filled: u64,
}

impl<'a> Rows<'a> {
    pub(super) fn new(options: &'a TableOptions, sniffed: &Sniffed) -> Self {
        Self {
            options,
            notes: sniffed.notes(options.delimiter, options.has_header),
            header: None,
            header_comes: sniffed.has_header,
            target: None,
            columns: 0,
            inputs: Vec::new(),
            values: Vec::new(),
            labels: labels::Seen::default(),
            dropped: 0,
            filled: 0,
        }
    }

    pub(super) fn push(&mut self, record: &csv::StringRecord) -> Result<(), TableError> {
        if self.target.is_none() {
            self.columns = record.len();
            if std::mem::take(&mut self.header_comes) {
                self.header = Some(record.iter().map(str::to_owned).collect());
                self.target = Some(self.target_column()?);
                return Ok(());
            }
            self.target = Some(self.target_column()?);
        }
        let is_incomplete = record.iter().any(is_missing);
        if is_incomplete && self.options.missing == Some(Missing::Drop) {
            self.dropped += 1;
            return Ok(());
        }
        let line = record.position().map_or(0, csv::Position::line);
        for (column, text) in record.iter().enumerate() {
            let pushed = if Some(column) == self.target { self.push_target(text, line) } else { self.push_input(text) };
            pushed.map_err(|problem| TableError::Field { line, column: self.name(column), problem })?;
        }
        Ok(())
    }

    fn push_target(&mut self, text: &str, line: u64) -> Result<(), FieldProblem> {
        if is_missing(text) {
            return Err(FieldProblem::Missing);
        }
        if self.options.regression {
            self.values.push(number(text).ok_or_else(|| FieldProblem::NotANumber(shortened(text)))?);
        } else if !self.labels.push(text, line) {
            return Err(FieldProblem::TooManyLabels(shortened(text)));
        }
        Ok(())
    }

    fn push_input(&mut self, text: &str) -> Result<(), FieldProblem> {
        let value = match (is_missing(text), self.options.missing) {
            (false, _) => number(text).ok_or_else(|| FieldProblem::NotANumber(shortened(text)))?,
            (true, Some(Missing::Mean)) => {
                self.filled += 1;
                f32::NAN
            }
            (true, _) => return Err(FieldProblem::Missing),
        };
        self.inputs.push(value * self.options.input_scale.unwrap_or(1.0));
        Ok(())
    }

    fn target_column(&self) -> Result<usize, TableError> {
        if self.columns < 2 {
            return Err(TableError::OneColumn);
        }
        let Some(wanted) = &self.options.target_column else { return Ok(self.columns - 1) };
        let named = self.header.as_ref().and_then(|names| names.iter().position(|name| name == wanted));
        let numbered = || wanted.parse().ok().filter(|number| *number < self.columns);
        named.or_else(numbered).ok_or_else(|| TableError::NoColumn {
            wanted: wanted.clone(),
            names: (0..self.columns.min(NAMES_SHOWN_MAX)).map(|column| self.name(column)).collect(),
        })
    }

    /// The column's name, or its number from 0.
    fn name(&self, column: usize) -> String {
        let named = self.header.as_ref().and_then(|names| names.get(column)).filter(|name| !name.is_empty());
        // The text of a file must not act on the terminal.
        named.map_or_else(|| column.to_string(), |name| visible(&shortened(name)))
    }

    pub(super) fn finish(mut self) -> Result<Table, TableError> {
        let Some(target) = self.target.filter(|_| !self.inputs.is_empty()) else { return Err(TableError::Empty) };
        let inputs = self.columns - 1;
        let target_name = self.name(target);
        let names: Vec<String> =
            (0..self.columns).filter(|column| *column != target).map(|column| self.name(column)).collect();
        if self.dropped > 0 {
            self.notes.push(format!("left out for missing values: {} of the lines", self.dropped));
        }
        if self.filled > 0 {
            columns::fill_with_means(&mut self.inputs, &names)?;
            self.notes.push(format!("missing values, in whose place are the means of their columns: {}", self.filled));
        }
        if self.options.standardize {
            columns::standardize(&mut self.inputs, inputs);
            let examples = self.inputs.len() / inputs;
            self.notes.push(format!(
                "{inputs} columns are standardised with the means and variances of these {examples} examples"
            ));
        }
        let (targets, labels, classes) = if self.options.regression {
            (Targets::Values { values: std::mem::take(&mut self.values), width: 1 }, None, 0)
        } else {
            let (classes, labels) = self.classes(&target_name)?;
            let count = classes.iter().max().map_or(0, |largest| *largest as usize + 1);
            let count = labels.as_ref().map_or(count, LabelMap::len);
            (Targets::Classes(classes), labels, count)
        };
        let shape = self.options.input_shape.clone().unwrap_or_else(|| vec![inputs]);
        let examples = MemoryExamples::new(shape, std::mem::take(&mut self.inputs), targets)?;
        Ok(Table { examples, labels, classes, notes: self.notes })
    }

    /// The class of each example, and the labels if they are texts.
    fn classes(&self, target: &str) -> Result<(Vec<u32>, Option<LabelMap>), TableError> {
        let texts = self.labels.texts();
        let map = match &self.options.labels {
            Some(map) => map.clone(),
            None => {
                let numbers: Option<Vec<u32>> = texts.iter().map(|text| class(text)).collect();
                if let Some(numbers) = numbers {
                    return Ok((self.labels.by_example(&numbers), None));
                }
                if texts.iter().all(|text| number(text).is_some()) {
                    let fraction = texts.iter().find(|text| class(text).is_none());
                    let fraction = fraction.map_or_else(String::new, |text| shortened(text));
                    return Err(TableError::NotClasses(target.to_owned(), fraction));
                }
                LabelMap::in_order(texts)
            }
        };
        let classes: Result<Vec<u32>, TableError> = texts
            .iter()
            .zip(self.labels.lines())
            .map(|(label, line)| {
                map.class(label).ok_or_else(|| TableError::Field {
                    line: *line,
                    column: target.to_owned(),
                    problem: FieldProblem::UnknownLabel { label: shortened(label), known: map.clone() },
                })
            })
            .collect();
        Ok((self.labels.by_example(&classes?), Some(map)))
    }
}
