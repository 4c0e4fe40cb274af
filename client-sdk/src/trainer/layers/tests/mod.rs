//! The trainer against plain arithmetic in f64, written from the formulas, and against burn.

#[cfg(feature = "burn")]
mod agreement;
mod behaviour;
mod forward;
mod gradients;
mod steps;

use std::sync::Arc;

use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::plan::{Algorithm, Loss, Optimizer, Training};
use tributary_protocol::rate::RateSchedule;
use tributary_protocol::seed::Seed;

use super::{LayerTrainer, Level, Machine, Network, Pass};
use crate::examples::{MemoryExamples, Targets};
use crate::trainer::fixtures::*;
use crate::trainer::{EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};

/// A trainer at one instruction set. Tests run on all that the CPU has.
#[derive(Clone, Copy, Debug)]
struct Lab {
    level: Level,
    threads: usize,
}

impl Lab {
    fn all() -> Vec<Self> {
        Level::all().into_iter().map(|level| Self { level, threads: 1 }).collect()
    }

    fn trainer(self, examples: &MemoryExamples) -> LayerTrainer {
        LayerTrainer::new(Arc::new(examples.clone())).with_threads(self.threads).at_level(self.level)
    }

    fn train(
        self,
        examples: &MemoryExamples,
        model: &Model,
        spec: &ModelSpec,
        training: &Training,
        seed: u64,
    ) -> Result<Trained, TrainError> {
        let task = TrainTask::new(model, spec, training, Seed(seed));
        self.trainer(examples).train(&task, &|| false)
    }

    fn evaluate(
        self,
        examples: &MemoryExamples,
        model: &Model,
        spec: &ModelSpec,
        loss: Loss,
    ) -> Result<Evaluated, TrainError> {
        self.trainer(examples).evaluate(&EvaluateTask::new(model, spec, loss), &|| false)
    }

    /// A batch through a network that holds the model, in training if there is a seed; also the values that the network
    /// holds afterwards.
    fn forward(self, spec: &ModelSpec, model: &Model, inputs: &[f32], seed: Option<u64>) -> (Vec<f32>, Vec<f32>) {
        let machine = Machine { level: self.level, threads: self.threads };
        let mut network = Network::new(spec, model, machine).unwrap();
        let mut stream = seed.map(|seed| Seed(seed).stream());
        let outputs = network.forward(inputs, &mut Pass { machine, randomness: stream.as_mut() }).to_vec();
        (outputs, network.export(0))
    }

    fn evaluated(self, spec: &ModelSpec, model: &Model, inputs: &[f32]) -> Vec<f32> {
        self.forward(spec, model, inputs, None).0
    }
}
