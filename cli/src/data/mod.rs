//! Examples that the program brings, and what its clients and its demo do with examples alike.
//!
//! | file | content |
//! |---|---|
//! | [`digits`] | the embedded handwritten digits |
//! | [`partition`] | splits of examples among clients |

pub mod digits;
pub mod partition;

use tributary_client::examples::{Examples, MemoryExamples, Targets};

/// The attribute and value of the client that evaluates.
pub const EVALUATOR: (&str, &str) = ("role", "evaluator");

/// The class of each example; `None` unless each example has one class.
pub fn labels(examples: &MemoryExamples) -> Option<Vec<u32>> {
    match examples.targets() {
        Targets::Classes(classes) if classes.len() == examples.len() => Some(classes),
        _ => None,
    }
}
