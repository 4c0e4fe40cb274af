//! `tributary example`: job files and a table to begin with, from the program itself.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use tributary_protocol::id::Name;

use crate::data::digits::DIGITS_CSV_GZ;
use crate::error::{CliError, Failure};
use crate::files::temporary_beside;
use crate::job::file::parse;
use crate::output::Output;
use crate::table::{Draft, draft};

/// One job file of the repository for each kind.
const FIRST: &str = include_str!("../../examples/first.toml");
const DIGITS: &str = include_str!("../../examples/digits.toml");
/// The population of these files.
const POPULATION: &str = "population = \"shop\"";
/// Clients of a masked job would tell the sums of their tables one by one.
const STANDARDIZED: &str = "standardize = \"federated\"           \
                            # a first round fixes means and deviations over all clients\n";
/// How a job for a table is evaluated, and how one is whose updates nobody may read.
const EVALUATED: &str = "[evaluation]                        \
                         # any client measures the new model, on the examples that it holds out\n";
const SECURE: &str = "[aggregation]
combine = \"uniform_mean\"            # nobody can weigh what nobody can read

[secure_aggregation]                # the coordinator learns sums of groups alone, and measures on its own test set
";
/// Pixels of a digit.
const PIXELS: usize = 64;
/// Units of the hidden layer.
const HIDDEN: usize = 32;
/// With fewer examples a network learns them by heart: of 354 rows of diabetes, R2 of other rows is 0.33, and 0.44 of a
/// linear model.
const EXAMPLES_PER_PARAMETER_MIN: usize = 2;
/// A target of so many different numbers may well be no class.
const REGRESSION_LABELS_MIN: usize = 20;
/// Largest table in memory. The embedded one has 400 kB.
const DIGITS_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum ExampleCommand {
    /// Prints a job file.
    Job(JobArgs),
    /// Writes the built-in handwritten digits as a table: 64 pixels from 0 to 16 in each line, and the digit.
    Digits {
        /// The CSV file to write. An existing one is replaced.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// Which: a job that completes with one client, or one with every setting.
    #[arg(value_enum, value_name = "EXAMPLE", required_unless_present = "csv", conflicts_with = "csv")]
    example: Option<Example>,
    /// A job for a table: its number of inputs, and its classes.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The target is a number to be predicted, not a class.
    #[arg(long, requires = "csv")]
    regression: bool,
    /// The target's numbers are classes, however many there are.
    #[arg(long, requires = "csv", conflicts_with = "regression")]
    classes: bool,
    /// The table is that of all clients together, which `client run --fleet` splits [default: it is one client's].
    #[arg(long, requires = "csv")]
    shared: bool,
    /// The target's column: a name, or a number from 0 [default: the last column].
    #[arg(long, value_name = "COLUMN", requires = "csv")]
    target_column: Option<String>,
    /// How many clients there are: a round waits for all of them, and is abandoned without half of them.
    #[arg(long, default_value_t = 1, value_name = "CLIENTS", requires = "csv", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// The coordinator adds up updates that it cannot read; it needs 3 clients or more.
    #[arg(long, requires = "csv")]
    secure: bool,
    /// The job's population [default: shop].
    #[arg(long, value_name = "NAME")]
    population: Option<Name>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Example {
    /// Handwritten digits, for one client or more.
    First,
    /// Every setting with its default; it needs 13 clients and an evaluator.
    Digits,
}

#[derive(Debug, thiserror::Error)]
enum ExampleError {
    #[error("{}: there is only one class in it, and a job learns to tell classes apart", .0.display())]
    OneClass(PathBuf),
    #[error("{}: the column {name:?} has {labels} different numbers: are they classes, or a number to be predicted?", path.display())]
    Numbers { path: PathBuf, name: String, labels: usize },
    #[error("{}: the column {name:?} has numbers with decimals, such as {number}: are they classes, or a number to be predicted?", path.display())]
    Decimals { path: PathBuf, name: String, number: String },
    #[error("the embedded digits cannot be read: {0}")]
    Digits(std::io::Error),
}

impl Failure for ExampleError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Numbers { .. } | Self::Decimals { .. } => {
                Some("--regression predicts a number; --classes says that they are classes".into())
            }
            Self::OneClass(_) | Self::Digits(_) => None,
        }
    }
}

pub(crate) fn run(command: &ExampleCommand, output: &Output) -> Result<(), CliError> {
    match command {
        ExampleCommand::Job(args) => {
            let text = match (args.example, &args.csv) {
                (_, Some(csv)) => fitted(args, csv, output)?,
                (Some(Example::Digits), None) => DIGITS.to_owned(),
                _ => FIRST.to_owned(),
            };
            let text = match &args.population {
                Some(name) => text.replace(POPULATION, &format!("population = \"{name}\"")),
                None => text,
            };
            let file = parse("the example", &text)?;
            output.object(&file, || text.trim_end().to_owned())
        }
        ExampleCommand::Digits { file } => {
            write_digits(file)?;
            output.object(&serde_json::json!({ "path": file }), || format!("wrote {}", file.display()))
        }
    }
}

/// A small network for a table, which names the table's columns.
fn fitted(args: &JobArgs, csv: &Path, output: &Output) -> Result<String, CliError> {
    let drafted = draft(csv, args.target_column.as_deref(), args.regression)?;
    drafted.notes.iter().for_each(|note| output.note(note));
    let target = drafted.inputs.target.clone().unwrap_or_default();
    if target.classes.len() == 1 {
        return Err(ExampleError::OneClass(csv.to_owned()).into());
    }
    if !args.regression && !args.classes && drafted.is_numeric {
        let (path, name, labels) = (csv.to_owned(), target.name, target.classes.len());
        if let Some(number) = drafted.decimal {
            return Err(ExampleError::Decimals { path, name, number }.into());
        }
        if labels >= REGRESSION_LABELS_MIN {
            return Err(ExampleError::Numbers { path, name, labels }.into());
        }
    }
    Ok(job_text(&job_name(csv), &drafted, args))
}

fn job_text(name: &Name, drafted: &Draft, args: &JobArgs) -> String {
    let Draft { inputs, rows, .. } = drafted;
    let target = inputs.target.clone().unwrap_or_default();
    let (outputs, loss, what) = match target.classes.len() {
        0 => (1, "mse", format!("the number {:?}", target.name)),
        classes => (classes, "cross_entropy", format!("{classes} classes from the column {:?}", target.name)),
    };
    let (width, clients) = (inputs.width(), args.clients);
    // Of one client's table, or of the table that a fleet shares.
    let (each, all) = match args.shared {
        true => (rows / clients as usize, *rows),
        false => (*rows, rows * clients as usize),
    };
    let columns: Vec<String> = inputs.columns.iter().map(|column| format!("  {},\n", table(column))).collect();
    format!(
        "# Learns {what}, from {columns_count} columns.
# Clients: tributary client run --csv FILE ..
#
name = \"{name}\"
{POPULATION}
seed = 7

[model]
input = [{width}]
{layers}

[model.inputs]
{standardize}target = {target}
columns = [
{columns}]

[training]
epochs = 5
batch_size = {batch_size}
loss = \"{loss}\"
optimizer = {{ kind = \"adam\", learning_rate = 0.005 }}

[round]
updates_goal = {clients}                    # this many updates close the round
updates_min = {minimum}                     # with fewer at the deadline, it is abandoned
over_selection = 1.0                # no spare clients
deadline_ms = 60000

{evaluation}
[stop]
rounds = 10
",
        layers = layers(width, outputs, all),
        columns_count = inputs.columns.len(),
        target = table(&target),
        columns = columns.concat(),
        batch_size = (each / 20).clamp(1, 32),
        minimum = clients.div_ceil(2).max(if args.secure { 3 } else { 1 }),
        evaluation = if args.secure { SECURE } else { EVALUATED },
        standardize = if args.secure { "" } else { STANDARDIZED },
    )
}

/// One hidden layer where there are examples enough to learn it, else a linear model.
fn layers(width: usize, outputs: usize, rows: usize) -> String {
    let parameters = HIDDEN * (width + 1) + outputs * (HIDDEN + 1);
    if rows < EXAMPLES_PER_PARAMETER_MIN * parameters {
        return format!(
            "layers = [{{ kind = \"linear\", out_features = {outputs} }}]  \
             # {rows} examples are few for a hidden layer of {HIDDEN} units before it"
        );
    }
    format!(
        "layers = [
  {{ kind = \"linear\", out_features = {HIDDEN} }},
  {{ kind = \"relu\" }},
  {{ kind = \"linear\", out_features = {outputs} }},
]"
    )
}

/// A value as an inline table of TOML.
fn table(value: &impl serde::Serialize) -> String {
    let value = toml::Value::try_from(value).unwrap_or_else(|_| toml::Value::Table(toml::Table::new()));
    let keys = value.as_table().map(toml::Table::iter).into_iter().flatten();
    // The name comes first.
    let mut keys: Vec<_> = keys.collect();
    keys.sort_by_key(|(key, _)| (*key != "name", key.as_str()));
    let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// The name of the file, as far as a job may be called so.
fn job_name(csv: &Path) -> Name {
    let stem = csv.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = stem.trim_end_matches(".csv");
    let letters: String =
        stem.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '-' }).collect();
    letters
        .chars()
        .take(40)
        .collect::<String>()
        .parse()
        .unwrap_or_else(|_| "table".parse().expect("letters are a name"))
}

fn write_digits(path: &Path) -> Result<(), CliError> {
    let mut table = String::new();
    let unpacked = flate2::read::GzDecoder::new(DIGITS_CSV_GZ).take(DIGITS_BYTES_MAX).read_to_string(&mut table);
    unpacked.map_err(ExampleError::Digits)?;
    let pixels = (0..PIXELS).map(|pixel| format!("pixel_{pixel}")).collect::<Vec<_>>().join(",");
    let failed = |error| CliError::file("write", path)(error);
    let mut file = temporary_beside(path).map_err(failed)?;
    write!(file, "{pixels},digit\n{table}").map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::output;
    use tributary_protocol::inputs::MissingValues;
    use tributary_protocol::layers::ModelSpec;

    fn job(example: Option<Example>, csv: Option<PathBuf>, population: &str) -> JobArgs {
        let population = Some(population.parse().unwrap());
        JobArgs {
            example,
            csv,
            regression: false,
            classes: false,
            shared: false,
            target_column: None,
            clients: 4,
            secure: false,
            population,
        }
    }

    fn printed(args: JobArgs) -> Result<String, CliError> {
        let (output, printed) = output(false);
        run(&ExampleCommand::Job(args), &output)?;
        let text = printed.lock().unwrap().clone();
        Ok(text)
    }

    #[test]
    fn every_example_is_a_job_file_of_the_chosen_population() {
        for example in [Example::First, Example::Digits] {
            let text = printed(job(Some(example), None, "phones")).unwrap();
            assert_eq!(parse("it", &text).unwrap().population.as_str(), "phones");
        }
        let first = parse("it", FIRST).unwrap();
        assert_eq!((first.round.cohort_size(), first.evaluation.unwrap().attributes.len()), (1, 0));
    }

    #[test]
    fn a_job_for_a_table_has_its_inputs_and_its_classes() {
        let folder = tempfile::tempdir().unwrap();
        let csv = folder.path().join("my points.csv");
        std::fs::write(&csv, "x,y,where\n1,2,in\n3,NA,out\n5,6,edge\n").unwrap();
        let text = printed(job(None, Some(csv.clone()), "shop")).unwrap();
        let inputs = parse("it", &text).unwrap().model.inputs.unwrap();
        assert_eq!(inputs.target.unwrap().classes, ["edge", "in", "out"]);
        assert_eq!(inputs.columns[1].missing, MissingValues::Replace);
        let file = parse("it", &text).unwrap();
        assert_eq!(file.name.as_str(), "my-points");
        assert_eq!((file.round.updates_goal, file.round.updates_min), (4, 2));
        assert_eq!(file.model.spec.output_shape().unwrap(), Some(vec![3]));
        std::fs::write(&csv, "x,y\n1,0\n3,0\n").unwrap();
        assert!(printed(job(None, Some(csv), "shop")).unwrap_err().to_string().contains("only one class"));
    }

    #[test]
    fn a_target_with_decimals_is_asked_about_however_few_numbers_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let csv = folder.path().join("prices.csv");
        let said = |target: &[&str], ask: fn(&mut JobArgs)| {
            let rows = target.iter().map(|number| format!("1,{number}\n")).collect::<String>();
            std::fs::write(&csv, format!("size,price\n{rows}")).unwrap();
            let mut args = job(None, Some(csv.clone()), "shop");
            ask(&mut args);
            printed(args).map(|text| parse("it", &text).unwrap().model.inputs.unwrap().target.unwrap().classes.len())
        };
        let error = said(&["3.0", "2.5", "3.0"], |_| ()).unwrap_err();
        assert!(error.to_string().contains("decimals, such as 2.5"), "{error}");
        assert!(error.hint().unwrap().contains("--regression"));
        assert_eq!(said(&["3.0", "2.5"], |args| args.regression = true).unwrap(), 0);
        assert_eq!(said(&["3.0", "2.5"], |args| args.classes = true).unwrap(), 2);
        assert_eq!(said(&["0.0", "1.0", "1.0"], |_| ()).unwrap(), 2, "whole numbers are classes");
    }

    #[test]
    fn a_hidden_layer_needs_examples_enough() {
        let folder = tempfile::tempdir().unwrap();
        let csv = folder.path().join("points.csv");
        // 32 (2 + 1) + 2 (32 + 1) parameters; two examples for each, in four tables of this size.
        for (lines, depth) in [(80, 1), (81, 3)] {
            let rows: Vec<String> = (0..lines).map(|row| format!("{row},2,{}\n", row % 2)).collect();
            std::fs::write(&csv, format!("x,y,odd\n{}", rows.concat())).unwrap();
            let text = printed(job(None, Some(csv.clone()), "shop")).unwrap();
            let ModelSpec::Layers(network) = parse("it", &text).unwrap().model.spec else { panic!("{text}") };
            assert_eq!(network.layers.len(), depth, "{lines} examples: {text}");
        }
    }

    #[test]
    fn the_digits_are_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digits.csv");
        run(&ExampleCommand::Digits { file: path.clone() }, &output(true).0).unwrap();
        let drafted = draft(&path, None, false).unwrap();
        let classes = drafted.inputs.target.unwrap().classes.len();
        assert_eq!((drafted.rows, drafted.inputs.columns.len(), classes), (1797, 64, 10));
    }
}
