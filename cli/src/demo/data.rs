//! The examples of a demo: those that the clients train on, and those that the evaluator holds out.

use tributary_client::examples::{Examples, ExamplesError, MemoryExamples};
use tributary_protocol::seed::Seed;

use crate::data::digits::embedded_digits;

/// Fraction of the digits that is held out.
const HELD_OUT: f64 = 0.2;

#[derive(Clone, Debug)]
pub struct DemoData {
    /// To be split among the clients.
    pub train: MemoryExamples,
    /// For the evaluator.
    pub test: MemoryExamples,
    /// The training examples of each client, where the data come with them.
    pub split: Option<Vec<Vec<usize>>>,
}

/// The embedded handwritten digits, with pixels from 0 to 1 in inputs of a shape of 64 values. A fifth, drawn by the
/// seed, is held out.
pub fn digits(input_shape: &[usize], seed: Seed) -> DemoData {
    let all = embedded_digits(input_shape).expect("a test reads the embedded digits, and both shapes have 64 values");
    let mut order: Vec<usize> = (0..all.len()).collect();
    seed.derive("held out", 0).stream().shuffle(&mut order);
    let (test, train) = order.split_at((all.len() as f64 * HELD_OUT) as usize);
    let subset = |chosen: &[usize]| all.subset(chosen).expect("the numbers are those of the examples");
    DemoData { train: subset(train), test: subset(test), split: None }
}

/// The examples of each client, from the indices of a split.
pub fn of_clients(train: &MemoryExamples, split: &[Vec<usize>]) -> Result<Vec<MemoryExamples>, ExamplesError> {
    split.iter().map(|examples| train.subset(examples)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::labels;

    #[test]
    fn a_fifth_is_held_out_and_never_trained_on() {
        let data = digits(&[1, 8, 8], Seed(7));
        assert_eq!((data.train.len(), data.test.len()), (1438, 359));
        assert_eq!(data.test.input_shape(), [1, 8, 8]);
        let inputs = |examples: &MemoryExamples| -> Vec<Vec<u32>> {
            let bits = |index| examples.batch(&[index]).unwrap().inputs.iter().map(|value| value.to_bits()).collect();
            (0..examples.len()).map(bits).collect()
        };
        let trained: std::collections::HashSet<_> = inputs(&data.train).into_iter().collect();
        assert!(inputs(&data.test).iter().all(|input| !trained.contains(input)));
        assert_eq!(labels(&digits(&[64], Seed(7)).test), labels(&data.test));
        assert_ne!(labels(&digits(&[64], Seed(8)).test), labels(&data.test));
    }

    #[test]
    fn clients_get_the_examples_that_the_split_names() {
        let data = digits(&[64], Seed(7));
        let clients = of_clients(&data.train, &[vec![0, 2], vec![1]]).unwrap();
        let all = labels(&data.train).unwrap();
        assert_eq!(labels(&clients[0]).unwrap(), [all[0], all[2]]);
        assert_eq!(clients[1].len(), 1);
    }
}
