//! Calls of C from a table that answers analyses.

use std::ffi::{CString, c_char};
use std::ptr;

use super::callbacks::{FromC, returned};
use super::status::{TributaryStatus, c_text, call, text, values};
use super::types::{TributaryRows, TributaryTable, TributaryValue};
use crate::errors::{TrainerError, TributaryError};
use crate::table::{Cell, Table};

/// Adds a row: as many values as there are columns, in their order; the `column` of a value may be null. A table calls
/// it.
///
/// # Safety
/// The rows are null or those of the callback, there are as many values as the count says, and texts end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_row(
    rows: *mut TributaryRows,
    row: *const TributaryValue,
    count: usize,
) -> TributaryStatus {
    // SAFETY: the caller promises what the functions ask for.
    call(|| unsafe {
        let rows = rows.as_mut().ok_or_else(|| TributaryError::bad_input("rows is null"))?;
        let cell = |value: &TributaryValue| {
            Ok(match value.text.is_null() {
                true if value.number.is_nan() => Cell::Missing,
                true => Cell::Number { value: value.number },
                false => match text("a value's text", value.text)? {
                    empty if empty.is_empty() => Cell::Missing,
                    value => Cell::Text { value },
                },
            })
        };
        let cells: Result<_, TributaryError> = values("row", row, count)?.iter().map(cell).collect();
        rows.0.push(cells?);
        Ok(())
    })
}

impl Table for FromC<TributaryTable> {
    fn rows(&self, columns: Vec<String>) -> Result<Vec<Vec<Cell>>, TrainerError> {
        let TributaryTable { context, rows } = self.0;
        let missing = || TrainerError::Other { detail: "the table has no function `rows`".to_owned() };
        let ask = rows.ok_or_else(missing)?;
        let texts: Vec<CString> = columns.iter().map(|name| c_text(name)).collect();
        let names: Vec<*const c_char> = texts.iter().map(|name| name.as_ptr()).collect();
        let mut told = TributaryRows(Vec::new());
        // SAFETY: the app gave this function for this context; names and rows outlive the call.
        match unsafe { ask(context, names.as_ptr(), names.len(), ptr::from_mut(&mut told)) } {
            status if status == TributaryStatus::Ok as i32 => Ok(told.0),
            status if status == TributaryStatus::DoesNotFit as i32 => {
                Err(TrainerError::DoesNotFit { detail: format!("the table lacks one of {}", columns.join(", ")) })
            }
            status => Err(returned("table", status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, c_void};
    use std::ptr::{null, null_mut};

    use super::super::tests::refused;
    use super::*;

    /// A table with the columns `age` and `word`, which has a row of each kind of value.
    unsafe extern "C" fn answers(
        _: *mut c_void,
        columns: *const *const c_char,
        count: usize,
        rows: *mut TributaryRows,
    ) -> i32 {
        // SAFETY: the SDK passes as many names as it says.
        let names = unsafe { std::slice::from_raw_parts(columns, count) };
        // SAFETY: each of them ends with a zero.
        if names.iter().any(|name| ![c"age", c"word"].contains(&unsafe { CStr::from_ptr(*name) })) {
            return TributaryStatus::DoesNotFit as i32;
        }
        let number = |number| TributaryValue { column: null(), text: null(), number };
        let word = |text: &CStr| TributaryValue { column: null(), text: text.as_ptr(), number: 0.0 };
        for row in [[number(4.5), word(c"tea")], [number(f64::NAN), word(c"")]] {
            // SAFETY: the row lives as long as the call.
            assert_eq!(unsafe { tributary_row(rows, row.as_ptr(), row.len()) }, TributaryStatus::Ok);
        }
        TributaryStatus::Ok as i32
    }

    #[test]
    fn a_table_in_c_answers_with_numbers_texts_and_what_is_missing() {
        let table = |rows| FromC(TributaryTable { context: null_mut(), rows });
        let asked = |columns: &[&str]| columns.iter().map(|name| (*name).to_owned()).collect();
        let rows = table(Some(answers)).rows(asked(&["age", "word"])).unwrap();
        let tea = Cell::Text { value: "tea".to_owned() };
        assert_eq!(rows, [vec![Cell::Number { value: 4.5 }, tea], vec![Cell::Missing, Cell::Missing]]);
        let unknown = table(Some(answers)).rows(asked(&["age", "height"]));
        assert!(matches!(unknown, Err(TrainerError::DoesNotFit { detail }) if detail.contains("age, height")));
        assert!(matches!(table(None).rows(asked(&["age"])), Err(TrainerError::Other { .. })));
        // SAFETY: null is refused.
        unsafe { refused(tributary_row(null_mut(), null(), 0), "rows is null") };
    }
}
