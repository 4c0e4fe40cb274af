//! The trainer: batches go to the accelerator in pieces, whose losses come back.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tributary_protocol::inputs::Description;
use tributary_protocol::plan::Algorithm;
use tributary_protocol::scalars::Scalars;
use tributary_protocol::seed::Seed;

use super::super::batches::Batches;
use super::super::contract::{DescribeTask, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
use super::super::fit;
use super::super::layers::LayerTrainer;
use super::super::score::{Aim, aim};
use super::contract::{Accelerator, Work};
use super::cover::covered;
use super::plan::program;
use crate::examples::{Batch, Examples};

/// Most batches that are handed over before their losses are read.
const PIECE_BATCHES_MAX: usize = 16;
/// Bytes of inputs after which no further batch is added to a piece.
const PIECE_BYTES: usize = 8 << 20;

/// A [`Trainer`] for jobs whose model is a list of layers. It trains on an accelerator where there are kernels for all
/// of the training, and otherwise as [`LayerTrainer`] does, with the same order of examples. Evaluations are computed
/// on the CPU.
///
/// A sum has another order on an accelerator, so its bits are not those of the CPU. An interrupted training is not
/// suspended.
pub struct AcceleratedTrainer<A> {
    examples: Arc<dyn Examples>,
    cpu: LayerTrainer,
    accelerator: A,
    is_required: bool,
    running: Option<Running>,
    instead: Option<String>,
}

/// A training that goes on between calls.
struct Running {
    seed: Seed,
    batches: Batches,
    steps: u64,
    losses: f64,
    stage: Stage,
    /// The accelerator's work.
    work: Option<BoxFuture<'static, Result<Vec<f32>, String>>>,
    /// Its answer.
    answer: Option<Result<Vec<f32>, String>>,
}

/// What the accelerator does.
enum Stage {
    Beginning,
    /// It trains on batches of these sizes.
    Stepping(Vec<usize>),
    Reading,
}

/// Why a training ends here.
enum End {
    /// It has to be computed elsewhere.
    Uncovered(String),
    /// It failed, or has to be called again.
    Error(TrainError),
}

impl From<TrainError> for End {
    fn from(error: TrainError) -> Self {
        Self::Error(error)
    }
}

impl<A: Accelerator> AcceleratedTrainer<A> {
    /// A trainer on this accelerator. If it is required, a training that it cannot compute is an error. Otherwise the
    /// CPU computes it, from its beginning where the accelerator fails on the way.
    pub fn new(examples: Arc<dyn Examples>, accelerator: A, is_required: bool) -> Self {
        let cpu = LayerTrainer::new(Arc::clone(&examples));
        Self { examples, cpu, accelerator, is_required, running: None, instead: None }
    }

    /// Why the CPU computed the last training instead; `None` if the accelerator did.
    pub fn instead(&self) -> Option<&str> {
        self.instead.as_deref()
    }

    /// Goes on with the training of this task.
    fn go_on(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, End> {
        // A session that was dropped leaves the training of another task here.
        let Some(mut running) = self.running.take().filter(|running| running.seed == task.seed) else {
            let begun = self.begin(task)?;
            self.running = Some(begun);
            return Err(TrainError::Pending.into());
        };
        let Some(answer) = running.answer.take() else {
            // The session did not wait until the end.
            if should_stop() {
                return Err(TrainError::Interrupted.into());
            }
            self.running = Some(running);
            return Err(TrainError::Pending.into());
        };
        let answer = answer.map_err(|what| End::Uncovered(format!("the GPU failed: {what}")))?;
        match &running.stage {
            Stage::Beginning => {}
            Stage::Stepping(batches) => {
                let mut losses = answer.as_slice();
                for batch in batches {
                    let (those, rest) = losses.split_at_checked(*batch).ok_or_else(incomplete)?;
                    running.losses += mean(those)?;
                    running.steps += 1;
                    losses = rest;
                }
            }
            Stage::Reading => return self.trained(&running, task, answer),
        }
        let (stage, work) = match self.piece(&mut running, task, should_stop)? {
            Some((sizes, work)) => (Stage::Stepping(sizes), work),
            None => (Stage::Reading, Work::Values),
        };
        running.stage = stage;
        running.work = Some(self.accelerator.run(work));
        self.running = Some(running);
        Err(TrainError::Pending.into())
    }

    fn begin(&mut self, task: &TrainTask<'_>) -> Result<Running, End> {
        let (network, descent) = covered(task).map_err(End::Uncovered)?;
        task.training.check().map_err(|error| fit::does_not_fit(error.to_string()))?;
        let preparation = fit::preparation(task.inputs);
        fit::check_examples(task.spec, &*self.examples, preparation.as_ref())?;
        let batches = Batches::new(self.examples.len(), task.training, task.seed);
        let program = program(network, task, descent, &batches.sizes()).map_err(End::Uncovered)?;
        let values = task.model.values().to_vec();
        let work = Some(self.accelerator.run(Work::Begin { program, values }));
        let stage = Stage::Beginning;
        Ok(Running { seed: task.seed, batches, steps: 0, losses: 0.0, stage, work, answer: None })
    }

    /// The next batches, with their sizes; `None` after the last.
    fn piece(
        &self,
        running: &mut Running,
        task: &TrainTask<'_>,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Option<(Vec<usize>, Work)>, TrainError> {
        let outputs = task.spec.output_shape().ok().flatten().and_then(|shape| shape.last().copied()).unwrap_or(1);
        let preparation = fit::preparation(task.inputs);
        let (mut batches, mut inputs, mut all_classes) = (Vec::new(), Vec::new(), Vec::new());
        while batches.len() < PIECE_BATCHES_MAX && size_of_val(inputs.as_slice()) < PIECE_BYTES {
            let is_first = running.steps == 0 && batches.is_empty();
            if !is_first && task.is_over() {
                break;
            }
            let Some(indices) = running.batches.next_batch() else { break };
            if should_stop() {
                return Err(TrainError::Interrupted);
            }
            let batch: Batch = fit::batch(&*self.examples, indices, task.spec, preparation.as_ref())?;
            let Aim::Classes(classes) = aim(&batch.targets, task.training.loss, indices.len(), outputs)? else {
                return Err(fit::does_not_fit("the targets are not classes"));
            };
            all_classes.extend_from_slice(classes);
            inputs.extend(batch.inputs);
            batches.push(indices.len());
        }
        if batches.is_empty() {
            return Ok(None);
        }
        let work = Work::Steps { batches: batches.clone(), inputs, classes: all_classes };
        Ok(Some((batches, work)))
    }

    fn trained(&self, running: &Running, task: &TrainTask<'_>, values: Vec<f32>) -> Result<Trained, End> {
        if values.len() != task.model.values().len() {
            return Err(incomplete());
        }
        if values.iter().any(|value| !value.is_finite()) {
            return Err(TrainError::Diverged.into());
        }
        let (examples, loss) = (self.examples.len() as u64, running.losses / running.steps as f64);
        Ok(Trained { values, examples, steps: running.steps, loss, metrics: Scalars::new() })
    }
}

impl<A: Accelerator> Trainer for AcceleratedTrainer<A> {
    fn examples(&self) -> u64 {
        self.examples.len() as u64
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        self.cpu.follows(algorithm)
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.instead = None;
        match self.go_on(task, should_stop) {
            Ok(trained) => Ok(trained),
            Err(End::Error(error)) => Err(error),
            Err(End::Uncovered(what)) if self.is_required => {
                Err(TrainError::Other(format!("a GPU is required, and {what}")))
            }
            Err(End::Uncovered(what)) => {
                self.instead = Some(what);
                self.cpu.train(task, should_stop)
            }
        }
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let Some(running) = &mut self.running else { return };
            // It stays there until it is done: the session may stop waiting and come back.
            let Some(work) = &mut running.work else { return };
            running.answer = Some(work.await);
            running.work = None;
        })
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.cpu.evaluate(task, should_stop)
    }

    fn describe(&mut self, task: &DescribeTask<'_>) -> Result<Description, TrainError> {
        self.cpu.describe(task)
    }
}

fn incomplete() -> End {
    End::Uncovered("the GPU gave an incomplete answer".to_owned())
}

/// The loss of a batch.
fn mean(losses: &[f32]) -> Result<f64, TrainError> {
    let mean = losses.iter().copied().map(f64::from).sum::<f64>() / losses.len() as f64;
    if mean.is_finite() { Ok(mean) } else { Err(TrainError::Diverged) }
}
