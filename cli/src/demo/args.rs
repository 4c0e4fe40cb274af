//! Options of `tributary demo`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use reqwest::Url;
use tributary_protocol::seed::Seed;
use tributary_protocol::update::Codec;

use super::changes::Changes;
use super::synthetic::Synthetic;
use super::text::Split;
use crate::data::partition::Partition;
use crate::options::parse_codec;

/// Fewest clients of which one may be too slow and one may die while the rounds continue.
const FAULTY_CLIENTS_MIN: u32 = 5;

#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Ends after this many committed rounds [default: 30 for digits, 87 for mnist].
    #[arg(long, value_name = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Clients that train [default: 20 for digits, 100 for mnist].
    #[arg(long, value_name = "CLIENTS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub clients: Option<u32>,
    /// The seed of every random choice: split, initial model, cohorts, order of the examples.
    #[arg(long, default_value_t = 7, value_name = "NUMBER")]
    pub seed: u64,
    /// Clients that train at the same time [default: one per CPU core].
    #[arg(long, value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Handwritten digits: the small embedded data set (digits), or mnist. Or synthetic:A,B: FedProx's generated task,
    /// whose clients differ by A in their models and by B in their data. Or shakespeare: the next character of a play,
    /// whose roles are the clients; shakespeare:blocks gives each client a block of the text.
    #[arg(long, default_value_t = Dataset::Digits, value_name = "DATASET")]
    pub dataset: Dataset,
    /// Folder of MNIST's four IDX files, gzipped or not, of which missing ones are downloaded; or of the play,
    /// input.txt.
    #[arg(long, default_value = "mnist-data", value_name = "FOLDER")]
    pub data_dir: PathBuf,
    /// The folder that missing MNIST files are downloaded from.
    #[arg(long, default_value = super::mnist::DOWNLOAD_URL, value_name = "URL", value_parser = parse_base_url)]
    pub mnist_url: Url,
    /// How the examples are split among the clients: iid, dirichlet:A (a small A leaves each client few classes), or
    /// shards:N (N shards of one label each) [default: dirichlet:0.5 for digits, iid for mnist].
    #[arg(long, value_name = "PARTITION")]
    pub partition: Option<Partition>,
    /// The network: a multi-layer perceptron or a convolutional one.
    #[arg(long, value_enum, default_value_t = Network::Mlp)]
    pub model: Network,
    /// Passes over a client's examples in a round [default: 5 for digits, 1 for mnist].
    #[arg(long, value_name = "EPOCHS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub epochs: Option<u32>,
    /// Rounds from one evaluation to the next. Only `tributary-bench training` sets it.
    #[arg(skip = 1u32)]
    pub evaluate_every: u32,
    /// Only `tributary-bench rules` and `tributary-bench attack` set it.
    #[arg(skip)]
    pub changes: Box<Changes>,
    /// The codec of the updates: its name (`ternary`), or a JSON object with its settings.
    #[arg(long, value_name = "CODEC", value_parser = parse_codec)]
    pub codec: Option<Codec>,
    /// Ends as soon as the model reaches this accuracy (from 0 to 1) on the held-out examples.
    #[arg(long, value_name = "ACCURACY", value_parser = parse_accuracy)]
    pub target: Option<f64>,
    /// A job file instead of the built-in job. --rounds and --target still apply.
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub job: Option<PathBuf>,
    /// Without the slow and the dying client. Each round waits for its whole cohort, so that equal seeds give equal
    /// models.
    #[arg(long)]
    pub no_faults: bool,
    /// Where the coordinator listens; port 0 is any free port.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Keeps the coordinator and its dashboard running after the last round, until Ctrl-C [default on a terminal, until
    /// Enter is pressed].
    #[arg(long)]
    pub keep: bool,
    /// Ends after the last round on a terminal, too.
    #[arg(long, conflicts_with = "keep")]
    pub no_keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dataset {
    /// 1,797 embedded images of 8x8.
    Digits,
    /// 70,000 images of 28x28.
    Mnist,
    /// Generated, without any file.
    Synthetic(Synthetic),
    /// The next character of a play.
    Shakespeare(Split),
}

impl FromStr for Dataset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "digits" => Ok(Self::Digits),
            None if text == "mnist" => Ok(Self::Mnist),
            None if text == "shakespeare" => Ok(Self::Shakespeare(Split::Roles)),
            Some(("shakespeare", "blocks")) => Ok(Self::Shakespeare(Split::Blocks)),
            Some(("synthetic", numbers)) => {
                Ok(Self::Synthetic(numbers.parse::<Synthetic>().map_err(|e| e.to_string())?))
            }
            _ => Err("a data set is digits, mnist, shakespeare, shakespeare:blocks or synthetic:A,B".to_owned()),
        }
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digits => formatter.write_str("digits"),
            Self::Mnist => formatter.write_str("mnist"),
            Self::Synthetic(synthetic) => write!(formatter, "synthetic:{synthetic}"),
            Self::Shakespeare(Split::Roles) => formatter.write_str("shakespeare"),
            Self::Shakespeare(Split::Blocks) => formatter.write_str("shakespeare:blocks"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Network {
    /// Linear layers only.
    #[value(alias = "2nn")]
    Mlp,
    /// Convolutions, then linear layers.
    Cnn,
    /// One linear layer: multinomial logistic regression.
    Logistic,
}

impl Default for DemoArgs {
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            demo: DemoArgs,
        }
        <Line as clap::Parser>::parse_from(["demo"]).demo
    }
}

impl DemoArgs {
    /// Committed rounds that end the demo.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(match self.dataset {
            Dataset::Digits => 30,
            Dataset::Mnist => 87,
            Dataset::Synthetic(_) => 200,
            Dataset::Shakespeare(_) => 100,
        })
    }

    /// Clients that train; the evaluator is one more.
    pub fn clients(&self) -> u32 {
        self.clients.unwrap_or(match self.dataset {
            Dataset::Digits => 20,
            Dataset::Mnist | Dataset::Shakespeare(_) => 100,
            Dataset::Synthetic(_) => 30,
        })
    }

    pub fn seed(&self) -> Seed {
        Seed(self.seed)
    }

    pub fn partition(&self) -> Partition {
        self.partition.unwrap_or(match self.dataset {
            Dataset::Digits => Partition::Dirichlet(0.5),
            Dataset::Mnist | Dataset::Synthetic(_) | Dataset::Shakespeare(_) => Partition::Iid,
        })
    }

    /// Whether one client is too slow and one dies. A fleet too small for that has no faults.
    pub fn has_faults(&self) -> bool {
        !self.no_faults && self.clients() >= FAULTY_CLIENTS_MIN
    }
}

fn parse_accuracy(text: &str) -> Result<f64, String> {
    let accuracy = text.parse().ok().filter(|accuracy| *accuracy > 0.0 && *accuracy <= 1.0);
    accuracy.ok_or_else(|| "it must be above 0 and at most 1".into())
}

/// A folder's URL with a slash at its end, so that names of files can be joined to it.
fn parse_base_url(text: &str) -> Result<Url, String> {
    let url: Url = format!("{}/", text.trim_end_matches('/')).parse().map_err(|error| format!("{error}"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err("it must begin with http:// or https://".into()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        demo: DemoArgs,
    }

    pub(crate) fn parse(line: &str) -> Result<DemoArgs, clap::Error> {
        Line::try_parse_from(std::iter::once("demo").chain(line.split_whitespace())).map(|line| line.demo)
    }

    #[test]
    fn each_dataset_has_its_own_defaults() {
        let digits = parse("").unwrap();
        assert_eq!((digits.rounds(), digits.clients(), digits.partition()), (30, 20, Partition::Dirichlet(0.5)));
        let mnist = parse("--dataset mnist").unwrap();
        assert_eq!((mnist.rounds(), mnist.clients(), mnist.partition()), (87, 100, Partition::Iid));
        let chosen = parse("--dataset mnist --partition shards:2 --clients 10 --rounds 3").unwrap();
        assert_eq!((chosen.rounds(), chosen.clients(), chosen.partition()), (3, 10, Partition::Shards(2)));
    }

    #[test]
    fn a_generated_data_set_is_named_with_its_numbers() {
        let args = parse("--dataset synthetic:1,0.5").unwrap();
        assert_eq!((args.dataset.to_string().as_str(), args.clients()), ("synthetic:1,0.5", 30));
    }

    #[test]
    fn a_codec_is_a_name_or_an_object() {
        assert_eq!(parse("--codec f32").unwrap().codec, Some(Codec::F32));
        assert_eq!(
            parse(r#"--codec {"name":"f32"}"#).map_err(|error| error.to_string()).unwrap().codec,
            Some(Codec::F32)
        );
        assert!(parse("--codec int7").is_err());
    }

    #[test]
    fn a_small_fleet_and_no_faults_have_no_faults() {
        assert!(parse("").unwrap().has_faults());
        assert!(!parse("--no-faults").unwrap().has_faults());
        assert!(!parse("--clients 3").unwrap().has_faults());
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for line in [
            "--clients 0",
            "--rounds 0",
            "--target 1.5",
            "--dataset cifar",
            "--dataset synthetic:1",
            "--target 97",
            "--partition dirichlet:0",
            "--mnist-url ftp://x",
            "--listen localhost",
            "--job a.toml --model cnn",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_download_url_is_a_folder() {
        let args = parse("--mnist-url http://127.0.0.1:1/a/mnist").unwrap();
        assert_eq!(args.mnist_url.join("x.gz").unwrap().as_str(), "http://127.0.0.1:1/a/mnist/x.gz");
    }
}
