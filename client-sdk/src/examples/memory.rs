//! Examples in memory, which all subsets share.

use std::sync::Arc;

use super::contract::{Batch, Examples, ExamplesError, RawBatch, RawTargets, Targets};

/// Examples in memory. Clones and subsets share the data, so many clients in one process need it only once.
#[derive(Clone, Debug)]
pub struct MemoryExamples {
    data: Arc<Data>,
    /// Indices of these examples among those in `data`; `None` for all of them.
    chosen: Option<Arc<[usize]>>,
}

#[derive(Debug)]
struct Data {
    input_shape: Vec<usize>,
    /// Number of values of one input: the product of its shape.
    input_values: usize,
    inputs: Inputs,
    targets: Targets,
    /// Number of classes or values of one example.
    target_values: usize,
    examples: usize,
}

/// Images stay bytes, which take a quarter of the memory of `f32`.
#[derive(Debug)]
enum Inputs {
    Values(Vec<f32>),
    Bytes {
        bytes: Vec<u8>,
        divisor: f32,
    },
    /// Rows of a table, NaN where a value is missing, and its targets where they are numbers.
    Rows {
        values: Vec<f64>,
        numbers: Vec<f64>,
    },
}

impl MemoryExamples {
    /// Examples with `inputs` row by row: `[examples, ..input_shape]`.
    ///
    /// # Errors
    /// [`ExamplesError`] if shape, inputs and targets do not fit each other or a value is not finite.
    pub fn new(input_shape: Vec<usize>, inputs: Vec<f32>, targets: Targets) -> Result<Self, ExamplesError> {
        let each = values_of(&input_shape)?;
        if let Some(place) = inputs.iter().position(|value| !value.is_finite()) {
            return Err(ExamplesError::NotFinite(place / each));
        }
        let count = inputs.len();
        Self::of(input_shape, each, count, Inputs::Values(inputs), targets)
    }

    /// Examples whose inputs are bytes: the value of an input is `byte / divisor`.
    ///
    /// # Errors
    /// [`ExamplesError`] if shape, bytes and targets do not fit each other or the divisor is 0 or not finite.
    pub fn from_bytes(
        input_shape: Vec<usize>,
        bytes: Vec<u8>,
        divisor: f32,
        targets: Targets,
    ) -> Result<Self, ExamplesError> {
        let each = values_of(&input_shape)?;
        if !divisor.is_normal() {
            return Err(ExamplesError::NotFinite(0));
        }
        let count = bytes.len();
        Self::of(input_shape, each, count, Inputs::Bytes { bytes, divisor }, targets)
    }

    /// Rows of a table with `columns` raw values each, for jobs whose `[model.inputs]` scale them: numbers, codes of
    /// categories, days since 1970, NaN where a value is missing.
    ///
    /// # Errors
    /// [`ExamplesError`] if there are no columns, values and targets are not those of the same rows, or a value is
    /// infinite.
    pub fn from_rows(columns: usize, values: Vec<f64>, targets: RawTargets) -> Result<Self, ExamplesError> {
        let each = values_of(&[columns])?;
        if let Some(place) = values.iter().position(|value| value.is_infinite()) {
            return Err(ExamplesError::NotFinite(place / each));
        }
        let (count, numbers) = (values.len(), targets.numbers());
        Self::of(vec![columns], each, count, Inputs::Rows { values, numbers }, targets.narrowed())
    }

    fn of(
        input_shape: Vec<usize>,
        each: usize,
        count: usize,
        inputs: Inputs,
        targets: Targets,
    ) -> Result<Self, ExamplesError> {
        if !count.is_multiple_of(each) {
            return Err(ExamplesError::PartialInput { each, got: count });
        }
        let examples = count / each;
        let wrong_targets = Err(ExamplesError::WrongTargets { examples, got: targets.count() });
        let target_values = match &targets {
            Targets::Classes(classes) => classes.len().checked_div(examples).unwrap_or(1),
            Targets::Values { width, .. } => *width,
        };
        if target_values == 0 || target_values.checked_mul(examples) != Some(targets.count()) {
            return wrong_targets;
        }
        if let Targets::Values { values, width } = &targets
            && let Some(place) = values.iter().position(|value| !value.is_finite())
        {
            return Err(ExamplesError::NotFinite(place / width));
        }
        let data = Data { input_shape, input_values: each, inputs, targets, target_values, examples };
        Ok(Self { data: Arc::new(data), chosen: None })
    }

    /// The examples with these indices, in this order, without a copy of the data.
    ///
    /// # Errors
    /// [`ExamplesError::NoSuchExample`] if an index does not exist.
    pub fn subset(&self, indices: &[usize]) -> Result<Self, ExamplesError> {
        let chosen: Result<Arc<[usize]>, _> = indices.iter().map(|index| self.stored(*index)).collect();
        Ok(Self { data: Arc::clone(&self.data), chosen: Some(chosen?) })
    }

    /// The targets of all examples in order, to divide examples among clients by class.
    pub fn targets(&self) -> Targets {
        let stored: Vec<usize> = match &self.chosen {
            None => return self.data.targets.clone(),
            Some(chosen) => chosen.to_vec(),
        };
        self.data.targets_of(&stored)
    }

    /// The index in `data` of the example with this index.
    fn stored(&self, index: usize) -> Result<usize, ExamplesError> {
        let stored = match &self.chosen {
            Some(chosen) => chosen.get(index).copied(),
            None => (index < self.data.examples).then_some(index),
        };
        stored.ok_or(ExamplesError::NoSuchExample { index, len: self.len() })
    }
}

impl Examples for MemoryExamples {
    fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.data.examples, |chosen| chosen.len())
    }

    fn input_shape(&self) -> &[usize] {
        &self.data.input_shape
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, ExamplesError> {
        let stored: Vec<usize> = indices.iter().map(|index| self.stored(*index)).collect::<Result<_, _>>()?;
        Ok(Batch { inputs: self.data.inputs_of(&stored), targets: self.data.targets_of(&stored) })
    }

    fn raw(&self, indices: &[usize]) -> Result<Option<RawBatch>, ExamplesError> {
        let Inputs::Rows { values, numbers } = &self.data.inputs else { return Ok(None) };
        let stored: Vec<usize> = indices.iter().map(|index| self.stored(*index)).collect::<Result<_, _>>()?;
        let Data { input_values: columns, target_values: width, .. } = *self.data;
        let row = |index: &usize| &values[index * columns..(index + 1) * columns];
        let targets = match self.data.targets_of(&stored) {
            Targets::Classes(classes) => RawTargets::Classes(classes),
            Targets::Values { .. } => {
                let of = |index: &usize| &numbers[index * width..(index + 1) * width];
                RawTargets::Values { values: stored.iter().flat_map(of).copied().collect(), width }
            }
        };
        Ok(Some(RawBatch { inputs: stored.iter().flat_map(row).copied().collect(), targets }))
    }
}

impl Data {
    fn inputs_of(&self, stored: &[usize]) -> Vec<f32> {
        let mut inputs = Vec::with_capacity(stored.len() * self.input_values);
        for index in stored {
            let range = index * self.input_values..(index + 1) * self.input_values;
            match &self.inputs {
                Inputs::Values(values) => inputs.extend_from_slice(&values[range]),
                Inputs::Rows { values, .. } => inputs.extend(values[range].iter().map(|value| *value as f32)),
                Inputs::Bytes { bytes, divisor } => {
                    inputs.extend(bytes[range].iter().map(|byte| f32::from(*byte) / divisor));
                }
            }
        }
        inputs
    }

    fn targets_of(&self, stored: &[usize]) -> Targets {
        let range = |index: &usize| index * self.target_values..(index + 1) * self.target_values;
        match &self.targets {
            Targets::Classes(classes) => {
                Targets::Classes(stored.iter().flat_map(|index| &classes[range(index)]).copied().collect())
            }
            Targets::Values { values, width } => {
                let values = stored.iter().flat_map(|index| &values[range(index)]).copied().collect();
                Targets::Values { values, width: *width }
            }
        }
    }
}

/// Number of values of one input of this shape.
fn values_of(input_shape: &[usize]) -> Result<usize, ExamplesError> {
    let product = input_shape.iter().try_fold(1usize, |count, length| count.checked_mul(*length));
    match product {
        Some(values) if values > 0 && !input_shape.is_empty() => Ok(values),
        _ => Err(ExamplesError::BadShape(input_shape.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> MemoryExamples {
        let inputs = (0..8).map(|value| value as f32).collect();
        MemoryExamples::new(vec![2], inputs, Targets::Classes(vec![0, 1, 2, 3])).unwrap()
    }

    #[test]
    fn rows_keep_their_places_and_missing_values() {
        let classes = RawTargets::Classes(vec![0, 1, 0]);
        let rows = MemoryExamples::from_rows(2, vec![1.0, f64::NAN, 1.7e9, 2.0, 3.0, 4.0], classes).unwrap();
        let two = rows.subset(&[2, 1]).unwrap();
        let raw = two.raw(&[1]).unwrap().unwrap();
        assert_eq!((raw.inputs, raw.targets), (vec![1.7e9, 2.0], RawTargets::Classes(vec![1])));
        assert!(two.raw(&[2]).is_err());
        assert!(rows.raw(&[0]).unwrap().unwrap().inputs[1].is_nan());
        let numbers = RawTargets::Values { values: vec![0.1, 0.2], width: 1 };
        let numbers = MemoryExamples::from_rows(1, vec![1.0, 2.0], numbers).unwrap();
        assert_eq!(numbers.raw(&[1]).unwrap().unwrap().targets, RawTargets::Values { values: vec![0.2], width: 1 });
        assert_eq!(four().raw(&[0]).unwrap(), None);
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let values = |values: &[f64]| RawTargets::Values { values: values.to_vec(), width: 1 };
        let refused = |columns, rows: &[f64], targets: &[f64]| {
            MemoryExamples::from_rows(columns, rows.to_vec(), values(targets)).unwrap_err()
        };
        assert!(matches!(refused(0, &[], &[]), ExamplesError::BadShape(_)));
        assert!(matches!(refused(2, &[1.0], &[1.0]), ExamplesError::PartialInput { .. }));
        assert!(matches!(refused(1, &[1.0], &[]), ExamplesError::WrongTargets { .. }));
        assert!(matches!(refused(1, &[1.0], &[f64::NAN]), ExamplesError::NotFinite(0)));
        assert!(matches!(refused(1, &[f64::INFINITY], &[1.0]), ExamplesError::NotFinite(0)));
    }

    #[test]
    fn a_batch_has_the_examples_in_the_order_asked_for() {
        let batch = four().batch(&[2, 0, 2]).unwrap();
        assert_eq!(batch.inputs, [4.0, 5.0, 0.0, 1.0, 4.0, 5.0]);
        assert_eq!(batch.targets, Targets::Classes(vec![2, 0, 2]));
    }

    #[test]
    fn a_subset_of_a_subset_counts_from_0_and_shares_the_data() {
        let all = four();
        let subset = all.subset(&[3, 1, 0]).unwrap().subset(&[2, 0]).unwrap();
        assert_eq!(subset.len(), 2);
        assert_eq!(subset.targets(), Targets::Classes(vec![0, 3]));
        assert_eq!(subset.batch(&[1]).unwrap().inputs, [6.0, 7.0]);
        assert!(Arc::ptr_eq(&all.data, &subset.data));
        assert_eq!(subset.batch(&[2]), Err(ExamplesError::NoSuchExample { index: 2, len: 2 }));
        assert_eq!(all.subset(&[4]).unwrap_err(), ExamplesError::NoSuchExample { index: 4, len: 4 });
    }

    #[test]
    fn bytes_mean_their_quotient() {
        let targets = Targets::Values { values: vec![1.0, 2.0, 3.0, 4.0], width: 2 };
        let examples = MemoryExamples::from_bytes(vec![1, 1, 2], vec![0, 255, 51, 102], 255.0, targets).unwrap();
        let batch = examples.batch(&[1, 0]).unwrap();
        assert_eq!(batch.inputs, [0.2, 0.4, 0.0, 1.0]);
        assert_eq!(batch.targets, Targets::Values { values: vec![3.0, 4.0, 1.0, 2.0], width: 2 });
    }

    #[test]
    fn a_sequence_may_have_a_class_for_each_position() {
        let examples = MemoryExamples::new(vec![3], vec![0.0; 6], Targets::Classes(vec![1, 2, 3, 4, 5, 6])).unwrap();
        assert_eq!(examples.len(), 2);
        assert_eq!(examples.batch(&[1]).unwrap().targets, Targets::Classes(vec![4, 5, 6]));
    }

    #[test]
    fn lengths_that_do_not_fit_and_values_that_are_not_finite_are_refused() {
        let refused = |shape: Vec<usize>, inputs: Vec<f32>, targets| {
            MemoryExamples::new(shape, inputs, targets).expect_err("must be refused")
        };
        let classes = |count: usize| Targets::Classes(vec![0; count]);
        for shape in [vec![], vec![0], vec![usize::MAX, 3]] {
            assert_eq!(refused(shape.clone(), vec![0.0], classes(1)), ExamplesError::BadShape(shape));
        }
        assert_eq!(refused(vec![2], vec![0.0; 3], classes(1)), ExamplesError::PartialInput { each: 2, got: 3 });
        for got in [0, 1, 3] {
            let error = refused(vec![2], vec![0.0; 4], classes(got));
            assert_eq!(error, ExamplesError::WrongTargets { examples: 2, got });
        }
        let values = |values: Vec<f32>, width| Targets::Values { values, width };
        for (given, width) in [(vec![0.0; 4], 3), (vec![], 0), (vec![0.0; 4], usize::MAX)] {
            let got = given.len();
            let error = refused(vec![2], vec![0.0; 4], values(given, width));
            assert_eq!(error, ExamplesError::WrongTargets { examples: 2, got });
        }
        assert_eq!(refused(vec![1], vec![0.0, f32::NAN], classes(2)), ExamplesError::NotFinite(1));
        assert_eq!(refused(vec![1], vec![0.0; 2], values(vec![0.0, f32::INFINITY], 1)), ExamplesError::NotFinite(1));
        assert!(MemoryExamples::from_bytes(vec![1], vec![1], 0.0, classes(1)).is_err());
    }

    #[test]
    fn no_examples_are_examples_too() {
        let examples = MemoryExamples::new(vec![2], vec![], Targets::Classes(vec![])).unwrap();
        assert!(examples.is_empty());
    }
}
