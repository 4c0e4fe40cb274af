//! What an SDK can do, by name: a check-in tells it, and a plan needs some of it.
//!
//! A list is short: [`FIRST`] stands for everything that the first release could do, a name adds an ability, and a name
//! after a minus takes one away: `["first", "layer:conv3d", "-algorithm:scaffold"]`. A client that tells no list is one
//! of the first release. Names that a coordinator does not know are of newer SDKs, and are left out.
//!
//! A setting that a later release adds to something old is an ability of its own, such as `layer:conv2d.groups`, which
//! a plan needs only where it uses the setting.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::analysis::Query;
use crate::device::Plan;
use crate::layers::{Layer, ModelSpec};
use crate::plan::{Algorithm, Loss, Optimizer};
use crate::state::Task;

/// Stands in a list for all abilities of the first release.
pub const FIRST: &str = "first";

macro_rules! abilities {
    ($($name:ident = $text:literal,)*) => {
        /// One thing that an SDK can do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Ability {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Ability {
            /// All of them. New ones are added at the end.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name in lists.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

abilities! {
    Train = "task:train",
    Evaluate = "task:evaluate",
    Describe = "task:describe",
    OwnNetwork = "model:parameters",
    Linear = "layer:linear",
    LowRank = "layer:low_rank",
    Conv2d = "layer:conv2d",
    MaxPool2d = "layer:max_pool2d",
    AvgPool2d = "layer:avg_pool2d",
    Relu = "layer:relu",
    Gelu = "layer:gelu",
    Tanh = "layer:tanh",
    Sigmoid = "layer:sigmoid",
    Flatten = "layer:flatten",
    Dropout = "layer:dropout",
    LayerNorm = "layer:layer_norm",
    BatchNorm = "layer:batch_norm",
    Embedding = "layer:embedding",
    Lstm = "layer:lstm",
    Gru = "layer:gru",
    CrossEntropy = "loss:cross_entropy",
    Mse = "loss:mse",
    OtherLoss = "loss:other",
    Sgd = "optimizer:sgd",
    Adam = "optimizer:adam",
    AdamW = "optimizer:adam_w",
    Plain = "algorithm:plain",
    FedProx = "algorithm:fed_prox",
    FedNova = "algorithm:fed_nova",
    Scaffold = "algorithm:scaffold",
    FedDyn = "algorithm:fed_dyn",
    Easgd = "algorithm:easgd",
    Count = "query:count",
    Histogram = "query:histogram",
    Mean = "query:mean",
    Quantiles = "query:quantiles",
    HeavyHitters = "query:heavy_hitters",
    Rate = "query:rate",
    Columns = "feature:columns",
    Frozen = "feature:frozen",
    Personal = "feature:personal",
    PartialWork = "feature:partial_work",
    Cadence = "feature:cadence",
    LocalNoise = "feature:local_noise",
    AnyVersion = "feature:masking_any_version",
    Ring = "feature:ring",
    Exchange = "feature:exchange",
    Gossip = "feature:gossip",
    Parts = "feature:parts",
    Shards = "feature:shards",
}

/// Abilities of the first release: so many at the beginning of [`Ability::ALL`]. It never changes.
const FIRST_ABILITIES: usize = 43;

/// A set of abilities, in 16 bytes: a coordinator keeps one for each waiting client.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Abilities(u128);

impl Abilities {
    /// No ability.
    pub const NONE: Self = Self(0);
    /// Those of the first release, which a client has that tells none.
    pub const FIRST: Self = Self((1 << FIRST_ABILITIES) - 1);
    /// All that this release knows.
    pub const ALL: Self = Self((1 << Ability::ALL.len()) - 1);

    /// What a client needs for this task of a plan.
    pub fn needed(plan: &Plan, task: Task) -> Self {
        let training = &plan.training;
        match (task, &plan.analysis) {
            (Task::Describe, _) => Self::NONE.with(Ability::Describe).with(Ability::Columns),
            (Task::Evaluate, _) => of_model(plan).with(Ability::Evaluate).with(of_loss(training.loss)),
            (Task::Train, Some(analysis)) => {
                let queries = analysis.queries.iter().map(of_query);
                let noise = analysis.noised_by.map(|_| Ability::LocalNoise);
                queries.chain(noise).fold(Self::NONE.with(Ability::Train), Self::with)
            }
            (Task::Train, None) => [
                Some(Ability::Train),
                Some(of_loss(training.loss)),
                Some(of_optimizer(&training.optimizer)),
                Some(of_algorithm(&training.algorithm)),
                training.partial_work.map(|_| Ability::PartialWork),
                (!plan.cadence.is_plain()).then_some(Ability::Cadence),
                (!plan.model.sharing.frozen.is_empty()).then_some(Ability::Frozen),
                plan.masking.filter(|masking| masking.any_version).map(|_| Ability::AnyVersion),
                plan.ring.then_some(Ability::Ring),
                plan.exchange.map(|_| Ability::Exchange),
                plan.exchange.and_then(|exchange| exchange.gossip).map(|_| Ability::Gossip),
                plan.coded.then_some(Ability::Parts),
                plan.shards.map(|_| Ability::Shards),
            ]
            .into_iter()
            .flatten()
            .fold(of_model(plan), Self::with),
        }
    }

    /// These and this one.
    #[must_use]
    pub const fn with(self, ability: Ability) -> Self {
        Self(self.0 | 1 << ability as u32)
    }

    /// These without this one.
    #[must_use]
    pub const fn without(self, ability: Ability) -> Self {
        Self(self.0 & !(1 << ability as u32))
    }

    /// Whether this one is among them.
    pub const fn has(self, ability: Ability) -> bool {
        self.0 & 1 << ability as u32 != 0
    }

    /// Those of `needed` that are not among these.
    #[must_use]
    pub const fn lacks(self, needed: Self) -> Self {
        Self(needed.0 & !self.0)
    }

    /// Those that both have.
    #[must_use]
    pub const fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether they are those of the first release.
    pub fn is_first(&self) -> bool {
        *self == Self::FIRST
    }

    /// The shortest list that reads back as these.
    pub fn to_list(self) -> Vec<String> {
        let missing = self.lacks(Self::FIRST).names().map(|name| format!("-{name}"));
        let added = Self::FIRST.lacks(self).names().map(str::to_owned);
        let short: Vec<String> = [FIRST.to_owned()].into_iter().chain(missing).chain(added).collect();
        let whole: Vec<String> = self.names().map(str::to_owned).collect();
        if whole.len() < short.len() { whole } else { short }
    }

    /// What a list says, from the first name to the last. Unknown names are left out.
    pub fn of_list<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let known = |text: &str| Ability::ALL.iter().copied().find(|ability| ability.as_str() == text);
        names.into_iter().fold(Self::NONE, |abilities, name| match name.strip_prefix('-') {
            Some(name) => known(name).map_or(abilities, |ability| abilities.without(ability)),
            None if name == FIRST => Self(abilities.0 | Self::FIRST.0),
            None => known(name).map_or(abilities, |ability| abilities.with(ability)),
        })
    }

    /// Their names, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Ability::ALL.iter().filter(move |ability| self.has(**ability)).map(|ability| ability.as_str())
    }
}

/// Those of the first release.
impl Default for Abilities {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Abilities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.names().collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Debug for Abilities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.to_list()).finish()
    }
}

impl Serialize for Abilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_list().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Abilities {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of_list(Vec::<String>::deserialize(deserializer)?.iter().map(String::as_str)))
    }
}

fn of_model(plan: &Plan) -> Abilities {
    let network = match &plan.model.spec {
        ModelSpec::Layers(network) => network.layers.iter().map(of_layer).fold(Abilities::NONE, Abilities::with),
        ModelSpec::Parameters(_) => Abilities::NONE.with(Ability::OwnNetwork),
    };
    let personal = (!plan.model.sharing.personal.is_empty()).then_some(Ability::Personal);
    let columns = plan.model.inputs.as_ref().map(|_| Ability::Columns);
    personal.into_iter().chain(columns).fold(network, Abilities::with)
}

fn of_layer(layer: &Layer) -> Ability {
    match layer {
        Layer::Linear { .. } => Ability::Linear,
        Layer::LowRank { .. } => Ability::LowRank,
        Layer::Conv2d { .. } => Ability::Conv2d,
        Layer::MaxPool2d { .. } => Ability::MaxPool2d,
        Layer::AvgPool2d { .. } => Ability::AvgPool2d,
        Layer::Relu {} => Ability::Relu,
        Layer::Gelu {} => Ability::Gelu,
        Layer::Tanh {} => Ability::Tanh,
        Layer::Sigmoid {} => Ability::Sigmoid,
        Layer::Flatten {} => Ability::Flatten,
        Layer::Dropout { .. } => Ability::Dropout,
        Layer::LayerNorm { .. } => Ability::LayerNorm,
        Layer::BatchNorm { .. } => Ability::BatchNorm,
        Layer::Embedding { .. } => Ability::Embedding,
        Layer::Lstm { .. } => Ability::Lstm,
        Layer::Gru { .. } => Ability::Gru,
    }
}

fn of_loss(loss: Loss) -> Ability {
    match loss {
        Loss::CrossEntropy => Ability::CrossEntropy,
        Loss::Mse => Ability::Mse,
        Loss::Other => Ability::OtherLoss,
    }
}

fn of_optimizer(optimizer: &Optimizer) -> Ability {
    match optimizer {
        Optimizer::Sgd { .. } => Ability::Sgd,
        Optimizer::Adam { .. } => Ability::Adam,
        Optimizer::AdamW { .. } => Ability::AdamW,
    }
}

/// The ability that a plan with this algorithm needs.
pub fn of_algorithm(algorithm: &Algorithm) -> Ability {
    match algorithm {
        Algorithm::Plain => Ability::Plain,
        Algorithm::FedProx { .. } => Ability::FedProx,
        Algorithm::FedNova { .. } => Ability::FedNova,
        Algorithm::Scaffold { .. } => Ability::Scaffold,
        Algorithm::FedDyn { .. } => Ability::FedDyn,
        Algorithm::Easgd { .. } => Ability::Easgd,
    }
}

fn of_query(query: &Query) -> Ability {
    match query {
        Query::Count { .. } => Ability::Count,
        Query::Histogram { .. } => Ability::Histogram,
        Query::Mean { .. } => Ability::Mean,
        Query::Quantiles { .. } => Ability::Quantiles,
        Query::HeavyHitters { .. } => Ability::HeavyHitters,
        Query::Rate { .. } => Ability::Rate,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hash::Sha256Hash;

    fn list(abilities: Abilities) -> String {
        serde_json::to_string(&abilities).unwrap()
    }

    fn read(json: &str) -> Abilities {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_abilities_of_the_first_release_are_frozen() {
        let names = Abilities::FIRST.names().collect::<Vec<_>>().join("\n");
        let hash = "9affd6acabc4f700a7ebeec65557b321e899c23f916a2c42e26a9e3ee14d7298";
        assert_eq!(
            Sha256Hash::of(names.as_bytes()).to_string(),
            hash,
            "clients that tell no list have these:\n{names}"
        );
        assert!(Abilities::FIRST.lacks(Abilities::ALL).names().count() == Ability::ALL.len() - FIRST_ABILITIES);
        assert!(Ability::ALL.len() < 128);
        assert_eq!(size_of::<Abilities>(), 16);
    }

    #[test]
    fn a_list_is_short_and_reads_back() {
        let few = Abilities::NONE.with(Ability::Train).with(Ability::Linear);
        let most = Abilities::FIRST.without(Ability::Gru).without(Ability::Scaffold);
        for (abilities, json) in [
            (Abilities::FIRST, r#"["first"]"#),
            (few, r#"["task:train","layer:linear"]"#),
            (most, r#"["first","-layer:gru","-algorithm:scaffold"]"#),
            (Abilities::NONE, "[]"),
        ] {
            assert_eq!(list(abilities), json);
            assert_eq!(read(json), abilities);
        }
    }

    #[test]
    fn names_of_newer_clients_are_left_out() {
        let newer = read(r#"["first","layer:conv9d","-layer:hologram","","-","first","-layer:gru"]"#);
        assert_eq!(newer, Abilities::FIRST.without(Ability::Gru));
        assert!(serde_json::from_str::<Abilities>("[7]").is_err());
    }

    #[test]
    fn a_plan_needs_what_it_names_and_nothing_else() {
        let plan = |settings: serde_json::Value| -> Plan {
            let mut plan = json!({
                "model": { "input": [4, 3], "layers": [{ "kind": "gru", "hidden_size": 2 }, { "kind": "relu" }] },
                "training": { "epochs": 1, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
                "codec": "f32", "weight_max": 10,
            });
            settings.as_object().unwrap().iter().for_each(|(name, value)| plan[name] = value.clone());
            serde_json::from_value(plan).unwrap()
        };
        let needed = |settings, task| Abilities::needed(&plan(settings), task).to_string();
        let trained = "task:train, layer:relu, layer:gru, loss:cross_entropy, optimizer:sgd, algorithm:plain";
        assert_eq!(needed(json!({}), Task::Train), trained);
        assert_eq!(needed(json!({}), Task::Evaluate), "task:evaluate, layer:relu, layer:gru, loss:cross_entropy");
        assert_eq!(needed(json!({}), Task::Describe), "task:describe, feature:columns");
        let own = json!({
            "model": { "parameters": [{ "name": "w", "shape": [2] }, { "name": "p", "shape": [2] }], "personal": ["p"] },
            "training": {
                "epochs": 1, "partial_work": 0.5, "loss": "mse",
                "optimizer": { "kind": "adam_w", "learning_rate": 0.1 },
                "algorithm": { "kind": "scaffold", "clients": 9 },
            },
            "cadence": { "fetch_every": 2, "push_every": 1 },
        });
        let expected = "task:train, model:parameters, loss:mse, optimizer:adam_w, algorithm:scaffold, \
                        feature:personal, feature:partial_work, feature:cadence";
        assert_eq!(needed(own, Task::Train), expected);
        let asks = json!({ "analysis": { "queries": [
            { "kind": "mean", "name": "q", "column": "x", "range": [0, 1] },
        ] } });
        assert_eq!(needed(asks, Task::Train), "task:train, query:mean");
    }
}
