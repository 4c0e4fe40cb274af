//! Federated training in one process: coins draw the clients, the SDK trains them, the engine adds up.

use std::sync::Arc;

use tributary_client::examples::MemoryExamples;
use tributary_client::{EvaluateTask, Evaluated, LayerTrainer, TrainTask, Trainer};
use tributary_protocol::model::Model;
use tributary_protocol::plan::{Loss, Training};
use tributary_protocol::seed::Seed;

use super::digits::{network, training};
use super::protection::{Protection, noise};
use crate::error::BenchError;
use crate::simulated::failed;

/// How clients learn together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// Chance of each client to be drawn into a round.
    pub(super) rate: f64,
    /// Clients whose expected number in a round divides its sum, whatever number has come.
    pub(super) available: u32,
    pub(super) rounds: u32,
    /// Local steps of a drawn client, and their learning rate.
    pub(super) steps: u32,
    pub(super) learning_rate: f64,
    /// By which a mean update is multiplied.
    pub(super) server_rate: f64,
    pub(super) protection: Protection,
}

/// What was learned.
pub(super) struct Learned {
    pub(super) model: Model,
    /// Most rounds in which one client took part.
    pub(super) participations: u32,
}

impl Course {
    pub(super) fn learn(&self, clients: Vec<MemoryExamples>, seed: Seed) -> Result<Learned, BenchError> {
        let training = training(self.steps, self.learning_rate)?;
        let mut clients: Vec<(LayerTrainer, u32)> = clients.into_iter().map(|client| (trainer(client), 0)).collect();
        let mut model = first_model(seed)?;
        let divisor = self.rate * f64::from(self.available);
        for round in 1..=self.rounds {
            let mut coins = seed.derive("coins", round.into()).stream();
            let mut updates = Vec::new();
            for (client, rounds) in &mut clients {
                if coins.unit() < self.rate {
                    *rounds += 1;
                    updates.push(update(client, &model, &training, seed)?);
                }
            }
            let noise = noise(seed.derive("noise", 0), round);
            let mean = self.protection.mean(&updates, model.values().len(), divisor, noise)?;
            model = moved(&model, &mean, self.server_rate)?;
        }
        let participations = clients.iter().map(|(_, rounds)| *rounds).max().unwrap_or(0);
        Ok(Learned { model, participations })
    }
}

pub(super) fn trainer(examples: MemoryExamples) -> LayerTrainer {
    LayerTrainer::new(Arc::new(examples))
}

pub(super) fn first_model(seed: Seed) -> Result<Model, BenchError> {
    network().initial_model(seed.derive("model", 0)).map_err(failed)
}

/// What a client sends: local less base values.
pub(super) fn update(
    client: &mut LayerTrainer,
    model: &Model,
    training: &Training,
    seed: Seed,
) -> Result<Vec<f32>, BenchError> {
    let trained = client.train(&TrainTask::new(model, &network(), training, seed), &|| false).map_err(failed)?;
    Ok(trained.values.iter().zip(model.values()).map(|(local, base)| local - base).collect())
}

pub(super) fn evaluate(model: &Model, examples: MemoryExamples) -> Result<Evaluated, BenchError> {
    let spec = network();
    let task = EvaluateTask::new(model, &spec, Loss::CrossEntropy);
    trainer(examples).evaluate(&task, &|| false).map_err(failed)
}

fn moved(model: &Model, mean: &[f64], server_rate: f64) -> Result<Model, BenchError> {
    let moved = |(value, mean): (&f32, &f64)| (f64::from(*value) + server_rate * mean) as f32;
    let values = model.values().iter().zip(mean).map(moved).collect();
    Model::new(Arc::clone(model.parameters()), values).map_err(failed)
}
