//! What the clients learn: local training on their examples, and the accuracy of a model on those held out.

use std::sync::Arc;

use tributary_client::examples::MemoryExamples;
use tributary_client::{EvaluateTask, LayerTrainer, TrainTask, Trainer};
use tributary_engine::job::JobSpec;
use tributary_engine::round::TaskPolicy;
use tributary_protocol::model::Model;
use tributary_protocol::seed::Seed;

use crate::error::SimulationError;

/// The trainers of all clients and of the evaluator.
pub struct Learner {
    clients: Vec<LayerTrainer>,
    evaluator: LayerTrainer,
}

/// What a client trains.
pub(crate) struct Training<'a> {
    pub(crate) client: usize,
    pub(crate) base: &'a Model,
    pub(crate) version: u32,
    /// Of the round in which the client was drawn.
    pub(crate) policy: &'a TaskPolicy,
    pub(crate) seed: Seed,
}

/// The values of an update, and what is known beside them.
pub struct Trained {
    /// Local less base values.
    pub delta: Vec<f32>,
    pub examples: u32,
    /// Mean loss of the training.
    pub loss: f64,
    /// Steps of the optimiser.
    pub steps: u64,
}

impl Learner {
    /// Clients with these examples each, and an evaluator with those that are held out.
    pub fn new(clients: impl IntoIterator<Item = MemoryExamples>, held_out: MemoryExamples) -> Self {
        let trainer = |examples| LayerTrainer::new(Arc::new(examples));
        Self { clients: clients.into_iter().map(trainer).collect(), evaluator: trainer(held_out) }
    }

    pub(crate) fn train(&mut self, spec: &JobSpec, training: &Training<'_>) -> Result<Trained, SimulationError> {
        let Training { client, base, version, policy, seed } = *training;
        let settings = policy.training(&spec.plan.training).at_version(version);
        let task = TrainTask::new(base, &spec.file.model.spec, &settings, seed);
        let trained = self.clients[client].train(&task, &|| false)?;
        let delta = trained.values.iter().zip(base.values()).map(|(local, global)| local - global).collect();
        let examples = u32::try_from(trained.examples).unwrap_or(u32::MAX).min(spec.plan.weight_max);
        Ok(Trained { delta, examples, loss: trained.loss, steps: trained.steps })
    }

    /// Share of the held-out examples that a model classifies rightly.
    pub(crate) fn accuracy(&mut self, spec: &JobSpec, model: &Model) -> Result<f64, SimulationError> {
        let (spec, loss) = (&spec.file.model.spec, spec.file.training.loss);
        let evaluated = self.evaluator.evaluate(&EvaluateTask::new(model, spec, loss), &|| false)?;
        Ok(evaluated.accuracy.unwrap_or(0.0))
    }
}
