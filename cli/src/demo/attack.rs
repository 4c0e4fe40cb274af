//! Clients that send wrong updates, to measure what a rule withstands. Attackers know each other's examples, but not
//! those of honest clients.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use serde::Serialize;
use tributary_client::examples::MemoryExamples;
use tributary_client::{LayerTrainer, TrainError, TrainTask, Trained, Trainer};

use super::synthetic::Normal;

/// How much larger than an honest update a flipped or random one is.
const SCALE: f64 = 10.0;
/// The share of their mean that attackers of inner products subtract.
const IPM: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Attack {
    /// The negative update, ten times as large.
    SignFlip,
    /// Normal noise, ten times as large as the update.
    Noise,
    /// "A little is enough": the attackers' mean minus the largest multiple of their deviation that a majority of
    /// clients still covers (Baruch et al. 2019, <https://arxiv.org/abs/1902.06156>).
    Alie,
    /// The negative half of the attackers' mean, so that its inner product with the true step is negative (Xie et al.
    /// 2019, <https://arxiv.org/abs/1903.03936>).
    Ipm,
}

impl Attack {
    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SignFlip => "sign_flip",
            Self::Noise => "noise",
            Self::Alie => "alie",
            Self::Ipm => "ipm",
        }
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The attackers of a job, who act as one.
pub struct Attackers {
    attack: Attack,
    /// All clients of the job, honest ones included.
    clients: usize,
    trainers: Mutex<Vec<LayerTrainer>>,
    last: Mutex<Option<Honest>>,
}

impl fmt::Debug for Attackers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Attackers").field("attack", &self.attack).finish_non_exhaustive()
    }
}

/// What the attackers would have sent from one model.
struct Honest {
    model: Vec<f32>,
    deltas: Arc<Vec<Vec<f32>>>,
}

impl Attackers {
    pub fn new(attack: Attack, clients: usize, examples: Vec<MemoryExamples>) -> Self {
        let trainers = examples.into_iter().map(|examples| LayerTrainer::new(Arc::new(examples))).collect();
        Self { attack, clients, trainers: Mutex::new(trainers), last: Mutex::new(None) }
    }

    /// What an attacker sends who has trained honestly.
    pub fn forge(&self, task: &TrainTask<'_>, mut honest: Trained) -> Result<Trained, TrainError> {
        let model = task.model.values();
        let delta: Vec<f64> = honest.values.iter().zip(model).map(|(own, model)| f64::from(own - model)).collect();
        let forged = match self.attack {
            Attack::SignFlip => delta.iter().map(|value| -SCALE * value).collect(),
            Attack::Noise => noise(task, &delta),
            Attack::Alie => {
                let deltas = self.deltas(task)?;
                let z = covered(self.clients, deltas.len());
                moments(&deltas).map(|(mean, deviation)| mean - z * deviation).collect()
            }
            Attack::Ipm => moments(&self.deltas(task)?).map(|(mean, _)| -IPM * mean).collect::<Vec<f64>>(),
        };
        let values = model.iter().zip(forged).map(|(model, delta)| (f64::from(*model) + delta) as f32).collect();
        honest.values = values;
        Ok(honest)
    }

    /// The honest updates of all attackers. The first of a round computes them for the others.
    fn deltas(&self, task: &TrainTask<'_>) -> Result<Arc<Vec<Vec<f32>>>, TrainError> {
        let model = task.model.values();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(honest) = last.as_ref().filter(|honest| honest.model == model) {
            return Ok(Arc::clone(&honest.deltas));
        }
        let mut deltas = Vec::new();
        for (number, trainer) in self.trainers.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().enumerate() {
            // The seed of the round differs from client to client, and all attackers must agree.
            let seed = tributary_protocol::seed::Seed(number as u64);
            let mut task = *task;
            (task.seed, task.constant) = (seed, None);
            let trained = trainer.train(&task, &|| false)?;
            deltas.push(trained.values.iter().zip(model).map(|(own, model)| own - model).collect());
        }
        let deltas = Arc::new(deltas);
        *last = Some(Honest { model: model.to_vec(), deltas: Arc::clone(&deltas) });
        Ok(deltas)
    }
}

fn noise(task: &TrainTask<'_>, delta: &[f64]) -> Vec<f64> {
    let mut normal = Normal { stream: task.seed.derive("noise", 0).stream(), spare: None };
    let root_mean_square = (delta.iter().map(|value| value * value).sum::<f64>() / delta.len().max(1) as f64).sqrt();
    delta.iter().map(|_| SCALE * root_mean_square * normal.draw()).collect()
}

/// Mean and standard deviation of each coordinate.
fn moments(deltas: &[Vec<f32>]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let count = deltas.len().max(1) as f64;
    (0..deltas.first().map_or(0, Vec::len)).map(move |place| {
        let values = || deltas.iter().map(|delta| f64::from(delta[place]));
        let mean = values().sum::<f64>() / count;
        (mean, (values().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
    })
}

/// The largest z that hides attackers: the honest clients that a majority needs besides them lie beyond it.
fn covered(clients: usize, attackers: usize) -> f64 {
    let honest = clients.saturating_sub(attackers).max(1) as f64;
    let needed = (clients / 2 + 1).saturating_sub(attackers) as f64;
    quantile(((honest - needed) / honest).clamp(0.5, 0.999))
}

/// The quantile of the standard normal distribution for a share of at least a half, by bisection over Simpson's rule.
fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if distribution(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn distribution(z: f64) -> f64 {
    const STEPS: usize = 200;
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let width = z / STEPS as f64;
    let inner: f64 = (1..STEPS).map(|step| density(step as f64 * width) * if step % 2 == 1 { 4.0 } else { 2.0 }).sum();
    0.5 + width / 3.0 * (density(0.0) + inner + density(z))
}

#[cfg(test)]
mod tests {
    use tributary_client::examples::Targets;
    use tributary_protocol::layers::ModelSpec;
    use tributary_protocol::plan::Training;
    use tributary_protocol::seed::Seed;

    use super::*;

    fn examples(shift: f32) -> MemoryExamples {
        let inputs: Vec<f32> = (0..40).map(|index| (index % 7) as f32 * 0.1 + shift).collect();
        MemoryExamples::new(vec![2], inputs, Targets::Classes((0..20).map(|index| index % 2).collect())).unwrap()
    }

    /// The honest delta and what each attack makes of it.
    fn forged(attack: Attack) -> (Vec<f64>, Vec<f64>, Vec<Vec<f32>>) {
        let spec: ModelSpec = serde_json::from_value(serde_json::json!({
            "input": [2], "layers": [{ "kind": "linear", "out_features": 2 }],
        }))
        .unwrap();
        let training: Training = serde_json::from_value(serde_json::json!({
            "epochs": 1, "batch_size": 5, "optimizer": { "kind": "sgd", "learning_rate": 0.5 },
        }))
        .unwrap();
        let model = spec.initial_model(Seed(1)).unwrap();
        let attackers = Attackers::new(attack, 10, vec![examples(0.0), examples(0.5), examples(1.0)]);
        let task = TrainTask::new(&model, &spec, &training, Seed(4));
        let honest = LayerTrainer::new(Arc::new(examples(0.0))).train(&task, &|| false).unwrap();
        let delta =
            |values: &[f32]| values.iter().zip(model.values()).map(|(own, model)| f64::from(own - model)).collect();
        let own: Vec<f64> = delta(&honest.values);
        let sent = attackers.forge(&task, honest.clone()).unwrap();
        assert_eq!((sent.examples, sent.loss), (honest.examples, honest.loss), "it looks like an honest report");
        let again = attackers.forge(&task, honest).unwrap();
        assert_eq!(again.values, sent.values);
        (own, delta(&sent.values), attackers.deltas(&task).unwrap().to_vec())
    }

    fn norm(values: &[f64]) -> f64 {
        values.iter().map(|value| value * value).sum::<f64>().sqrt()
    }

    #[test]
    fn attackers_send_what_their_formula_says() {
        let near = |sent: &[f64], expected: Vec<f64>| {
            assert!(sent.iter().zip(&expected).all(|(sent, expected)| (sent - expected).abs() < 1e-5), "{sent:?}");
        };
        let (own, sent, _) = forged(Attack::SignFlip);
        near(&sent, own.iter().map(|value| -10.0 * value).collect());
        let (own, sent, _) = forged(Attack::Noise);
        assert!((3.0..30.0).contains(&(norm(&sent) / norm(&own))));
        let (_, sent, deltas) = forged(Attack::Ipm);
        near(&sent, moments(&deltas).map(|(mean, _)| -0.5 * mean).collect());
        let (_, sent, deltas) = forged(Attack::Alie);
        let z = covered(10, 3);
        near(&sent, moments(&deltas).map(|(mean, deviation)| mean - z * deviation).collect());
        assert!(deltas.len() == 3 && z > 0.0);
    }

    #[test]
    fn quantiles_are_those_of_the_normal_distribution() {
        for (share, z) in [(0.5, 0.0), (0.841_344_7, 1.0), (0.975, 1.959_964), (0.998_650_1, 3.0)] {
            assert!((quantile(share) - z).abs() < 1e-5, "{share}: {}", quantile(share));
        }
        // Baruch et al. 2019, section 3.2: 50 clients of which 24 attack; two honest ones are needed.
        assert!((covered(50, 24) - quantile(24.0 / 26.0)).abs() < 1e-12);
    }
}
