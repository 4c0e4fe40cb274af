//! A trainer that trains on one part of its examples and evaluates on the other.

use tributary_client::examples::{Examples, ExamplesError, MemoryExamples};
use tributary_client::{DescribeTask, Description, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::inputs::Inputs;
use tributary_protocol::plan::Algorithm;
use tributary_protocol::seed::Seed;

use super::compute::Compute;

/// Draws which examples are held out. It is the same in all runs: nothing that was held out is trained on later.
const SEED: Seed = Seed(0x7e57);
/// Resolution of the fraction.
const PARTS: u64 = 1 << 20;

/// Accuracies of a model on the examples that it was trained on say little.
pub(super) struct HeldOut {
    examples: u64,
    train: Box<dyn Trainer>,
    /// `None`: nothing is held out, and both tasks use all examples.
    evaluate: Option<Box<dyn Trainer>>,
    /// By which a job's columns were applied.
    schema: Option<Sha256Hash>,
}

impl HeldOut {
    /// Holds out about this fraction of the examples.
    pub(super) fn new(examples: MemoryExamples, fraction: f64, compute: &Compute) -> Result<Self, ExamplesError> {
        let (train, test) = split(&examples, fraction)?;
        Ok(Self::of(train, (!test.is_empty()).then_some(test), compute))
    }

    /// Trains on these examples, and evaluates on those.
    pub(super) fn of(train: MemoryExamples, test: Option<MemoryExamples>, compute: &Compute) -> Self {
        Self {
            examples: train.len() as u64,
            train: compute.trainer(train),
            evaluate: test.map(|test| compute.trainer(test)),
            schema: None,
        }
    }

    /// The same for a table that was read by a job's columns.
    pub(super) fn set_schema(&mut self, schema: Option<Sha256Hash>) {
        self.schema = schema;
    }

    /// Refuses a job whose columns were not applied: the table's own order may be another one.
    fn require_schema(&self, inputs: Option<&Inputs>) -> Result<(), TrainError> {
        let wanted = inputs.filter(|inputs| !inputs.columns.is_empty()).map(Inputs::schema_hash);
        match wanted {
            Some(wanted) if self.schema != Some(wanted) => Err(TrainError::DoesNotFit(
                "the table was read before this job named its columns: start the client again".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

/// Splits examples into those to train on and those to evaluate on. Each is drawn by its index, so that examples which
/// are appended to a table later change nothing for the earlier ones.
pub(super) fn split(
    examples: &MemoryExamples,
    fraction: f64,
) -> Result<(MemoryExamples, MemoryExamples), ExamplesError> {
    let limit = (fraction * PARTS as f64) as u64;
    let is_held_out = |index: &usize| SEED.derive("held out", *index as u64).stream().below(PARTS) < limit;
    let (test, train): (Vec<usize>, Vec<usize>) = (0..examples.len()).partition(is_held_out);
    if train.is_empty() {
        Ok((examples.clone(), examples.subset(&[])?))
    } else {
        Ok((examples.subset(&train)?, examples.subset(&test)?))
    }
}

impl Trainer for HeldOut {
    fn examples(&self) -> u64 {
        self.examples
    }

    fn schema(&self) -> Option<Sha256Hash> {
        self.schema
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        self.train.follows(algorithm)
    }

    fn exchanges(&self) -> bool {
        self.train.exchanges()
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.require_schema(task.inputs)?;
        self.train.train(task, should_stop)
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.require_schema(task.inputs)?;
        self.evaluate.as_mut().unwrap_or(&mut self.train).evaluate(task, should_stop)
    }

    fn describe(&mut self, task: &DescribeTask<'_>) -> Result<Description, TrainError> {
        self.require_schema(Some(task.inputs))?;
        self.train.describe(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_client::examples::Targets;

    fn examples(count: u32) -> MemoryExamples {
        let inputs = (0..count).map(|value| value as f32).collect();
        MemoryExamples::new(vec![1], inputs, Targets::Classes((0..count).collect())).unwrap()
    }

    fn classes(examples: &MemoryExamples) -> Vec<u32> {
        let Targets::Classes(classes) = examples.targets() else { panic!("classes") };
        classes
    }

    #[test]
    fn what_is_held_out_stays_held_out_when_the_table_grows() {
        let (train, test) = split(&examples(1000), 0.2).unwrap();
        assert!((150..250).contains(&test.len()), "{}", test.len());
        assert_eq!(train.len() + test.len(), 1000);
        let (more_train, more_test) = split(&examples(1500), 0.2).unwrap();
        assert_eq!(classes(&more_train)[..train.len()], classes(&train));
        assert_eq!(classes(&more_test)[..test.len()], classes(&test));
    }

    #[test]
    fn nothing_is_held_out_where_nothing_would_be_left() {
        for (count, fraction) in [(100, 0.0), (1, 1.0), (100, 1.0)] {
            let (train, test) = split(&examples(count), fraction).unwrap();
            assert_eq!((train.len() as u32, test.len()), (count, 0));
        }
    }
}
