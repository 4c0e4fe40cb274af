//! Changes of a job file of federated averaging, for the tests.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::job_file::JobFile;

const BASE: &str = "
    name = 'digits'
    population = 'demo'
    model.input = [8]
    model.layers = [{ kind = 'linear', out_features = 4 }, { kind = 'relu' }, { kind = 'linear', out_features = 2 }]
    training.steps = 1
    training.optimizer = { kind = 'sgd', learning_rate = 0.1 }
";

/// Settings that are changed. Those of `with` are set first, so that the change is a job by itself: another change may
/// set them otherwise. The value `'absent'` removes a setting.
pub(super) struct Change {
    pub(super) name: &'static str,
    set: &'static str,
    with: &'static str,
}

const fn alone(name: &'static str, set: &'static str) -> Change {
    Change { name, set, with: "" }
}

const fn with(name: &'static str, set: &'static str, with: &'static str) -> Change {
    Change { name, set, with }
}

const UNIFORM: &str = "aggregation.combine = 'uniform_mean'";
const PRIVATE: &str = "aggregation.combine = 'uniform_mean'\nstop.rounds = 100";
const PERSONAL: &str = "model.personal = ['layers.2.*']";

/// Each value of a setting that another setting may not go with.
pub(super) const CHANGES: &[Change] = &[
    alone("updates_goal", "round.updates_goal = 12"),
    alone("updates_goal 200", "round.updates_goal = 200"),
    alone("updates_goal 900", "round.updates_goal = 900"),
    alone("updates_min", "round.updates_min = 7"),
    alone("updates_min 2", "round.updates_min = 2"),
    alone("over_selection", "round.over_selection = 2.0"),
    alone("available_min", "round.available_min = 30"),
    alone("selection_timeout_ms", "round.selection_timeout_ms = 5000"),
    alone("deadline_ms", "round.deadline_ms = 5000"),
    alone("backoff_ms", "round.backoff_ms = 5000"),
    alone("uniform", "round.selection = { kind = 'uniform' }"),
    alone("weighted", "round.selection = { kind = 'weighted' }"),
    alone("power_of_choice", "round.selection = { kind = 'power_of_choice', candidates = 100 }"),
    alone("poisson", "round.selection = { kind = 'poisson', rate = 0.5 }"),
    alone("utility", "round.selection = { kind = 'utility' }"),
    alone("adapt", "round.adapt = {}"),
    alone("adapt updates_goal_min", "round.adapt = { updates_goal_min = 6 }"),
    alone("synchronous", "round.mode = { kind = 'synchronous' }"),
    alone("stale_synchronous", "round.mode = { kind = 'stale_synchronous', members = 8 }"),
    alone("buffered", "round.mode = { kind = 'buffered', buffer = 8, concurrency = 8 }"),
    alone("buffered, 300", "round.mode = { kind = 'buffered', buffer = 300, concurrency = 8 }"),
    alone(
        "buffered, divisor weights",
        "round.mode = { kind = 'buffered', buffer = 8, concurrency = 8, divisor = 'weights' }",
    ),
    alone(
        "buffered, constant",
        "round.mode = { kind = 'buffered', buffer = 8, concurrency = 8, staleness_weight = { kind = 'constant' } }",
    ),
    alone(
        "buffered, constant, fetch_every",
        "round.mode = { kind = 'buffered', buffer = 8, concurrency = 8, staleness_weight = { kind = 'constant' }, \
         fetch_every = 2 }",
    ),
    alone("buffered, push_every", "round.mode = { kind = 'buffered', buffer = 8, concurrency = 8, push_every = 2 }"),
    alone("separation_rounds", "eligibility.separation_rounds = 2"),
    alone("epochs", "training.epochs = 1\ntraining.steps = 'absent'"),
    alone("steps 2", "training.steps = 2"),
    alone("work_schedule", "training.work_schedule = [{ version = 3, steps = 2 }]"),
    alone("batch_size", "training.batch_size = 10"),
    alone("partial_work", "training.partial_work = 0.9"),
    with("personal_epochs", "training.personal_epochs = 1", PERSONAL),
    alone("sgd momentum", "training.optimizer = { kind = 'sgd', learning_rate = 0.1, momentum = 0.9 }"),
    alone(
        "sgd nesterov",
        "training.optimizer = { kind = 'sgd', learning_rate = 0.1, momentum = 0.9, nesterov = true }",
    ),
    alone("sgd weight_decay", "training.optimizer = { kind = 'sgd', learning_rate = 0.1, weight_decay = 0.01 }"),
    alone("client adam", "training.optimizer = { kind = 'adam', learning_rate = 0.1 }"),
    alone("client adam_w", "training.optimizer = { kind = 'adam_w', learning_rate = 0.1 }"),
    alone("training schedule", "training.schedule = { kind = 'warmup', versions = 3 }"),
    alone("plain", "training.algorithm = { kind = 'plain' }"),
    alone("fed_prox", "training.algorithm = { kind = 'fed_prox', mu = 0.1 }"),
    alone("fed_prox, 0", "training.algorithm = { kind = 'fed_prox', mu = 0.0 }"),
    alone("fed_prox, adaptive", "training.algorithm = { kind = 'fed_prox', mu = 0.1, adaptive = {} }"),
    alone("fed_nova", "training.algorithm = { kind = 'fed_nova' }"),
    alone("fed_nova, mu", "training.algorithm = { kind = 'fed_nova', mu = 0.1 }"),
    with("scaffold", "training.algorithm = { kind = 'scaffold', clients = 2000 }", UNIFORM),
    with("scaffold, 18", "training.algorithm = { kind = 'scaffold', clients = 18 }", UNIFORM),
    with("fed_dyn", "training.algorithm = { kind = 'fed_dyn', alpha = 0.1, clients = 2000 }", UNIFORM),
    with("easgd", "training.algorithm = { kind = 'easgd', alpha = 0.0001 }", UNIFORM),
    with("easgd, 1 / 13", "training.algorithm = { kind = 'easgd', alpha = 0.07 }", UNIFORM),
    alone("weighted_mean", "aggregation.combine = 'weighted_mean'"),
    alone("uniform_mean", UNIFORM),
    alone("q_fedavg", "aggregation.combine = { kind = 'q_fedavg', q = 1.0 }"),
    alone("norm_clipping", "aggregation.combine = { kind = 'norm_clipping', norm = 3.0 }"),
    alone("norm_clipping, adaptive", "aggregation.combine = { kind = 'norm_clipping', norm = 3.0, adaptive = {} }"),
    alone("median", "aggregation.combine = 'median'"),
    alone("trimmed_mean", "aggregation.combine = 'trimmed_mean'"),
    alone("trimmed_mean, 0", "aggregation.combine = { kind = 'trimmed_mean', trim = 0.0 }"),
    alone("krum", "aggregation.combine = { kind = 'krum', byzantine = 1 }"),
    alone("multi_krum", "aggregation.combine = { kind = 'multi_krum', byzantine = 1, keep = 4 }"),
    with("bulyan", "aggregation.combine = { kind = 'bulyan', byzantine = 1 }", "round.updates_min = 7"),
    alone("geometric_median", "aggregation.combine = 'geometric_median'"),
    alone("centered_clipping", "aggregation.combine = { kind = 'centered_clipping', radius = 1.0 }"),
    alone("server sgd 0.5", "aggregation.optimizer = { kind = 'sgd', learning_rate = 0.5 }"),
    alone("server momentum", "aggregation.optimizer = { kind = 'sgd', momentum = 0.9 }"),
    alone("adagrad", "aggregation.optimizer = { kind = 'adagrad' }"),
    alone("adam", "aggregation.optimizer = { kind = 'adam' }"),
    alone("yogi", "aggregation.optimizer = { kind = 'yogi' }"),
    alone("lbfgs", "aggregation.optimizer = { kind = 'lbfgs' }"),
    alone("aggregation schedule", "aggregation.schedule = { kind = 'warmup', versions = 3 }"),
    alone("f32", "update.codec = 'f32'"),
    alone("f16", "update.codec = 'f16'"),
    alone("bf16", "update.codec = 'bf16'"),
    alone("int8", "update.codec = 'int8'"),
    alone("int4", "update.codec = 'int4'"),
    alone("ternary", "update.codec = 'ternary'"),
    alone("qsgd", "update.codec = 'qsgd'"),
    alone("random_k", "update.codec = 'random_k'"),
    alone("top_k", "update.codec = 'top_k'"),
    alone("dgc", "update.codec = 'dgc'"),
    alone("sign", "update.codec = 'sign'"),
    alone("eden", "update.codec = 'eden'"),
    alone("hierarchical", "update.codec = 'hierarchical'"),
    alone("norm_max 2", "update.norm_max = 2.0"),
    alone("norm_max 4", "update.norm_max = 4.0"),
    alone("norm_max quantile", "update.norm_max = { quantile = 0.5 }"),
    alone("download int8", "download.codec = 'int8'"),
    alone("download delta", "download.delta = true"),
    alone("personal", PERSONAL),
    alone("frozen", "model.frozen = ['layers.0.weight']"),
    alone(
        "batch_norm",
        "model.layers = [{ kind = 'linear', out_features = 4 }, { kind = 'batch_norm' }, \
         { kind = 'linear', out_features = 2 }]",
    ),
    alone(
        "dropout",
        "model.layers = [{ kind = 'linear', out_features = 4 }, { kind = 'dropout', probability = 0.5 }, \
         { kind = 'linear', out_features = 2 }]",
    ),
    alone(
        "low_rank",
        "model.layers = [{ kind = 'linear', out_features = 4 }, { kind = 'relu' }, \
         { kind = 'low_rank', out_features = 2, rank = 1 }]",
    ),
    alone(
        "150,000,000 parameters",
        "model.layers = [{ kind = 'linear', out_features = 15000000 }, { kind = 'relu' }, \
         { kind = 'linear', out_features = 2 }]",
    ),
    alone(
        "parameters",
        "model.input = 'absent'\nmodel.layers = 'absent'\n\
         model.parameters = [{ name = 'layers.2.w', shape = [2] }, { name = 'layers.0.weight', shape = [2] }]",
    ),
    alone(
        "parameters called control",
        "model.input = 'absent'\nmodel.layers = 'absent'\n\
         model.parameters = [{ name = 'layers.0.weight', shape = [2] }, { name = 'layers.2.w', shape = [2] }, \
         { name = 'control.layers.2.w', shape = [2] }]",
    ),
    alone("evaluation", "evaluation.where = 'clients'"),
    with("privacy", "privacy.epsilon = 2.0\nprivacy.delta = 1e-6", PRIVATE),
    with("secure_aggregation", "secure_aggregation.levels = 8", UNIFORM),
    with("secure_aggregation, groups of 3", "secure_aggregation.group = 3", UNIFORM),
    with("secure_aggregation, one clip", "secure_aggregation.clip = 1.0", UNIFORM),
    alone("group", "group.topology = { kind = 'ring' }"),
    with("group, every 4 steps", "group.topology = { kind = 'ring', every = { steps = 4 } }", UNIFORM),
    alone("coded", "coded.parts = ['a', 'b']\ncoded.stragglers = 1"),
    with(
        "coded, cyclic",
        "coded.parts = ['a', 'b', 'c']\ncoded.stragglers = 1\ncoded.code = 'cyclic'",
        "update.codec = 'f32'",
    ),
    with(
        "coded, tree",
        "coded.parts = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']\ncoded.stragglers = 1\n\
         coded.tree = { children = 2, levels = 2 }",
        "update.codec = 'f32'\naggregation.combine = 'uniform_mean'",
    ),
    alone("aggregation.shards", "aggregation.shards = 3"),
    with("group, gossip", "group.topology = { kind = 'gossip', graph = 'torus', steps = 4 }", UNIFORM),
];

/// The job file with these changes.
pub(super) fn job(changes: &[&Change]) -> JobFile {
    let mut file: Table = toml::from_str(BASE).unwrap();
    for text in changes.iter().map(|change| change.with).chain(changes.iter().map(|change| change.set)) {
        for (section, settings) in toml::from_str::<Table>(text).unwrap() {
            let Value::Table(settings) = settings else { panic!("{text} names no section") };
            let Value::Table(of_file) = file.entry(section).or_insert_with(|| Value::Table(Table::new())) else {
                panic!("{text} names no section")
            };
            of_file.extend(settings);
            of_file.retain(|_, value| value.as_str() != Some("absent"));
        }
    }
    file.try_into().unwrap()
}

impl Change {
    /// Section and key of what it sets.
    fn keys(&self) -> BTreeSet<(String, String)> {
        let sections = toml::from_str::<Table>(self.set).unwrap().into_iter();
        let keys = sections.flat_map(|(section, settings)| {
            let keys: Vec<String> = settings.as_table().unwrap().keys().cloned().collect();
            keys.into_iter().map(move |key| (section.clone(), key))
        });
        keys.collect()
    }

    /// Whether both can be made: they set different settings.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.keys().is_disjoint(&other.keys())
    }

    /// Whether it gives this setting a value of this kind.
    pub(super) fn is_of(&self, section: &str, key: &str, kind: &str) -> bool {
        self.keys().contains(&(section.to_owned(), key.to_owned())) && self.set.contains(&format!("'{kind}'"))
    }
}
