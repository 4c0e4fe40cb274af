//! What the clients learn: local training on their examples, and the accuracy of a model on those held out.

use std::sync::Arc;

use tributary_client::{EvaluateTask, LayerTrainer, TrainTask, Trainer};
use tributary_protocol::job_file::JobFile;
use tributary_protocol::layers::ModelSpec;
use tributary_protocol::model::Model;
use tributary_protocol::plan::Training;
use tributary_protocol::seed::Seed;

use crate::bench::error::BenchError;
use crate::data::labels;
use crate::data::partition::Partition;
use crate::demo::data::{DemoData, of_clients};

/// Shards of one label that each client has.
pub(super) const SHARDS: u32 = 2;

/// The trainers of all clients and of the evaluator.
pub(super) struct Learner {
    clients: Vec<LayerTrainer>,
    evaluator: LayerTrainer,
    spec: ModelSpec,
    training: Training,
}

/// A delta and the number of examples behind it.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) delta: Vec<f32>,
    pub(super) examples: u32,
}

impl Learner {
    /// Splits the examples so that each client has shards of two labels.
    pub(super) fn new(data: &DemoData, clients: usize, file: &JobFile, seed: Seed) -> Result<Self, BenchError> {
        let labels = labels(&data.train).ok_or_else(|| BenchError::Train("the examples have no classes".to_owned()))?;
        let split = Partition::Shards(SHARDS).split(&labels, clients, seed).map_err(failed)?;
        let of_clients = of_clients(&data.train, &split).map_err(failed)?;
        Ok(Self {
            clients: of_clients.into_iter().map(|examples| LayerTrainer::new(Arc::new(examples))).collect(),
            evaluator: LayerTrainer::new(Arc::new(data.test.clone())),
            spec: file.model.spec.clone(),
            training: file.training.clone(),
        })
    }

    pub(super) fn first_model(&self, seed: Seed) -> Result<Model, BenchError> {
        self.spec.initial_model(seed.derive("model", 0)).map_err(failed)
    }

    /// The update of a client that starts from this model.
    pub(super) fn update(
        &mut self,
        client: usize,
        model: &Model,
        version: u32,
        seed: Seed,
    ) -> Result<Update, BenchError> {
        let training = self.training.at_version(version);
        let task = TrainTask::new(model, &self.spec, &training, seed);
        let trained = self.clients[client].train(&task, &|| false).map_err(failed)?;
        let delta = trained.values.iter().zip(model.values()).map(|(local, global)| local - global).collect();
        Ok(Update { delta, examples: u32::try_from(trained.examples).unwrap_or(u32::MAX) })
    }

    pub(super) fn accuracy(&mut self, model: &Model) -> Result<f64, BenchError> {
        let task = EvaluateTask { model, spec: &self.spec, loss: self.training.loss };
        let evaluated = self.evaluator.evaluate(&task, &|| false).map_err(failed)?;
        Ok(evaluated.accuracy.unwrap_or(0.0))
    }
}

pub(super) fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Train(error.to_string())
}
