//! The trainer of layers, on the CPU or the GPU, which reports its progress and remembers its result.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde::Serialize;
use tributary_client::clock::Clock;
use tributary_client::examples::MemoryExamples;
use tributary_client::{
    AcceleratedTrainer, DescribeTask, Description, EvaluateTask, Evaluated, LayerTrainer, Locked, PausingTrainer,
    TrainError, TrainTask, Trained, Trainer,
};
use tributary_protocol::plan::Algorithm;

use crate::gpu::BrowserGpu;

/// Batches between two reports.
const REPORT_EVERY: u64 = 16;

/// What computed.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Computed {
    Cpu,
    Gpu,
}

/// What a training or an evaluation gave.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Work {
    examples: u64,
    loss: f64,
    device: Computed,
    /// Why it was not the GPU that there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    instead_of_gpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
}

enum Layers {
    /// IndexedDB writes a checkpoint while the worker does not compute.
    Cpu(PausingTrainer<LayerTrainer>),
    Gpu(AcceleratedTrainer<BrowserGpu>),
}

pub(crate) struct ReportingTrainer {
    layers: Layers,
    /// Takes the number of batches so far.
    report: fn(u64),
    /// A training on the GPU is called several times.
    batches: Cell<u64>,
    /// The last result of the trainers of a session.
    work: Results,
}

/// Shared by the trainers of a session.
pub(crate) type Results = Arc<Mutex<Option<Work>>>;

impl ReportingTrainer {
    /// Trains on the GPU, if there is one to use. If it is required, what it cannot train is an error.
    pub(crate) fn new(
        examples: MemoryExamples,
        gpu: Option<BrowserGpu>,
        is_required: bool,
        (report, work): (fn(u64), Results),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let examples = Arc::new(examples);
        let layers = match gpu {
            None => Layers::Cpu(PausingTrainer::new(LayerTrainer::new(examples), clock)),
            Some(gpu) => Layers::Gpu(AcceleratedTrainer::new(examples, gpu, is_required)),
        };
        Self { layers, report, batches: Cell::new(0), work }
    }
}

/// Counts the batches: a trainer asks before each whether to stop.
fn counting(batches: &Cell<u64>, report: fn(u64), should_stop: &dyn Fn() -> bool) -> impl Fn() -> bool {
    move || {
        if batches.get().is_multiple_of(REPORT_EVERY) {
            report(batches.get());
        }
        batches.set(batches.get() + 1);
        should_stop()
    }
}

impl Trainer for ReportingTrainer {
    fn examples(&self) -> u64 {
        match &self.layers {
            Layers::Cpu(trainer) => trainer.examples(),
            Layers::Gpu(trainer) => trainer.examples(),
        }
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        match &self.layers {
            Layers::Cpu(trainer) => trainer.follows(algorithm),
            Layers::Gpu(trainer) => trainer.follows(algorithm),
        }
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let Self { layers, report, batches, work } = self;
        let should_stop = counting(batches, *report, should_stop);
        let (trained, device, instead_of_gpu) = match layers {
            Layers::Cpu(trainer) => (trainer.train(task, &should_stop)?, Computed::Cpu, None),
            Layers::Gpu(trainer) => {
                let trained = trainer.train(task, &should_stop)?;
                let instead = trainer.instead().map(str::to_owned);
                (trained, if instead.is_some() { Computed::Cpu } else { Computed::Gpu }, instead)
            }
        };
        let Trained { examples, loss, steps, .. } = trained;
        *work.locked() = Some(Work { examples, loss, device, instead_of_gpu, steps: Some(steps), accuracy: None });
        Ok(trained)
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        match &mut self.layers {
            Layers::Cpu(trainer) => trainer.ready(),
            Layers::Gpu(trainer) => trainer.ready(),
        }
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        let Self { layers, report, batches, work } = self;
        let should_stop = counting(batches, *report, should_stop);
        let evaluated = match layers {
            Layers::Cpu(trainer) => trainer.evaluate(task, &should_stop)?,
            Layers::Gpu(trainer) => trainer.evaluate(task, &should_stop)?,
        };
        let Evaluated { examples, loss, accuracy, .. } = evaluated;
        let device = Computed::Cpu;
        *work.locked() = Some(Work { examples, loss, device, instead_of_gpu: None, steps: None, accuracy });
        Ok(evaluated)
    }

    fn describe(&mut self, task: &DescribeTask<'_>) -> Result<Description, TrainError> {
        match &mut self.layers {
            Layers::Cpu(trainer) => trainer.describe(task),
            Layers::Gpu(trainer) => trainer.describe(task),
        }
    }
}
