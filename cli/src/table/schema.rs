//! Tables that a job's `[model.inputs]` describes: columns by name, whatever their order.
//!
//! A table that does not have the job's columns is refused before its client enrols, with the name of the column or
//! label: columns that only have the right number would train, and ruin the model of all.

use std::collections::BTreeMap;

use tributary_client::examples::{MemoryExamples, RawTargets};
use tributary_client::inputs::days;
use tributary_protocol::inputs::{Column, ColumnKind, Inputs, MissingValues, Target};

use super::columns::is_missing;
use super::error::TableError;
use super::schema_error::{SchemaError, ValueProblem, shown};
use crate::suggest::nearest;

/// How a table is read by a job's columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchemaOptions {
    /// The name in the table of a column of the job, where it is another one.
    pub(crate) names: BTreeMap<String, String>,
    /// Columns of the table that are left out.
    pub(crate) ignored: Vec<String>,
    /// Lines with a missing value that the job does not replace are left out.
    pub(crate) drops_missing: bool,
    /// Whether the table must have the target, and no columns that nobody named.
    pub(crate) is_for_training: bool,
    /// Whether the file is Parquet whatever its name is.
    pub(crate) is_parquet: bool,
}

/// Raw rows, in the order of the job's columns.
#[derive(Debug)]
pub(crate) struct RawTable {
    /// Row by row; NaN where a value is missing and the job replaces it.
    pub(crate) values: Vec<f64>,
    /// None if the table has no target.
    pub(crate) targets: Option<RawTargets>,
    /// What was left out, as sentences.
    pub(crate) notes: Vec<String>,
}

/// A table while it is read by a job's columns.
pub(super) struct SchemaRows<'a> {
    inputs: &'a Inputs,
    options: &'a SchemaOptions,
    /// For each column of the table, what it is; none before the header.
    places: Option<Vec<Place>>,
    values: Vec<f64>,
    classes: Vec<u32>,
    numbers: Vec<f64>,
    has_target: bool,
    dropped: u64,
    line: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Column(usize),
    Target,
    Ignored,
}

impl<'a> SchemaRows<'a> {
    pub(super) fn new(inputs: &'a Inputs, options: &'a SchemaOptions) -> Self {
        Self {
            inputs,
            options,
            places: None,
            values: Vec::new(),
            classes: Vec::new(),
            numbers: Vec::new(),
            has_target: false,
            dropped: 0,
            line: Vec::new(),
        }
    }

    /// Takes the header, then a line of values.
    pub(super) fn push_record(&mut self, record: &csv::StringRecord) -> Result<(), TableError> {
        let line = record.position().map_or(0, csv::Position::line);
        match self.places {
            None => self.header(record.iter())?,
            Some(_) => self.push(line, record.iter())?,
        }
        Ok(())
    }

    /// Takes the first line, the names of the columns.
    fn header<'h>(&mut self, names: impl Iterator<Item = &'h str>) -> Result<(), SchemaError> {
        let names: Vec<String> = names.map(str::to_owned).collect();
        let target = self.inputs.target.as_ref();
        let known =
            || self.inputs.columns.iter().map(|column| column.name.as_str()).chain(target.map(|it| it.name.as_str()));
        if let Some(name) = self.options.names.keys().find(|name| !known().any(|known| known == name.as_str())) {
            return Err(SchemaError::BadMap { name: name.clone(), known: known().map(str::to_owned).collect() });
        }
        if !names
            .iter()
            .any(|name| known().any(|known| known == name) || self.options.names.values().any(|own| own == name))
        {
            return Err(SchemaError::NoHeader(known().map(str::to_owned).collect()));
        }
        let own = |name: &str| self.options.names.get(name).cloned().unwrap_or_else(|| name.to_owned());
        let mut places = vec![None; names.len()];
        for (at, name) in known().enumerate() {
            let wanted = own(name);
            let mut found = names.iter().enumerate().filter(|(_, name)| **name == wanted).map(|(place, _)| place);
            let is_target = at == self.inputs.columns.len();
            match (found.next(), found.next()) {
                (Some(place), None) => places[place] = Some(if is_target { Place::Target } else { Place::Column(at) }),
                (Some(_), Some(_)) => return Err(SchemaError::Repeated(shown(&wanted))),
                (None, _) if is_target && !self.options.is_for_training => {}
                (None, _) => {
                    let nearest = nearest(&wanted, names.iter().map(String::as_str)).map(shown);
                    return Err(SchemaError::MissingColumn { name: shown(name), nearest });
                }
            }
        }
        let is_ignored = |name: &String| !self.options.is_for_training || self.options.ignored.contains(name);
        for (place, name) in places.iter_mut().zip(&names).filter(|(place, _)| place.is_none()) {
            if !is_ignored(name) {
                return Err(SchemaError::Unknown(shown(name)));
            }
            *place = Some(Place::Ignored);
        }
        let places: Vec<Place> = places.into_iter().flatten().collect();
        self.has_target = places.contains(&Place::Target);
        self.places = Some(places);
        Ok(())
    }

    /// Takes a line of values, which has as many as the header.
    fn push<'f>(&mut self, line: u64, fields: impl Iterator<Item = &'f str>) -> Result<(), SchemaError> {
        let Some(places) = &self.places else { return Ok(()) };
        self.line.clear();
        self.line.resize(self.inputs.columns.len(), f64::NAN);
        let mut aim = None;
        for (place, text) in places.iter().zip(fields) {
            let (name, read) = match (place, &self.inputs.target) {
                (Place::Column(at), _) => {
                    let column = &self.inputs.columns[*at];
                    (&column.name, value(column, text).map(|value| self.line[*at] = value))
                }
                (Place::Target, Some(target)) => (&target.name, aimed(target, text).map(|read| aim = Some(read))),
                _ => continue,
            };
            match read {
                Ok(()) => {}
                Err(ValueProblem::Missing) if self.options.drops_missing => {
                    self.dropped += 1;
                    return Ok(());
                }
                Err(problem) => return Err(SchemaError::Field { line, column: shown(name), problem }),
            }
        }
        self.values.extend_from_slice(&self.line);
        match aim {
            Some(Aim::Class(class)) => self.classes.push(class),
            Some(Aim::Number(number)) => self.numbers.push(number),
            None => {}
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<RawTable, TableError> {
        if self.values.is_empty() {
            return Err(TableError::Empty);
        }
        let mut notes = Vec::new();
        if self.dropped > 0 {
            notes.push(format!("left out for missing values: {} of the lines", self.dropped));
        }
        let is_number = self.inputs.target.as_ref().is_some_and(Target::is_number);
        let targets = match is_number {
            true => RawTargets::Values { values: self.numbers, width: 1 },
            false => RawTargets::Classes(self.classes),
        };
        let targets = self.has_target.then_some(targets);
        Ok(RawTable { values: self.values, targets, notes })
    }
}

impl RawTable {
    /// The rows as examples to learn from.
    pub(crate) fn examples(self, inputs: &Inputs) -> Result<MemoryExamples, tributary_client::examples::ExamplesError> {
        let targets = self.targets.unwrap_or_else(|| RawTargets::Classes(Vec::new()));
        MemoryExamples::from_rows(inputs.columns.len(), self.values, targets)
    }
}

enum Aim {
    Class(u32),
    Number(f64),
}

/// The raw value of a field; NaN for a missing one that the job replaces.
fn value(column: &Column, text: &str) -> Result<f64, ValueProblem> {
    // A category may be called "none".
    if let (ColumnKind::Category, Some(code)) = (column.kind, column.categories.iter().position(|known| known == text))
    {
        return Ok(code as f64);
    }
    if is_missing(text) {
        return if column.missing == MissingValues::Replace { Ok(f64::NAN) } else { Err(ValueProblem::Missing) };
    }
    let value = match column.kind {
        ColumnKind::Number => number(text)?,
        ColumnKind::Date => days(text).ok_or_else(|| ValueProblem::NotADate(shown(text)))?,
        ColumnKind::Category => {
            return Err(ValueProblem::NotACategory { value: shown(text), known: column.categories.clone() });
        }
    };
    match column.range {
        Some([low, high]) if !(low..=high).contains(&value) => Err(ValueProblem::Range { value, low, high }),
        _ => Ok(value),
    }
}

fn aimed(target: &Target, text: &str) -> Result<Aim, ValueProblem> {
    let class = target.classes.iter().position(|class| class == text);
    if let Some(class) = class.and_then(|class| u32::try_from(class).ok()) {
        return Ok(Aim::Class(class));
    }
    if is_missing(text) {
        return Err(ValueProblem::Missing);
    }
    if target.is_number() {
        return number(text).map(Aim::Number);
    }
    Err(ValueProblem::UnknownLabel { label: shown(text), known: target.classes.clone() })
}

fn number(text: &str) -> Result<f64, ValueProblem> {
    let number = text.parse::<f64>().ok().filter(|value| value.is_finite());
    number.ok_or_else(|| ValueProblem::NotANumber(shown(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{CliError, read_by_schema};

    fn inputs() -> Inputs {
        serde_json::from_value(serde_json::json!({
            "standardize": "federated",
            "columns": [
                { "name": "age", "unit": "years", "range": [0.0, 120.0] },
                { "name": "cells", "missing": "replace" },
                { "name": "ward", "kind": "category", "categories": ["east", "west", "none"] },
                { "name": "admitted", "kind": "date" },
            ],
            "target": { "name": "stays", "classes": ["no", "yes"] },
        }))
        .unwrap()
    }

    fn read(text: &str, options: &SchemaOptions) -> Result<RawTable, CliError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        read_by_schema(&path, &inputs(), None, options)
    }

    fn training() -> SchemaOptions {
        SchemaOptions { is_for_training: true, ..SchemaOptions::default() }
    }

    const GOOD: &str = "stays,ward,age,admitted,cells\nyes,west,40,1970-01-03,5e6\nno,none,0,1970-01-01T12:00:00,NA\n";

    #[test]
    fn lines_are_counted_whatever_ends_them() {
        for end in ["\n", "\r\n"] {
            let text = (GOOD.to_owned() + "no,west,old,1970-01-01,1\n").replace('\n', end);
            let refused = read(&text, &training()).unwrap_err().to_string();
            assert!(refused.contains("line 4: column age: \"old\""), "{refused}");
        }
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        let table = read(GOOD, &training()).unwrap();
        assert_eq!(table.values[..5], [40.0, 5e6, 1.0, 2.0, 0.0]);
        assert!(table.values[5].is_nan() && table.values[7] == 0.5);
        assert_eq!(table.targets, Some(RawTargets::Classes(vec![1, 0])));
        let semicolons = GOOD.replace(',', ";");
        assert_eq!(read(&semicolons, &training()).unwrap().targets, table.targets);
    }

    #[test]
    fn other_names_and_further_columns_are_told() {
        let text = "note,stays,ward,years,admitted,cells\nx,yes,west,40,1970-01-03,5e6\nx,no,none,0,1970-01-01,NA\n";
        let options = SchemaOptions {
            names: BTreeMap::from([("age".to_owned(), "years".to_owned())]),
            ignored: vec!["note".to_owned()],
            ..training()
        };
        assert_eq!(read(text, &options).unwrap().values[0], 40.0);
        let predicting = SchemaOptions { names: options.names, ..SchemaOptions::default() };
        let table = read(&text.replace("stays", "whatever"), &predicting).unwrap();
        assert_eq!((table.targets, table.values.len()), (None, 8), "the target and the note are not needed");
    }

    #[test]
    fn every_mistake_has_a_message_that_says_what_to_do() {
        let told = |text: &str| {
            let error = read(text, &training()).unwrap_err();
            format!("{error} | {}", error.hint().unwrap_or_default())
        };
        let changed = |from: &str, to: &str| told(&GOOD.replacen(from, to, 1));
        for (said, expected) in [
            (
                told("40,5e6,west,1970-01-03,yes\n1,2,east,1970-01-03,no\n"),
                "no header, and the job knows columns by name: age, cells",
            ),
            (told(""), "there is no example in it"),
            (told("stays,ward,age,admitted,cells\n"), "there is no example in it"),
            (changed("age", "aeg"), "no column \"age\" | is it the column \"aeg\"? --map age=aeg"),
            (changed("cells", "leukocytes"), "no column \"cells\" | --map cells=COLUMN names the column"),
            (changed("stays", "left"), "no column \"stays\""),
            (changed("stays,", "age,"), "the column \"age\" is there twice | give one of them another name"),
            (changed("stays,ward", "stays,ward,ward"), "the column \"ward\" is there twice"),
            (
                told("stays,ward,age,admitted,cells,id\nyes,west,40,1970-01-03,5e6,7\n"),
                "the job has no column \"id\" | --ignore id",
            ),
            (changed(",40,", ",forty,"), "line 2: column age: \"forty\" is not a number"),
            (changed(",40,", ",inf,"), "line 2: column age: \"inf\" is not a number"),
            (changed(",40,", ",121,"), "line 2: column age: 121 is outside of 0 to 120 | is it in the job's unit?"),
            (changed(",40,", ",-1,"), "line 2: column age: -1 is outside of 0 to 120"),
            (changed(",40,", ",,"), "line 2: column age: the value is missing | --missing drop"),
            (changed(",40,", ",NA,"), "line 2: column age: the value is missing"),
            (changed(",40,", ",?,"), "line 2: column age: the value is missing"),
            (
                changed("west", "North"),
                "line 2: column ward: \"North\" is none of east, west, none | the job's file lists",
            ),
            (changed("west", "West"), "line 2: column ward: \"West\" is none of"),
            (changed("west", ""), "line 2: column ward: the value is missing"),
            (
                changed("1970-01-03", "03.01.1970"),
                "line 2: column admitted: \"03.01.1970\" is not a date, such as 2026-11-25",
            ),
            (changed("1970-01-03", "1970-02-30"), "is not a date"),
            (changed("1970-01-03", "1970-01-03T25:00:00"), "is not a date"),
            (changed("1970-01-03", ""), "line 2: column admitted: the value is missing"),
            (changed("5e6", "many"), "line 2: column cells: \"many\" is not a number"),
            (changed("yes", "Yes"), "line 2: column stays: \"Yes\" is none of the job's classes no, yes"),
            (changed("yes", "1"), "\"1\" is none of the job's classes"),
            (changed("yes", ""), "line 2: column stays: the value is missing"),
            (changed("40,", ""), "found record with 4 fields"),
            (changed("yes", "\"yes"), "fields"),
            (changed("yes", "\u{1b}[2J"), "\u{fffd}[2J"),
        ] {
            assert!(said.contains(expected), "{said}");
        }
        let mapped = SchemaOptions { names: BTreeMap::from([("agee".into(), "age".into())]), ..training() };
        let told = read(GOOD, &mapped).unwrap_err().to_string();
        assert!(told.contains("--map names \"agee\", which is no column of the job: those are age, cells"), "{told}");
    }

    #[test]
    fn lines_with_missing_values_can_be_left_out() {
        let text = GOOD.replacen(",40,", ",,", 1);
        let table = read(&text, &SchemaOptions { drops_missing: true, ..training() }).unwrap();
        assert_eq!(
            (table.values.len(), table.notes),
            (4, vec!["left out for missing values: 1 of the lines".to_owned()])
        );
    }
}
