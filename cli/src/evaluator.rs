//! The evaluator of `serve`: it measures lists of layers as the clients do.

use std::sync::Arc;

use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{EvaluateTask, Evaluated, LayerTrainer, TrainError, Trainer};
use tributary_protocol::device::EvaluationReport;
use tributary_protocol::inputs::Inputs;
use tributary_protocol::layers::ModelSpec;
use tributary_server::evaluator::{Evaluator, EvaluatorError, EvaluatorTask, TestExamples, TestTargets};

/// The trainer of the SDK, on one thread.
#[derive(Debug)]
pub(crate) struct LayerEvaluator;

impl Evaluator for LayerEvaluator {
    fn evaluate(
        &self,
        task: &EvaluatorTask<'_>,
        examples: TestExamples,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<EvaluationReport, EvaluatorError> {
        let mut trainer = LayerTrainer::new(Arc::new(held(task, examples)?));
        let evaluation = EvaluateTask::new(task.model, task.spec, task.loss).with_inputs(task.inputs);
        let Evaluated { examples, loss, accuracy, metrics, classes, .. } =
            trainer.evaluate(&evaluation, should_stop).map_err(|error| match error {
                TrainError::Interrupted => EvaluatorError::Stopped,
                error => failed(error),
            })?;
        Ok(EvaluationReport { examples, loss, accuracy, evaluate_ms: 0, metrics, classes })
    }
}

/// The examples in the form of the SDK.
fn held(task: &EvaluatorTask<'_>, examples: TestExamples) -> Result<MemoryExamples, EvaluatorError> {
    let ModelSpec::Layers(network) = task.spec else { return Err(failed("the model is no list of layers")) };
    let shapes = network.shapes().map_err(failed)?;
    let width = shapes.last().map_or(1, |shape| shape.iter().product());
    let targets = match examples.targets {
        TestTargets::Classes(classes) => Targets::Classes(classes),
        TestTargets::Values(values) => Targets::Values { values, width },
    };
    let columns = task.inputs.and_then(Inputs::raw_width);
    let shape = columns.map_or_else(|| network.input.clone(), |columns| vec![columns]);
    MemoryExamples::new(shape, examples.inputs, targets).map_err(failed)
}

fn failed(cause: impl ToString) -> EvaluatorError {
    EvaluatorError::Failed(cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_protocol::classes::ClassCounts;
    use tributary_protocol::model::Model;
    use tributary_protocol::plan::Loss;

    #[test]
    fn a_network_that_copies_its_inputs_is_right_where_they_point_to_the_class() {
        let spec: ModelSpec =
            serde_json::from_str(r#"{"input": [2], "layers": [{"kind": "linear", "out_features": 2}]}"#).unwrap();
        let values = vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        let model = Model::new(Arc::new(spec.parameters().unwrap()), values).unwrap();
        let task = EvaluatorTask { model: &model, spec: &spec, inputs: None, loss: Loss::CrossEntropy };
        let examples =
            TestExamples { inputs: vec![9.0, 0.0, 0.0, 9.0, 9.0, 0.0], targets: TestTargets::Classes(vec![0, 1, 1]) };
        let report = LayerEvaluator.evaluate(&task, examples.clone(), &|| false).unwrap();
        assert_eq!((report.examples, report.accuracy), (3, Some(2.0 / 3.0)));
        assert_eq!(report.classes, Some(ClassCounts::Confusion { classes: 2, counts: vec![1, 0, 1, 1] }));
        let stopped = LayerEvaluator.evaluate(&task, examples, &|| true);
        assert_eq!(stopped.unwrap_err(), EvaluatorError::Stopped);
    }
}
