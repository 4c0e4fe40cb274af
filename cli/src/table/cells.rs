//! The raw values of a table, column by column, from which a client answers analyses.

use std::collections::BTreeMap;

use tributary_client::Cell;

use super::error::TableError;
use super::schema_error::SchemaError;
use crate::suggest::nearest;

/// Reads the values of some columns.
pub(super) struct Cells<'a> {
    columns: &'a [&'a str],
    /// The name in the table of a column, where it is another one.
    names: &'a BTreeMap<String, String>,
    /// Where each column stands, once the header was read.
    places: Option<Vec<usize>>,
    rows: Vec<Vec<Cell>>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(columns: &'a [&'a str], names: &'a BTreeMap<String, String>) -> Self {
        Self { columns, names, places: None, rows: Vec::new() }
    }

    /// Takes the next line; the first one has the names of the columns.
    pub(super) fn push(&mut self, record: &csv::StringRecord) -> Result<(), TableError> {
        match &self.places {
            None => self.places = Some(self.header(record)?),
            Some(places) => {
                let cell = |place: &usize| match record.get(*place).unwrap_or_default() {
                    "" => Cell::Missing,
                    text => Cell::from(text),
                };
                self.rows.push(places.iter().map(cell).collect());
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<Vec<Cell>> {
        self.rows
    }

    fn header(&self, record: &csv::StringRecord) -> Result<Vec<usize>, SchemaError> {
        let place = |column: &&str| {
            let wanted = self.names.get(*column).map_or(*column, String::as_str);
            let mut found = record.iter().enumerate().filter(|(_, name)| *name == wanted).map(|(place, _)| place);
            match (found.next(), found.next()) {
                (Some(place), None) => Ok(place),
                (Some(_), Some(_)) => Err(SchemaError::Repeated(wanted.to_owned())),
                (None, _) => {
                    let nearest = nearest(wanted, record.iter()).map(str::to_owned);
                    Err(SchemaError::MissingColumn { name: (*column).to_owned(), nearest })
                }
            }
        };
        self.columns.iter().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(columns: &[&str], names: &[(&str, &str)]) -> Result<Vec<Vec<Cell>>, String> {
        let names = names.iter().map(|(name, own)| ((*name).to_owned(), (*own).to_owned())).collect();
        let mut cells = Cells::new(columns, &names);
        for line in [["id", "years", "pet"], ["1", "40", "cat"], ["2", "", "dog"]] {
            cells.push(&csv::StringRecord::from(line.to_vec())).map_err(|error| error.to_string())?;
        }
        Ok(cells.finish())
    }

    #[test]
    fn columns_are_read_by_their_names() {
        let rows = read(&["pet", "age"], &[("age", "years")]).unwrap();
        assert_eq!(rows, [vec!["cat".into(), "40".into()], vec!["dog".into(), Cell::Missing]]);
        assert!(read(&["age"], &[]).unwrap_err().contains("no column \"age\""));
    }
}
