//! What computes networks for the coordinator of the tests: the SDK's trainer, as in the program.

use std::sync::Arc;

use tributary_client::examples::{MemoryExamples, Targets};
use tributary_client::{EvaluateTask, Evaluated, LayerTrainer, TrainError, Trainer};
use tributary_protocol::device::EvaluationReport;
use tributary_protocol::layers::ModelSpec;
use tributary_server::evaluator::{Evaluator, EvaluatorError, EvaluatorTask, TestExamples, TestTargets};

#[derive(Debug)]
pub(super) struct LayerEvaluator;

impl Evaluator for LayerEvaluator {
    fn evaluate(
        &self,
        task: &EvaluatorTask<'_>,
        examples: TestExamples,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<EvaluationReport, EvaluatorError> {
        let ModelSpec::Layers(network) = task.spec else { panic!("jobs without layers are refused") };
        let TestTargets::Classes(classes) = examples.targets else { panic!("the tests have classes") };
        let held = MemoryExamples::new(network.input.clone(), examples.inputs, Targets::Classes(classes)).unwrap();
        let task = EvaluateTask::new(task.model, task.spec, task.loss);
        match LayerTrainer::new(Arc::new(held)).evaluate(&task, should_stop) {
            Ok(Evaluated { examples, loss, accuracy, metrics, classes, .. }) => {
                Ok(EvaluationReport { examples, loss, accuracy, evaluate_ms: 0, metrics, classes })
            }
            Err(TrainError::Interrupted) => Err(EvaluatorError::Stopped),
            Err(error) => Err(EvaluatorError::Failed(error.to_string())),
        }
    }
}
