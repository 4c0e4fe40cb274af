//! What gossip learns and moves: members mix their models with those of their neighbours, over links in this process,
//! beside the mean of all models after each iteration (federated averaging).

use std::sync::Arc;

use clap::{Args, ValueEnum};
use futures_util::future::try_join_all;
use serde::Serialize;
use tokio::io::{DuplexStream, duplex};
use tributary::demo::data::digits;
use tributary::error::CliError;
use tributary::output::Output;
use tributary_client::examples::{Examples, MemoryExamples};
use tributary_client::{EvaluateTask, LayerTrainer, TrainTask, Trainer};
use tributary_collective::{Mixer, RingPlace};
use tributary_protocol::fixed::{SumCaps, Weight, quantise};
use tributary_protocol::graph::{Graph, lambda, neighbours};
use tributary_protocol::group::FRAME_BYTES;
use tributary_protocol::layers::{Layer, LayeredModel, ModelSpec};
use tributary_protocol::model::Model;
use tributary_protocol::plan::{Loss, MixCodec, Training};
use tributary_protocol::seed::Seed;

use crate::error::BenchError;
use crate::simulated::failed;
use crate::waits::Waits;

const SEED: Seed = Seed(7);
/// Pixels of a digit, units between them and the classes.
const PIXELS: usize = 64;
const UNITS: usize = 40;
/// Largest magnitude of a value of a model.
const MAGNITUDE_MAX: f32 = 64.0;
/// Bytes that a link of this process holds.
const LINK_BYTES: usize = 1 << 16;
/// Values of the models whose contraction is measured, and their distance at its end, as a share of that at its
/// beginning. Nearer models differ by the rounding of what is sent.
const CONTRACTION_VALUES: usize = 1_000;
const NEAR: f64 = 1e-4;
const MIXES_MAX: u32 = 100_000;

#[derive(Clone, Debug, Args)]
pub(crate) struct GossipArgs {
    /// Members of the group.
    #[arg(long, default_value = "16", value_name = "COUNT", value_parser = clap::value_parser!(u16).range(2..=256))]
    members: u16,
    /// The graphs along which members mix.
    #[arg(long, value_delimiter = ',', default_value = "ring,torus,exponential", value_name = "GRAPHS")]
    graph: Vec<GraphName>,
    /// How models travel.
    #[arg(long, default_value = "f32", value_name = "CODEC")]
    codec: CodecName,
    /// Iterations: each is a pass over the digits of each member, and a mix.
    #[arg(long, default_value = "40", value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    iterations: u32,
    /// Learning rate of the members.
    #[arg(long, default_value = "0.2", value_name = "RATE")]
    learning_rate: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum GraphName {
    Ring,
    Torus,
    Exponential,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CodecName {
    F32,
    Int8,
}

impl From<GraphName> for Graph {
    fn from(name: GraphName) -> Self {
        match name {
            GraphName::Ring => Self::Ring,
            GraphName::Torus => Self::Torus,
            GraphName::Exponential => Self::Exponential,
        }
    }
}

impl From<CodecName> for MixCodec {
    fn from(name: CodecName) -> Self {
        match name {
            CodecName::F32 => Self::F32,
            CodecName::Int8 => Self::Int8,
        }
    }
}

/// Programs rely on the names of its members.
#[derive(Debug, Serialize)]
struct Measured {
    graph: GraphName,
    /// The second largest magnitude of an eigenvalue of the weights.
    lambda: f64,
    /// By how much a mix shortens the distance of the models from their mean, where nobody trains.
    contraction: f64,
    /// Of the mean of all models, on digits that nobody trains on.
    accuracy: f64,
    /// The same with the mean of all models after each iteration.
    star_accuracy: f64,
    /// The mean of the members in one mix: frames with their headers.
    bytes_per_member: u64,
    /// Whether every mix kept the sum of all models to the last bit.
    sums_kept: bool,
}

pub(crate) async fn run(args: &GossipArgs, output: &Output) -> Result<(), CliError> {
    let learning = Learning::load(args)?;
    let star_accuracy = learning.star()?;
    let mut rows = Vec::new();
    for &graph in &args.graph {
        output.note(&format!("{graph:?} of {} members", args.members).to_lowercase());
        rows.push(measured(args, graph, &learning, star_accuracy).await?);
    }
    let header = ["graph", "lambda", "contraction", "accuracy", "star", "bytes per member", "sums kept"];
    output.list(&rows, &header, |row| {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        vec![
            format!("{:?}", row.graph).to_lowercase(),
            format!("{:.6}", row.lambda),
            format!("{:.6}", row.contraction),
            percent(row.accuracy),
            percent(row.star_accuracy),
            row.bytes_per_member.to_string(),
            if row.sums_kept { "yes".into() } else { "no".into() },
        ]
    })
}

async fn measured(
    args: &GossipArgs,
    graph: GraphName,
    learning: &Learning,
    star_accuracy: f64,
) -> Result<Measured, CliError> {
    let (codec, kind) = (args.codec.into(), graph.into());
    // Rounded models come no nearer than their rounding: the graph's own contraction is that of exact ones.
    let (contraction, keeps) = contraction(args.members, kind).await?;
    let (accuracy, bytes_per_member, kept) = learning.gossip(kind, codec).await?;
    let sums_kept = keeps && kept;
    let lambda = lambda(&kind.edges(args.members, SEED), args.members);
    Ok(Measured { graph, lambda, contraction, accuracy, star_accuracy, bytes_per_member, sums_kept })
}

/// Members of a graph, with models in fixed point.
struct Group {
    mixers: Vec<Mixer<DuplexStream>>,
    models: Vec<Vec<i64>>,
    scale: f64,
    /// Whether the sum of all models was kept so far.
    sums_kept: bool,
}

impl Group {
    fn new(members: u16, graph: Graph, codec: MixCodec, models: &[Vec<f32>]) -> Result<Self, BenchError> {
        let weight_max = Weight::examples(1);
        let caps = SumCaps { weight_max, magnitude_max: MAGNITUDE_MAX, updates_max: members.into() };
        let point = caps.binary_point().map_err(failed)?;
        let scale = weight_max.factor(point);
        let edges = graph.edges(members, SEED);
        let mut links: Vec<Vec<(u16, DuplexStream)>> = (0..members).map(|_| Vec::new()).collect();
        for (one, other) in &edges {
            let (here, there) = duplex(LINK_BYTES);
            links[usize::from(*one)].push((*other, here));
            links[usize::from(*other)].push((*one, there));
        }
        let mixer = |(rank, mut links): (u16, Vec<(u16, DuplexStream)>)| {
            let magnitude_max = caps.value_max(point).unsigned_abs();
            let place =
                RingPlace { rank, members, attempt: 1, frame_bytes: FRAME_BYTES, frame_ms: 10_000, magnitude_max };
            links.sort_by_key(|(other, _)| *other);
            let weighed = neighbours(&edges, rank).into_iter().zip(links);
            Mixer::new(place, (point, codec), weighed.map(|((other, weight), (_, link))| (other, weight, link)))
        };
        let mixers = (0..members).zip(links).map(mixer).collect();
        let integers =
            |model: &Vec<f32>| model.iter().map(|value| quantise(f64::from(*value) * scale)).collect::<Vec<_>>();
        Ok(Self { mixers, models: models.iter().map(integers).collect(), scale, sums_kept: true })
    }

    async fn mix(&mut self) -> Result<(), BenchError> {
        let before = self.sum();
        let all = self.mixers.iter_mut().zip(&mut self.models).map(|(mixer, model)| mixer.mix(model, &Waits));
        try_join_all(all).await.map_err(|error| BenchError::Ring(error.to_string()))?;
        self.sums_kept &= self.sum() == before;
        Ok(())
    }

    fn sum(&self) -> Vec<i64> {
        (0..self.models[0].len()).map(|at| self.models.iter().map(|model| model[at]).sum()).collect()
    }

    fn mean(&self) -> Vec<f64> {
        let unit = self.scale * self.models.len() as f64;
        self.sum().into_iter().map(|sum| sum as f64 / unit).collect()
    }

    /// The root of the mean square distance of the models from their mean.
    fn distance(&self) -> f64 {
        let mean = self.mean();
        let square = |model: &Vec<i64>| {
            model.iter().zip(&mean).map(|(own, mean)| (*own as f64 / self.scale - mean).powi(2)).sum::<f64>()
        };
        (self.models.iter().map(square).sum::<f64>() / self.models.len() as f64).sqrt()
    }

    fn values(&self, member: usize) -> Vec<f32> {
        self.models[member].iter().map(|own| (*own as f64 / self.scale) as f32).collect()
    }
}

/// The contraction of mixes of random models: that of the last third of the mixes, when the slowest direction is left.
/// Also, whether sums were kept.
async fn contraction(members: u16, graph: Graph) -> Result<(f64, bool), CliError> {
    let model = |member: u16| {
        let mut stream = SEED.derive("contraction", member.into()).stream();
        (0..CONTRACTION_VALUES).map(|_| stream.uniform(-1.0, 1.0)).collect::<Vec<f32>>()
    };
    let models: Vec<_> = (0..members).map(model).collect();
    let mut group = Group::new(members, graph, MixCodec::F32, &models)?;
    let mut distances = vec![group.distance()];
    while distances[distances.len() - 1] > NEAR * distances[0] && distances.len() < MIXES_MAX as usize {
        group.mix().await?;
        distances.push(group.distance());
    }
    let last = distances.len() - 1;
    let from = last - (last / 3).max(1);
    // Members that all have their mean after one mix are that near.
    let shortened = (distances[last] / distances[from]).powf(1.0 / (last - from) as f64);
    Ok((shortened, group.sums_kept))
}

/// Digits that are split among members.
struct Learning {
    spec: ModelSpec,
    training: Training,
    members: Vec<Arc<MemoryExamples>>,
    held_out: Arc<MemoryExamples>,
    iterations: u32,
}

impl Learning {
    fn load(args: &GossipArgs) -> Result<Self, BenchError> {
        let linear = |out_features| Layer::Linear { out_features, bias: true };
        let layers = vec![linear(UNITS), Layer::Relu {}, linear(10)];
        let optimizer = serde_json::json!({ "kind": "sgd", "learning_rate": args.learning_rate });
        let training = serde_json::json!({ "epochs": 1, "batch_size": 10, "optimizer": optimizer });
        let data = digits(&[PIXELS], SEED);
        let members = (0..usize::from(args.members)).map(|member| {
            let own: Vec<usize> = (member..data.train.len()).step_by(args.members.into()).collect();
            data.train.subset(&own).map(Arc::new).map_err(failed)
        });
        Ok(Self {
            spec: ModelSpec::Layers(LayeredModel { input: vec![PIXELS], layers }),
            training: serde_json::from_value(training).map_err(failed)?,
            members: members.collect::<Result<_, _>>()?,
            held_out: Arc::new(data.test),
            iterations: args.iterations,
        })
    }

    fn model(&self, values: Vec<f32>) -> Result<Model, BenchError> {
        Model::new(Arc::new(self.spec.parameters().map_err(failed)?), values).map_err(failed)
    }

    fn start(&self) -> Result<Vec<f32>, BenchError> {
        Ok(self.spec.initial_model(SEED).map_err(failed)?.values().to_vec())
    }

    /// The values after one iteration of a member.
    fn trained(&self, member: usize, iteration: u32, values: Vec<f32>) -> Result<Vec<f32>, BenchError> {
        let model = self.model(values)?;
        let seed = SEED.derive("member", member as u64).derive("iteration", iteration.into());
        let task = TrainTask::new(&model, &self.spec, &self.training, seed);
        let mut trainer = LayerTrainer::new(Arc::clone(&self.members[member]) as Arc<dyn Examples>);
        trainer.train(&task, &|| false).map(|trained| trained.values).map_err(failed)
    }

    fn accuracy(&self, mean: &[f64]) -> Result<f64, BenchError> {
        let model = self.model(mean.iter().map(|value| *value as f32).collect())?;
        let task = EvaluateTask::new(&model, &self.spec, Loss::CrossEntropy);
        let mut trainer = LayerTrainer::new(Arc::clone(&self.held_out) as Arc<dyn Examples>);
        let evaluated = trainer.evaluate(&task, &|| false).map_err(failed)?;
        evaluated.accuracy.ok_or_else(|| failed("the digits have no classes"))
    }

    /// Accuracy of the mean of models that mix along a graph, bytes of a member in a mix, and whether sums were kept.
    async fn gossip(&self, graph: Graph, codec: MixCodec) -> Result<(f64, u64, bool), BenchError> {
        let members = u16::try_from(self.members.len()).map_err(failed)?;
        let start = vec![self.start()?; self.members.len()];
        let mut group = Group::new(members, graph, codec, &start)?;
        for iteration in 0..self.iterations {
            for member in 0..self.members.len() {
                let own = group.values(member);
                let trained = self.trained(member, iteration, own.clone())?;
                let scale = group.scale;
                let moved = trained.iter().zip(own).map(|(after, before)| f64::from(*after) - f64::from(before));
                group.models[member].iter_mut().zip(moved).for_each(|(own, moved)| *own += quantise(moved * scale));
            }
            group.mix().await?;
        }
        let sent: u64 = group.mixers.iter().map(|mixer| mixer.traffic().0).sum();
        let bytes = sent / u64::from(self.iterations) / u64::from(members);
        Ok((self.accuracy(&group.mean())?, bytes, group.sums_kept))
    }

    /// Accuracy of the mean after as many iterations, each of which begins with the mean.
    fn star(&self) -> Result<f64, BenchError> {
        let mut mean: Vec<f64> = self.start()?.into_iter().map(f64::from).collect();
        for iteration in 0..self.iterations {
            let start: Vec<f32> = mean.iter().map(|value| *value as f32).collect();
            mean.fill(0.0);
            for member in 0..self.members.len() {
                let trained = self.trained(member, iteration, start.clone())?;
                let share = 1.0 / self.members.len() as f64;
                mean.iter_mut().zip(trained).for_each(|(mean, value)| *mean += share * f64::from(value));
            }
        }
        self.accuracy(&mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_small_group_learns_keeps_its_sums_and_contracts_as_its_graph_says() {
        let args = GossipArgs {
            members: 6,
            graph: vec![GraphName::Torus],
            codec: CodecName::Int8,
            iterations: 3,
            learning_rate: 0.2,
        };
        let learning = Learning::load(&args).unwrap();
        let star = learning.star().unwrap();
        let row = measured(&args, GraphName::Torus, &learning, star).await.unwrap();
        assert!(row.sums_kept && (row.contraction / row.lambda - 1.0).abs() < 0.01, "{row:?}");
        assert!(row.accuracy > 0.6 && row.star_accuracy > 0.6, "{row:?}");
        let values = (PIXELS * UNITS + UNITS + UNITS * 10 + 10) as u64;
        assert!((3 * values..4 * values).contains(&row.bytes_per_member), "3 neighbours, a byte and a bit: {row:?}");
    }
}
