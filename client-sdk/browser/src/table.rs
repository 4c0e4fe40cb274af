//! The rows from which the client answers analyses, as the page has given them for a session.

use std::collections::HashMap;
use std::sync::Mutex;

use js_sys::Array;
use tributary_client::{Cell, Locked, Table, TrainError};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::outcome::misused;

/// The values of a session's table, by the names of their columns.
#[derive(Debug, Default)]
#[wasm_bindgen]
pub struct BrowserTable(HashMap<String, Vec<Cell>>);

#[wasm_bindgen]
impl BrowserTable {
    /// No columns yet.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column: numbers, texts, and NaN for what is missing.
    ///
    /// # Errors
    /// A JavaScript error for a value of another type, and for a column of another length than those before.
    pub fn add(&mut self, name: String, values: &Array) -> Result<(), JsValue> {
        let cells: Result<Vec<Cell>, JsValue> = values.iter().map(|value| cell(&name, &value)).collect();
        let cells = cells?;
        if let Some((other, before)) = self.0.iter().find(|(_, before)| before.len() != cells.len()) {
            let (length, expected) = (cells.len(), before.len());
            return Err(misused(&format!("the column {name} has {length} values, and {other} has {expected}")));
        }
        self.0.insert(name, cells);
        Ok(())
    }
}

fn cell(column: &str, value: &JsValue) -> Result<Cell, JsValue> {
    match (value.as_f64(), value.as_string()) {
        (Some(number), _) if number.is_nan() => Ok(Cell::Missing),
        (Some(number), _) => Ok(Cell::Number(number)),
        (None, Some(text)) => Ok(Cell::Text(text)),
        (None, None) => Err(misused(&format!("a value of the column {column} is neither a number nor a text"))),
    }
}

/// The table of the session that runs.
#[derive(Debug, Default)]
pub(crate) struct PageTable(Mutex<BrowserTable>);

impl PageTable {
    pub(crate) fn set(&self, table: BrowserTable) {
        *self.0.locked() = table;
    }
}

impl Table for PageTable {
    fn rows(&self, columns: &[&str]) -> Result<Vec<Vec<Cell>>, TrainError> {
        let BrowserTable(held) = &*self.0.locked();
        let column = |name: &&str| {
            held.get(*name).ok_or_else(|| TrainError::DoesNotFit(format!("the page's table has no column {name}")))
        };
        let columns = columns.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let rows = columns.first().map_or(0, |column| column.len());
        Ok((0..rows).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect())
    }
}
