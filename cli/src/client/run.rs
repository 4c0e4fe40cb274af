//! `tributary client run`: a client on this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use tokio_util::sync::CancellationToken;
use tributary_client::examples::Examples;
use tributary_client::{AlwaysOn, Client, ClientError, Host, LayerTrainer, Outcome, Trust};
use tributary_protocol::id::SecretKind;

use super::settings::ClientSettings;
use crate::error::CliError;
use crate::options::{GlobalArgs, TokenError, authorities, pinned_secret};
use crate::output::Output;
use crate::settings_file::SettingsError;
use crate::{http, settings_file};

/// Pause after a failed session that names no other.
const FAILED_PAUSE: Duration = Duration::from_secs(5);

/// A flag counts before a variable, and a variable before the file.
#[derive(Clone, Debug, Args)]
#[command(group(group("source", ["config", "csv", "idx_images"]).required(true)))]
#[command(group(group("table", ["config", "csv"])))]
#[command(group(group("images", ["config", "idx_images"])))]
#[command(group(group("labels", ["config", "idx_labels"])))]
pub(crate) struct ClientRunArgs {
    /// A TOML file with these settings, --server, --token and --ca, under the names of the flags with `_` for `-`
    /// (examples/client.toml).
    #[arg(long, env = "TRIBUTARY_CLIENT_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Runs one session and exits.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    settings: ClientSettings,
}

impl ClientRunArgs {
    fn settings(self, global: &GlobalArgs) -> Result<ClientSettings, SettingsError> {
        let file = self.config.as_deref().map(settings_file::read).transpose()?.unwrap_or_default();
        Ok(self.settings.over(file, global))
    }
}

/// Options of which at least one, or the file that may hold it, must be given together with those that require the
/// group.
fn group<const N: usize>(name: &'static str, options: [&'static str; N]) -> ArgGroup {
    ArgGroup::new(name).multiple(true).args(options)
}

/// Runs a client until Ctrl-C, or for one session.
pub(super) async fn run(args: ClientRunArgs, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    let once = args.once;
    let settings = args.settings(global)?;
    let token = settings.token.as_ref().ok_or(TokenError::Missing("an enrolment"))?;
    let token = pinned_secret(token, SecretKind::Enrolment)?;
    let trust = match (&settings.ca, token.ca()) {
        (Some(file), _) => authorities(file)?,
        (None, Some(fingerprint)) => Trust::Pinned(fingerprint),
        (None, None) => Trust::System,
    };
    let state_dir = settings.state_dir.as_ref();
    let state_dir = state_dir.ok_or_else(|| CliError::BadSetting("a state_dir is needed".into()))?;
    let server = settings.server.unwrap_or_default();
    server.warn_if_exposed(output);

    let examples = settings.examples.load()?;
    let count = examples.len();
    let mut trainer = LayerTrainer::new(Arc::new(examples));
    let mut builder = Client::builder(server.url().as_str(), token.expose()).state_dir(state_dir);
    for (name, value) in &settings.attributes {
        builder = builder.attribute(name, value);
    }
    let transport = http::transport(server.url(), &trust).map_err(|error| ClientError::Setup(error.to_string()))?;
    let client = builder.transport(Arc::new(transport)).allow_plaintext().build()?;
    let id = client.enrol().await?;
    let enrolled = serde_json::json!({ "event": "enrolled", "client": id, "examples": count });
    output.object(&enrolled, || format!("client {id} with {count} examples"))?;
    if once {
        return print(&client.run_once(&mut trainer, &AlwaysOn).await?, output);
    }
    let switch = Switch::default();
    let pressed = switch.clone();
    // Ctrl-C is awaited in a task of its own, because training blocks this one.
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        pressed.off.cancel();
    });
    tokio::select! {
        ended = sessions(&client, &mut trainer, &switch, output) => ended,
        () = switch.off.cancelled() => Ok(()),
    }
}

/// On until Ctrl-C. Then training stops at the next batch.
#[derive(Clone, Default)]
struct Switch {
    off: CancellationToken,
}

impl Host for Switch {
    fn may_continue(&self) -> bool {
        !self.off.is_cancelled()
    }
}

/// Runs session after session. A failed session is reported and tried again, so that a client survives restarts of its
/// coordinator.
async fn sessions(
    client: &Client,
    trainer: &mut LayerTrainer,
    host: &dyn Host,
    output: &Output,
) -> Result<(), CliError> {
    loop {
        let pause = match client.run_once(trainer, host).await {
            Ok(outcome) => {
                print(&outcome, output)?;
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

fn print(outcome: &Outcome, output: &Output) -> Result<(), CliError> {
    let (event, round, text) = match outcome {
        Outcome::Contributed { round, .. } => ("contributed", Some(round), format!("contributed to round {round}")),
        Outcome::Evaluated { round, .. } => ("evaluated", Some(round), format!("evaluated the model of round {round}")),
        Outcome::TooLate { round, .. } => {
            ("too_late", Some(round), format!("round {round} closed without this client"))
        }
        Outcome::Interrupted { .. } => ("interrupted", None, "interrupted".to_owned()),
        // A session without work would print a line every half minute.
        _ => return Ok(()),
    };
    output.object(&serde_json::json!({ "event": event, "round": round }), || text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use tributary_client::examples::{MemoryExamples, Targets};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        global: GlobalArgs,
        #[command(flatten)]
        run: ClientRunArgs,
    }

    fn parse(line: &str) -> Result<Line, clap::Error> {
        Line::try_parse_from(["run"].into_iter().chain(line.split_whitespace()))
    }

    /// The settings of a command line and the file that it names.
    fn settings_of(line: &str) -> Result<ClientSettings, CliError> {
        let Line { global, run } = parse(line).unwrap();
        Ok(run.settings(&global)?)
    }

    fn load(line: &str) -> Result<MemoryExamples, CliError> {
        settings_of(&format!("--state-dir state {line}"))?.examples.load()
    }

    #[test]
    fn examples_come_from_a_table_or_from_images_with_labels() {
        let parse = |line: &str| parse(&format!("--state-dir state {line}"));
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
        let examples = load(&line).unwrap();
        assert_eq!(examples.input_shape(), [1, 1, 2]);
        assert_eq!(examples.batch(&[0, 1]).unwrap().inputs, [0.5, 1.0, 0.0, 2.0]);
        assert_eq!(examples.targets(), Targets::Classes(vec![3, 1]));
    }

    #[test]
    fn a_wrong_line_is_named_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, "x,y\n1,0\n1,one\n").unwrap();
        let error = load(&format!("--csv {}", path.display())).unwrap_err().to_string();
        assert!(error.contains("table.csv: line 3: column 1: \"one\""), "{error}");
        let missing = load("--csv missing.csv").unwrap_err();
        assert!(missing.to_string().starts_with("cannot read missing.csv"), "{missing}");
    }

    #[test]
    fn the_file_holds_what_flags_leave_open() {
        let folder = tempfile::tempdir().unwrap();
        let (path, table) = (folder.path().join("client.toml"), folder.path().join("table.csv"));
        std::fs::write(&table, "3;4\n1;0\n").unwrap();
        let text = format!(
            "server = 'https://fl.example.org'\ntoken = '5ecret'\nstate_dir = 'a'\n\
             [attributes]\nplatform = 'linux'\nsite = 'north'\n\
             [examples]\ncsv = '{}'\nno_header = true\ndelimiter = ','\n",
            table.display()
        );
        std::fs::write(&path, text).unwrap();
        let line = format!("--config {} --state-dir b --attribute site=south --delimiter ;", path.display());
        let settings = settings_of(&line).unwrap();
        assert_eq!(settings.server.as_ref().unwrap().url().host_str(), Some("fl.example.org"));
        assert_eq!(settings.state_dir.as_deref(), Some("b".as_ref()));
        let attributes: std::collections::BTreeMap<_, _> = settings.attributes.iter().cloned().collect();
        assert_eq!((attributes["platform"].as_str(), attributes["site"].as_str()), ("linux", "south"));
        assert_eq!(settings.examples.load().unwrap().targets(), Targets::Classes(vec![4, 0]));
        assert!(!format!("{settings:?}").contains("5ecret"));
    }

    #[test]
    fn a_file_with_two_sources_or_none_or_an_unknown_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.toml");
        for (text, message) in [
            ("", "examples come from a table"),
            ("[examples]\ncsv = 'a'\nflat = true", "examples come from a table"),
            ("[examples]\nidx_images = 'a'\nidx_labels = 'b'\nno_header = true", "examples come from a table"),
            ("[examples]\ncvs = 'a'", "client.toml: line 2: cvs: unknown field `cvs`"),
            ("[attributes]\na = ''", "neither name nor value may be empty"),
        ] {
            std::fs::write(&path, text).unwrap();
            let line = format!("--config {}", path.display());
            let error = settings_of(&line).and_then(|settings| settings.examples.load()).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    /// Method: keys that are commented out are uncommented.
    #[test]
    fn the_example_file_holds_every_setting() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/client.toml");
        settings_file::read::<ClientSettings>(&path).unwrap();
        let text = std::fs::read_to_string(&path)
            .unwrap()
            .replace("# idx", "idx")
            .replace("# flat", "flat")
            .replace("# ca", "ca");
        toml::from_str::<ClientSettings>(&text).unwrap();
        let table: toml::Table = toml::from_str(&text).unwrap();
        let command = ClientRunArgs::augment_args(GlobalArgs::augment_args(clap::Command::new("run")));
        for argument in command.get_arguments() {
            let key = argument.get_id().as_str();
            let is_setting = !matches!(key, "config" | "once" | "json");
            assert!(!is_setting || table.contains_key(key) || table["examples"].get(key).is_some(), "{key}");
        }
    }
}
