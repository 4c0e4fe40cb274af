//! The handwritten digits that are part of this program.

use tributary_client::examples::{Column, CsvError, CsvOptions, CsvTarget, MemoryExamples, read_csv};

/// UCI digits; `cli/data/README.md` names source and licence.
pub const DIGITS_CSV_GZ: &[u8] = include_bytes!("../../data/digits.csv.gz");

/// All of them, with pixels from 0 to 1 in inputs of a shape of 64 values.
pub fn embedded_digits(input_shape: &[usize]) -> Result<MemoryExamples, CsvError> {
    let options = CsvOptions {
        has_header: false,
        target_column: Column::Last,
        target: CsvTarget::Class,
        input_scale: 1.0 / 16.0,
        input_shape: Some(input_shape.to_vec()),
        ..CsvOptions::default()
    };
    read_csv(flate2::read::GzDecoder::new(DIGITS_CSV_GZ), &options)
}

#[cfg(test)]
mod tests {
    use tributary_client::examples::Examples;

    use super::super::labels;
    use super::*;

    #[test]
    fn the_embedded_digits_are_complete_and_scaled() {
        let all = embedded_digits(&[64]).unwrap();
        assert_eq!(all.len(), 1797);
        let batch = all.batch(&(0..all.len()).collect::<Vec<_>>()).unwrap();
        let largest = batch.inputs.iter().copied().fold(0.0, f32::max);
        let smallest = batch.inputs.iter().copied().fold(1.0, f32::min);
        assert_eq!((smallest, largest), (0.0, 1.0));
        let labels = labels(&all).unwrap();
        assert!((0..10).all(|class| labels.iter().filter(|label| **label == class).count() > 170));
    }
}
