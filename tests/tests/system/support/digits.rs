//! The handwritten digits that the program embeds.

use tributary_client::examples::{Column, CsvOptions, CsvTarget, MemoryExamples, read_csv};

const DIGITS: &[u8] = include_bytes!("../../../../cli/data/digits.csv.gz");

/// All of them: 64 values from 0 to 1, and a class.
pub(crate) fn digits() -> MemoryExamples {
    let options = CsvOptions {
        has_header: false,
        target_column: Column::Last,
        target: CsvTarget::Class,
        input_scale: 1.0 / 16.0,
        input_shape: Some(vec![64]),
        ..CsvOptions::default()
    };
    read_csv(flate2::read::GzDecoder::new(DIGITS), &options).unwrap()
}
