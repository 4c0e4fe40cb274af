//! `tributary client run`: a client on this machine.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use tokio_util::sync::CancellationToken;
use tributary_client::examples::{
    Column, CsvError, CsvOptions, CsvTarget, Examples, IdxError, IdxShape, MemoryExamples, read_csv, read_idx_examples,
};
use tributary_client::{AlwaysOn, BurnTrainer, Client, Host, Outcome};
use tributary_protocol::id::SecretKind;

use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::http;
use crate::output::Output;

/// Pause after a session that failed.
const FAILED_PAUSE: Duration = Duration::from_secs(5);

/// Options of `tributary client run`, besides the global `--server` and `--token` (an enrolment token).
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("examples").required(true).args(["csv", "idx_images"])))]
pub(crate) struct ClientRunArgs {
    /// Where the client keeps its identity and its unfinished work; one folder per client.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state_dir: PathBuf,
    /// Says what the client is, as jobs may ask, for example platform=linux; may be given several times.
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = parse_attribute)]
    attributes: Vec<(String, String)>,
    /// Does one session and ends; without it the client goes on for as long as it runs.
    #[arg(long)]
    pub(crate) once: bool,
    /// Where the examples are.
    #[command(flatten)]
    pub(crate) examples: ExampleArgs,
}

/// Where the examples of a client are.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Examples")]
pub(crate) struct ExampleArgs {
    /// A table of numbers: one line is one example, one column its target. Gzipped if its name ends in .gz.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The table's first line is an example, not the names of the columns.
    #[arg(long, requires = "csv")]
    no_header: bool,
    /// What stands between two fields of the table.
    #[arg(long, default_value = ",", value_name = "CHARACTER", value_parser = parse_delimiter, requires = "csv")]
    delimiter: char,
    /// The target's column: a name, or a number from 0; the last one unless given.
    #[arg(long, value_name = "COLUMN", requires = "csv")]
    target_column: Option<String>,
    /// The target is a number to be predicted, not a class from 0.
    #[arg(long, requires = "csv")]
    regression: bool,
    /// Each input of the table is multiplied by this, for example 0.0625 for pixels from 0 to 16.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", requires = "csv")]
    input_scale: f32,
    /// Shape of one input, for example 1,8,8 (channels, height, width) for pixels in a table; one row of numbers unless
    /// given.
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', requires = "csv")]
    input_shape: Option<Vec<usize>>,
    /// Images in an IDX file (MNIST's format), gzipped or not.
    #[arg(long, value_name = "FILE", requires = "idx_labels")]
    idx_images: Option<PathBuf>,
    /// Their labels.
    #[arg(long, value_name = "FILE", requires = "idx_images")]
    idx_labels: Option<PathBuf>,
    /// Hands the images to the network as one row of numbers, not as [1, height, width].
    #[arg(long, requires = "idx_images")]
    flat: bool,
}

/// Examples that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The table.
    #[error("{}: {source}", path.display())]
    Csv {
        /// Which file.
        path: PathBuf,
        /// Line and column.
        source: CsvError,
    },
    /// Images or labels.
    #[error("{} and {}: {source}", images.display(), labels.display())]
    Idx {
        /// Images.
        images: PathBuf,
        /// Labels.
        labels: PathBuf,
        /// What is wrong.
        source: IdxError,
    },
}

/// Runs a client until Ctrl-C, or for one session.
///
/// # Errors
/// When examples, token or state cannot be used; with `--once` also when the session fails.
pub(crate) async fn run(args: &ClientRunArgs, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    let token = global.secret(SecretKind::Enrolment)?.ok_or(CliError::NoToken("an enrolment"))?;
    let examples = args.examples.load()?;
    let count = examples.len();
    let mut trainer = BurnTrainer::new(Arc::new(examples));
    let mut builder = Client::builder(global.server.as_str(), token.expose()).state_dir(&args.state_dir);
    for (name, value) in &args.attributes {
        builder = builder.attribute(name, value);
    }
    let http = http::client(&global.server, reqwest::redirect::Policy::none()).map_err(CliError::http)?;
    let client = builder.http_client(http).build()?;
    let id = client.enrol().await?;
    let enrolled = serde_json::json!({ "event": "enrolled", "client": id, "examples": count });
    output.object(&enrolled, || format!("client {id} with {count} examples"))?;
    if args.once {
        return tell(&client.run_once(&mut trainer, &AlwaysOn).await?, output);
    }
    let switch = Switch::default();
    let pressed = switch.clone();
    // A task of its own: training occupies this one.
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        pressed.off.cancel();
    });
    tokio::select! {
        ended = sessions(&client, &mut trainer, &switch, output) => ended,
        () = switch.off.cancelled() => Ok(()),
    }
}

/// On until Ctrl-C: training stops at the next batch.
#[derive(Clone, Default)]
struct Switch {
    off: CancellationToken,
}

impl Host for Switch {
    fn may_continue(&self) -> bool {
        !self.off.is_cancelled()
    }
}

/// Session after session. One that fails is told and tried again: a client outlives its coordinator's restarts.
async fn sessions(
    client: &Client,
    trainer: &mut BurnTrainer,
    host: &dyn Host,
    output: &Output,
) -> Result<(), CliError> {
    loop {
        let pause = match client.run_once(trainer, host).await {
            Ok(outcome) => {
                tell(&outcome, output)?;
                outcome.retry_after()
            }
            Err(error) => {
                let pause = error.retry_after().unwrap_or(FAILED_PAUSE);
                output.note(&format!("{error}; trying again in {:.0} s", pause.as_secs_f64()));
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

fn tell(outcome: &Outcome, output: &Output) -> Result<(), CliError> {
    let (became, round, text) = match outcome {
        Outcome::Contributed { round, .. } => ("contributed", Some(round), format!("contributed to round {round}")),
        Outcome::Evaluated { round, .. } => ("evaluated", Some(round), format!("evaluated the model of round {round}")),
        Outcome::TooLate { round, .. } => {
            ("too_late", Some(round), format!("round {round} closed without this client"))
        }
        Outcome::Interrupted { .. } => ("interrupted", None, "interrupted".to_owned()),
        // With a coordinator that has no work this would be a line every half minute.
        _ => return Ok(()),
    };
    let event = serde_json::json!({ "event": became, "round": round });
    output.object(&event, || text)
}

impl ExampleArgs {
    /// Reads the examples into memory.
    ///
    /// # Errors
    /// Names the file, and for a table line and column.
    pub(crate) fn load(&self) -> Result<MemoryExamples, CliError> {
        match (&self.csv, &self.idx_images, &self.idx_labels) {
            (Some(path), ..) => self.load_csv(path),
            (None, Some(images), Some(labels)) => self.load_idx(images, labels),
            // Clap lets only complete groups through.
            _ => Err(CliError::NotFound("file of examples: give --csv, or --idx-images and --idx-labels".into())),
        }
    }

    fn load_csv(&self, path: &Path) -> Result<MemoryExamples, CliError> {
        let options = CsvOptions {
            delimiter: self.delimiter,
            has_header: !self.no_header,
            target_column: self.target_column.as_deref().map_or(Column::Last, parse_column),
            target: if self.regression { CsvTarget::Value } else { CsvTarget::Class },
            input_scale: self.input_scale,
            input_shape: self.input_shape.clone(),
        };
        let file = open(path)?;
        let examples = match path.extension() {
            Some(extension) if extension == "gz" => read_csv(flate2::read::MultiGzDecoder::new(file), &options),
            _ => read_csv(file, &options),
        };
        Ok(examples.map_err(|source| LoadError::Csv { path: path.to_owned(), source })?)
    }

    fn load_idx(&self, images: &Path, labels: &Path) -> Result<MemoryExamples, CliError> {
        let shape = if self.flat { IdxShape::Flat } else { IdxShape::Image };
        let examples = read_idx_examples(open(images)?, open(labels)?, shape);
        let failed = |source| LoadError::Idx { images: images.to_owned(), labels: labels.to_owned(), source };
        Ok(examples.map_err(failed)?)
    }
}

fn open(path: &Path) -> Result<File, CliError> {
    File::open(path).map_err(CliError::file("read", path))
}

fn parse_column(text: &str) -> Column {
    text.parse().map_or_else(|_| Column::Name(text.to_owned()), Column::Number)
}

fn parse_attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it must be NAME=VALUE")?;
    if name.is_empty() || value.is_empty() {
        return Err("neither name nor value may be empty".into());
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_delimiter(text: &str) -> Result<char, String> {
    let mut letters = text.chars();
    match (text, letters.next(), letters.next()) {
        ("\\t" | "tab", ..) => Ok('\t'),
        (_, Some(letter), None) => Ok(letter),
        _ => Err("it must be one character, or tab".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use tributary_client::examples::Targets;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: ClientRunArgs,
    }

    fn parse(line: &str) -> Result<ClientRunArgs, clap::Error> {
        let words = ["run", "--state-dir", "state"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.run)
    }

    #[test]
    fn examples_come_from_a_table_or_from_images_with_labels() {
        assert!(parse("--csv a.csv --no-header --attribute a=b --attribute c=d").is_ok());
        assert!(parse("--idx-images a --idx-labels b --flat").is_ok());
        for line in [
            "",
            "--idx-images a",
            "--idx-labels b",
            "--csv a --idx-images b --idx-labels c",
            "--csv a --flat",
            "--csv a --attribute x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_table_is_read_as_its_options_say() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, "3\t4\t8\n1\t0\t16\n").unwrap();
        let line = format!(
            "--csv {} --no-header --delimiter tab --target-column 0 --input-scale 0.125 --input-shape 1,1,2",
            path.display()
        );
        let examples = parse(&line).unwrap().examples.load().unwrap();
        assert_eq!(examples.input_shape(), [1, 1, 2]);
        assert_eq!(examples.batch(&[0, 1]).unwrap().inputs, [0.5, 1.0, 0.0, 2.0]);
        assert_eq!(examples.targets(), Targets::Classes(vec![3, 1]));
    }

    #[test]
    fn a_wrong_line_is_named_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, "x,y\n1,0\n1,one\n").unwrap();
        let error = parse(&format!("--csv {}", path.display())).unwrap().examples.load().unwrap_err().to_string();
        assert!(error.contains("table.csv: line 3: column 1: \"one\""), "{error}");
        let missing = parse("--csv missing.csv").unwrap().examples.load().unwrap_err();
        assert!(missing.to_string().starts_with("cannot read missing.csv"), "{missing}");
    }
}
