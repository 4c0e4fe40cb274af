//! What a client learns from: numbered examples, each an input and its targets. All inputs of a set have one shape.
//!
//! [`MemoryExamples`] holds them in memory; [`read_csv`] and [`read_idx_examples`] fill it from files. An app whose
//! data is elsewhere implements [`Examples`].

mod contract;
mod csv;
mod idx;
mod memory;

pub use self::contract::{Batch, Examples, ExamplesError, RawBatch, RawTargets, Targets};
pub use self::csv::{CSV_LINE_BYTES_MAX, Column, CsvError, CsvOptions, CsvProblem, CsvTarget, read_csv};
pub use self::idx::{IDX_BYTES_MAX, Idx, IdxError, IdxShape, read_idx, read_idx_examples};
pub use self::memory::MemoryExamples;
