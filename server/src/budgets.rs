//! The sum of the memory budgets that do not grow with models, clients or rounds: docs/operations.md names them, so
//! that an operator knows what a coordinator takes besides.

use crate::coordinator::UPLOAD_MEMORY_DEFAULT;
use crate::db::RECENT_CLIENTS_BYTES_MAX;
use crate::guard::BODIES_BYTES_MAX;

/// Most memory of all of them together, in bytes. A new budget, or a larger one, must fit.
const ALL_BYTES_MAX: usize = 64 << 20;

#[test]
fn the_named_memory_budgets_fit_together_and_operators_are_told_of_each() {
    let told = include_str!("../../docs/operations.md");
    let (_, table) = told.split_once("| memory that does not grow | at most |").expect("the table of budgets");
    let (table, _) = table.split_once("\n\n").expect("the end of the table");
    let budgets = [
        ("updates that are arriving (`--upload-memory`)", UPLOAD_MEMORY_DEFAULT),
        ("JSON bodies above 8 KiB that are arriving", BODIES_BYTES_MAX),
        ("clients that authenticated lately (SQLite)", RECENT_CLIENTS_BYTES_MAX),
    ];
    let sum = budgets.iter().map(|(_, bytes)| bytes).sum();
    for (name, bytes) in budgets.into_iter().chain([("in all", sum)]) {
        let row = format!("| {name} | {} MiB |", bytes >> 20);
        assert!(table.contains(&row), "{row} is not in docs/operations.md");
    }
    assert_eq!(table.lines().filter(|line| line.starts_with("| ")).count(), budgets.len() + 1);
    assert!(sum <= ALL_BYTES_MAX, "{sum} bytes");
}
