//! The columns of a job, as one table suggests them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use csv::StringRecord;
use tributary_client::inputs::days;
use tributary_protocol::inputs::{CATEGORIES_MAX, Column, ColumnKind, Inputs, MissingValues, Standardize, Target};

use super::columns::{class, is_missing, number};
use super::error::{TableError, TableFileError};
use super::labels::shortened;
use super::lines::each_line;
use super::sniff::Sniffed;
use crate::error::CliError;

/// What a table suggests.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) inputs: Inputs,
    pub(crate) rows: usize,
    /// Whether all labels of the target are numbers.
    pub(crate) is_numeric: bool,
    /// A label of the target that is a number with decimals.
    pub(crate) decimal: Option<String>,
    pub(crate) notes: Vec<String>,
}

/// What is known of a column while the table is read.
#[derive(Default)]
struct Seen {
    is_number: bool,
    is_date: bool,
    texts: BTreeSet<String>,
    misses: bool,
}

/// Reads a table and names its columns: numbers, dates, or categories with all their texts. A column in which a value
/// is missing replaces it.
pub(crate) fn draft(path: &Path, target: Option<&str>, is_regression: bool) -> Result<Draft, CliError> {
    let mut names: Option<Vec<String>> = None;
    let mut seen: Vec<Seen> = Vec::new();
    let (mut rows, mut notes) = (0, Vec::new());
    each_line(path, |sniffed: &Sniffed, record: &StringRecord| {
        if names.is_none() {
            notes = sniffed.notes(None, None);
            seen.resize_with(record.len(), || Seen { is_number: true, is_date: true, ..Seen::default() });
            let numbered = || (0..record.len()).map(|column| format!("column_{column}")).collect();
            names = Some(if sniffed.has_header { record.iter().map(str::to_owned).collect() } else { numbered() });
            if sniffed.has_header {
                return Ok(());
            }
        }
        rows += 1;
        seen.iter_mut().zip(record).for_each(|(seen, text)| seen.look(text));
        Ok(())
    })?;
    let names = names.unwrap_or_default();
    let wrong = |source| CliError::from(TableFileError { path: path.to_owned(), source });
    if rows == 0 {
        return Err(wrong(TableError::Empty));
    }
    if names.len() < 2 {
        return Err(wrong(TableError::OneColumn));
    }
    let at = match target {
        None => names.len() - 1,
        Some(wanted) => {
            let named = names.iter().position(|name| name == wanted);
            let numbered = || wanted.parse().ok().filter(|number| *number < names.len());
            let missing = || wrong(TableError::NoColumn { wanted: wanted.to_owned(), names: names.clone() });
            named.or_else(numbered).ok_or_else(missing)?
        }
    };
    let is_numeric = seen[at].texts.iter().all(|text| number(text).is_some());
    let has_decimals = |text: &&String| number(text).is_some_and(|number| number.fract() != 0.0);
    let decimal = seen[at].texts.iter().find(has_decimals).cloned();
    let target = seen[at].target(&names[at], is_regression);
    let columns = names.iter().zip(&seen).enumerate().filter(|(column, _)| *column != at);
    let columns: Result<Vec<Column>, TableError> = columns.map(|(_, (name, seen))| seen.column(name)).collect();
    let columns = columns.map_err(wrong)?;
    let inputs =
        Inputs { standardize: Some(Standardize::Federated), columns, target: Some(target), ..Inputs::default() };
    Ok(Draft { inputs, rows, is_numeric, decimal, notes })
}

impl Seen {
    fn look(&mut self, text: &str) {
        if is_missing(text) {
            self.misses = true;
            return;
        }
        self.is_number &= number(text).is_some();
        self.is_date &= days(text).is_some();
        if self.texts.len() <= LABELS {
            self.texts.insert(text.to_owned());
        }
    }

    fn column(&self, name: &str) -> Result<Column, TableError> {
        let kind = match (self.is_number, self.is_date) {
            (true, _) => ColumnKind::Number,
            (false, true) => ColumnKind::Date,
            (false, false) => ColumnKind::Category,
        };
        let categories: Vec<String> =
            if kind == ColumnKind::Category { self.texts.iter().cloned().collect() } else { Vec::new() };
        if categories.len() > CATEGORIES_MAX {
            return Err(TableError::TooManyCategories(shortened(name)));
        }
        let missing = if self.misses { MissingValues::Replace } else { MissingValues::Refuse };
        Ok(Column { name: name.to_owned(), kind, categories, missing, ..Column::default() })
    }

    /// Classes that are numbers are in the order of the numbers, others in that of the alphabet.
    fn target(&self, name: &str, is_regression: bool) -> Target {
        if is_regression {
            return Target { name: name.to_owned(), ..Target::default() };
        }
        let numbers: Option<BTreeMap<u32, &String>> =
            self.texts.iter().map(|text| class(text).map(|class| (class, text))).collect();
        let classes = match numbers {
            Some(numbers) => numbers.into_values().cloned().collect(),
            None => self.texts.iter().cloned().collect(),
        };
        Target { name: name.to_owned(), classes, ..Target::default() }
    }
}

/// Different texts of a column that are remembered.
const LABELS: usize = 10_000;
