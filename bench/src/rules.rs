//! Rules in learning: the same federated training once per rule, by a real coordinator and real clients.
//!
//! Cohorts, the order of the examples and the initial model depend on the seed only, so rules are compared on the same
//! clients.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use tributary_protocol::job_file::Aggregation;
use tributary_protocol::operator::Round;
use tributary_protocol::plan::Algorithm;

use crate::error::BenchError;
use tributary::data::partition::Partition;
use tributary::demo::args::{Dataset, DemoArgs, Network};
use tributary::demo::changes::Changes;
use tributary::demo::stragglers::Stragglers;
use tributary::demo::{job_file, learn};
use tributary::error::CliError;
use tributary::format::{bytes, or_dash, percent};
use tributary::output::Output;
use tributary::stopwatch::Stopwatch;

/// Last evaluated rounds whose mean is reported: a single round varies too much.
const LAST_ROUNDS: usize = 5;

/// What is learned; the same for every rule.
#[derive(Clone, Debug, Args)]
pub(crate) struct Learning {
    /// digits (embedded), mnist, synthetic:A,B (FedProx's generated task, whose clients differ by A in their models and
    /// by B in their data), or the next character of a play: shakespeare (clients are roles), shakespeare:blocks.
    #[arg(long, default_value_t = Dataset::Digits, value_name = "DATASET")]
    pub(crate) dataset: Dataset,
    /// Folder of MNIST's four IDX files, of which missing ones are downloaded; or of the play, input.txt.
    #[arg(long, default_value = "mnist-data", value_name = "FOLDER")]
    pub(crate) data_dir: PathBuf,
    /// How the examples are split among the clients: iid, dirichlet:A or shards:N. A synthetic task has a split of its
    /// own.
    #[arg(long, value_name = "PARTITION")]
    pub(crate) partition: Option<Partition>,
    /// The network for images.
    #[arg(long, value_enum, default_value_t = Network::Mlp)]
    pub(crate) model: Network,
    /// Clients that train [default: 20 for digits, 100 for mnist and shakespeare, 30 for synthetic].
    #[arg(long, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) clients: Option<u32>,
    /// Clients of a round [default: 10; all for `tributary-bench attack`].
    #[arg(long, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) cohort: Option<u32>,
    /// Passes over a client's examples in a round [default: 5 for digits, 1 for mnist and shakespeare, 20 for
    /// synthetic].
    #[arg(long, value_name = "EPOCHS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) epochs: Option<u32>,
    /// Learning rate of the clients [default: 0.2 for digits, 0.1 for mnist, 1 for shakespeare, 0.01 for
    /// synthetic].
    #[arg(long, value_name = "RATE")]
    pub(crate) learning_rate: Option<f64>,
    /// Rounds per rule and seed.
    #[arg(long, default_value_t = 30, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Rounds and bytes are counted up to this accuracy, from 0 to 1.
    #[arg(long, default_value_t = 0.9, value_name = "ACCURACY")]
    pub(crate) target: f64,
    /// A seed. May be repeated.
    #[arg(long = "seed", value_name = "NUMBER", default_values_t = [1, 2, 3])]
    pub(crate) seeds: Vec<u64>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RulesArgs {
    /// A rule, with its main setting if it should not be the default: fed_avg, fed_prox=MU, scaffold, fed_nova,
    /// fed_dyn=ALPHA, fed_avg_m=MOMENTUM, fed_adam=RATE, fed_yogi=RATE; or lbfgs=PAIRS, with all clients in each round.
    /// May be repeated.
    #[arg(long = "rule", value_name = "RULE", default_values = NAMES)]
    rules: Vec<Rule>,
    /// In each round this share of the cohort has time for a part of its epochs only, from one to all. What these
    /// clients learned counts, but `fed_avg` drops them.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = parse_share)]
    stragglers: f64,
    #[command(flatten)]
    learning: Learning,
}

const NAMES: [&str; 8] =
    ["fed_avg", "fed_prox", "scaffold", "fed_nova", "fed_dyn", "fed_avg_m", "fed_adam", "fed_yogi"];

/// A rule of a name, with its main setting.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// As it was written.
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Averaging,
    Proximal { mu: f64 },
    Scaffold,
    Normalised,
    Dynamic { alpha: f64 },
    Momentum { momentum: f64 },
    Adam { rate: f64 },
    Yogi { rate: f64 },
    Lbfgs { pairs: u32 },
}

/// One row. Programs rely on the names of its members.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) rule: String,
    pub(crate) dataset: String,
    pub(crate) attack: Option<&'static str>,
    /// The share of clients that attack.
    pub(crate) share: f64,
    /// The share of clients that have time for a part of their epochs.
    pub(crate) stragglers: f64,
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
    /// The first round whose model reached the target accuracy.
    pub(crate) rounds_to_target: Option<u32>,
    /// Bytes of updates up to that round.
    pub(crate) bytes_up_to_target: Option<u64>,
    /// Bytes of updates in all rounds.
    pub(crate) bytes_up: u64,
    /// Bytes that the clients of rounds downloaded: models, and control variates.
    pub(crate) bytes_down: u64,
    /// Mean of the last five rounds, on the held-out examples.
    pub(crate) accuracy: Option<f64>,
    /// The same of the loss.
    pub(crate) loss: Option<f64>,
    /// Loss of the last model on the training examples of all clients.
    pub(crate) training_loss: Option<f64>,
    /// Wall time with evaluations.
    pub(crate) seconds: f64,
}

pub(crate) async fn run(args: &RulesArgs, output: &Output) -> Result<(), CliError> {
    for rule in &args.rules {
        for seed in &args.learning.seeds {
            let demo = demo(&args.learning, *seed, Changes::default());
            let clients = demo.clients();
            let changes = rule.changes(clients)?;
            let cohort = args.learning.cohort.or(changes.cohort).unwrap_or(clients.min(10));
            let stragglers = (args.stragglers > 0.0)
                .then_some(Stragglers { share: args.stragglers, count: rule.kind != Kind::Averaging });
            let changes = Changes { cohort: Some(cohort), stragglers, ..changes };
            let row = measure(&args.learning, *seed, changes, output).await?;
            let row = Row { rule: rule.text.clone(), stragglers: args.stragglers, ..row };
            output.object(&row, || text(&row))?;
        }
    }
    Ok(())
}

/// One training.
pub(crate) async fn measure(
    learning: &Learning,
    seed: u64,
    changes: Changes,
    output: &Output,
) -> Result<Row, CliError> {
    let demo = demo(learning, seed, changes);
    job_file(&demo)?.check().map_err(|error| BenchError::Train(error.to_string()))?;
    let clock = Stopwatch::start();
    let learned = learn(&demo, output).await?;
    let seconds = clock.elapsed().as_secs_f64();
    let row = row(learning, &learned.rounds);
    Ok(Row { seed, seconds, training_loss: learned.training_loss().await?, ..row })
}

pub(crate) fn demo(learning: &Learning, seed: u64, changes: Changes) -> DemoArgs {
    let changes = Changes { learning_rate: learning.learning_rate, ..changes };
    DemoArgs {
        rounds: Some(learning.rounds),
        seed,
        dataset: learning.dataset,
        data_dir: learning.data_dir.clone(),
        partition: learning.partition,
        model: learning.model,
        clients: learning.clients,
        epochs: learning.epochs,
        no_faults: true,
        changes: Box::new(changes),
        ..DemoArgs::default()
    }
}

fn row(learning: &Learning, rounds: &[Round]) -> Row {
    let reached = rounds.iter().position(|round| round.accuracy.is_some_and(|accuracy| accuracy >= learning.target));
    let bytes_of = |rounds: &[Round]| rounds.iter().map(|round| round.traffic.bytes_up).sum::<u64>();
    let last = |of: fn(&Round) -> Option<f64>| {
        let values: Vec<f64> = rounds.iter().filter_map(of).collect();
        let last = &values[values.len().saturating_sub(LAST_ROUNDS)..];
        (!last.is_empty()).then(|| last.iter().sum::<f64>() / last.len() as f64)
    };
    Row {
        rule: String::new(),
        dataset: learning.dataset.to_string(),
        attack: None,
        share: 0.0,
        stragglers: 0.0,
        seed: 0,
        rounds: rounds.len() as u32,
        rounds_to_target: reached.map(|index| rounds[index].number),
        bytes_up_to_target: reached.map(|index| bytes_of(&rounds[..=index])),
        bytes_up: bytes_of(rounds),
        bytes_down: rounds.iter().map(|round| round.traffic.bytes_down).sum(),
        accuracy: last(|round| round.accuracy),
        loss: last(|round| round.loss),
        training_loss: None,
        seconds: 0.0,
    }
}

fn text(row: &Row) -> String {
    format!(
        "{:<16} {:<14} seed {:>3}  to target {:>4} rounds, {:>9} up  {:>9} up and {:>9} down in {} rounds  accuracy {}  loss {}, training {}  {:.0} s",
        row.rule,
        row.dataset,
        row.seed,
        or_dash(row.rounds_to_target, |rounds| rounds.to_string()),
        or_dash(row.bytes_up_to_target, bytes),
        bytes(row.bytes_up),
        bytes(row.bytes_down),
        row.rounds,
        or_dash(row.accuracy, percent),
        or_dash(row.loss, |loss| format!("{loss:.4}")),
        or_dash(row.training_loss, |loss| format!("{loss:.4}")),
        row.seconds,
    )
}

impl Rule {
    /// What it changes in a job of this many clients.
    fn changes(&self, clients: u32) -> Result<Changes, BenchError> {
        let algorithm = match self.kind {
            Kind::Proximal { mu } => Algorithm::FedProx { mu, adaptive: None },
            Kind::Scaffold => Algorithm::Scaffold { clients, control: tributary_protocol::plan::Control::Steps },
            Kind::Normalised => Algorithm::FedNova { mu: 0.0 },
            Kind::Dynamic { alpha } => Algorithm::FedDyn { alpha, clients },
            _ => Algorithm::Plain,
        };
        let aggregation = match self.kind {
            Kind::Scaffold | Kind::Dynamic { .. } => json!({ "combine": "uniform_mean" }),
            Kind::Momentum { momentum } => json!({ "optimizer": { "kind": "sgd", "momentum": momentum } }),
            Kind::Adam { rate } => json!({ "optimizer": { "kind": "adam", "learning_rate": rate } }),
            Kind::Yogi { rate } => json!({ "optimizer": { "kind": "yogi", "learning_rate": rate } }),
            Kind::Lbfgs { pairs } => json!({ "optimizer": { "kind": "lbfgs", "pairs": pairs } }),
            _ => json!({}),
        };
        let aggregation = aggregation_of(aggregation)?;
        // Losses of different clients cannot be compared, so all take part in each round.
        let sends_gradient = matches!(self.kind, Kind::Lbfgs { .. });
        Ok(Changes {
            algorithm,
            aggregation,
            sends_gradient,
            cohort: sends_gradient.then_some(clients),
            ..Changes::default()
        })
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "it must be from 0 to 1".into())
}

pub(crate) fn aggregation_of(value: Value) -> Result<Aggregation, BenchError> {
    serde_json::from_value(value).map_err(|error| BenchError::Train(error.to_string()))
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let number = |default: f64| match value {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| format!("{value:?} is not a number")),
        };
        let kind = match (name, value) {
            ("fed_avg", None) => Kind::Averaging,
            ("scaffold", None) => Kind::Scaffold,
            ("fed_nova", None) => Kind::Normalised,
            ("fed_prox", _) => Kind::Proximal { mu: number(0.01)? },
            ("fed_dyn", _) => Kind::Dynamic { alpha: number(0.1)? },
            ("fed_avg_m", _) => Kind::Momentum { momentum: number(0.9)? },
            ("fed_adam", _) => Kind::Adam { rate: number(0.1)? },
            ("fed_yogi", _) => Kind::Yogi { rate: number(0.01)? },
            ("lbfgs", None) => Kind::Lbfgs { pairs: 8 },
            ("lbfgs", Some(pairs)) => {
                Kind::Lbfgs { pairs: pairs.parse().map_err(|_| format!("{pairs:?} is not a number of pairs"))? }
            }
            _ => return Err(format!("no such rule; there are {}, lbfgs", NAMES.join(", "))),
        };
        Ok(Self { text: text.to_owned(), kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_makes_a_valid_job_and_others_are_refused() {
        let learning = learning("synthetic:1,1");
        for text in
            NAMES.into_iter().chain(["fed_prox=0", "fed_prox=1", "fed_dyn=0.01", "fed_adam=0.003", "lbfgs", "lbfgs=20"])
        {
            let rule: Rule = text.parse().unwrap();
            let changes = rule.changes(30).unwrap();
            let changes = Changes { cohort: changes.cohort.or(Some(10)), ..changes };
            job_file(&demo(&learning, 1, changes)).unwrap().check().unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        for text in ["", "fedavg", "fed_avg=1", "scaffold=2", "fed_prox=a", "lbfgs=0.5"] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }

    fn learning(dataset: &str) -> Learning {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            learning: Learning,
        }
        let line = ["rules", "--dataset", dataset, "--clients", "4", "--rounds", "2", "--seed", "1", "--epochs", "1"];
        <Line as clap::Parser>::parse_from(line).learning
    }

    /// Goal: a rule with a state on both sides learns through coordinator and clients, and its row counts the bytes.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_row_counts_what_scaffold_sends_beside_the_delta() {
        let learning = learning("digits");
        let mut sent = Vec::new();
        for text in ["fed_avg", "scaffold"] {
            let changes = Changes { cohort: Some(4), ..text.parse::<Rule>().unwrap().changes(4).unwrap() };
            let row = measure(&learning, 1, changes, &Output::kept(true).0).await.unwrap();
            assert_eq!((row.rounds, row.accuracy.is_some()), (2, true));
            sent.push(row);
        }
        assert!(sent[1].bytes_up > sent[0].bytes_up * 3 / 2, "{sent:?}");
        assert!(sent[1].bytes_down > sent[0].bytes_down * 5 / 4, "the second version has a control variate: {sent:?}");
    }

    /// Goal: the updates of stragglers are dropped by `fed_avg` and count with other rules, and the row says how well
    /// the last model fits the examples of all clients.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn stragglers_are_dropped_by_averaging_and_counted_by_others() {
        let learning = Learning { epochs: Some(3), ..learning("digits") };
        let mut rows = Vec::new();
        for count in [false, true] {
            let changes =
                Changes { cohort: Some(4), stragglers: Some(Stragglers { share: 0.5, count }), ..Changes::default() };
            rows.push(measure(&learning, 1, changes, &Output::kept(true).0).await.unwrap());
        }
        assert_eq!(rows.iter().map(|row| row.rounds).collect::<Vec<_>>(), [2, 2]);
        assert!(rows[0].bytes_up < rows[1].bytes_up, "{rows:?}");
        for row in rows {
            let (loss, held_out) = (row.training_loss.unwrap(), row.loss.unwrap());
            assert!(loss > 0.0 && loss < 2.0 * held_out, "{loss} and {held_out} are of the same digits");
        }
    }

    /// Goal: logistic regression with few clients that always take part is learned in far fewer rounds by L-BFGS.
    /// Method: the loss of a round is that of the model that it started from, before any local step; federated
    /// averaging reports the mean over its local steps, which is lower.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lbfgs_reaches_the_loss_of_200_rounds_of_averaging_in_30() {
        let mut losses = Vec::new();
        for (text, rounds) in [("fed_avg", 200), ("lbfgs", 30)] {
            let learning =
                Learning { model: Network::Logistic, rounds, learning_rate: Some(0.1), ..learning("digits") };
            let changes = Changes { cohort: Some(4), ..text.parse::<Rule>().unwrap().changes(4).unwrap() };
            let learned = learn(&demo(&learning, 1, changes), &Output::kept(true).0).await.unwrap();
            losses.push(learned.rounds.iter().filter_map(|round| round.training_loss).fold(f64::INFINITY, f64::min));
        }
        assert!(losses[1] < losses[0] && losses[0] < 0.1, "{losses:?}");
    }
}
