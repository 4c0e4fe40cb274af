//! `tributary client run`: clients on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use tokio::task::JoinSet;
use tributary_client::{Builder, Client, ClientError, PrivacyFloor, Settings, Trust};
use tributary_protocol::id::PinnedSecret;

use super::answering::FileTable;
use super::compute::Compute;
use super::conditions::Machine;
use super::connect::asking;
use super::lines::Lines;
use super::load::{Reading, Starting};
use super::sessions::Enrolled;
use super::settings::ClientSettings;
use crate::error::CliError;
use crate::options::{GlobalArgs, enrolling};
use crate::output::Output;
use crate::settings_file::SettingsError;
use crate::{http, settings_file};

/// The state folder of a fleet.
const FLEET_DIR: &str = "tributary-fleet";
/// How long the first check-in of a client is held.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// A flag counts before a variable, and a variable before the file.
#[derive(Clone, Debug, Args)]
#[command(group(group("source", ["config", "csv", "parquet", "idx_images", "image_folder", "dataset", "sets"]).required(true)))]
#[command(group(group("text", ["config", "csv"])))]
#[command(group(group("table", ["config", "csv", "parquet"])))]
#[command(group(group("labelled", ["config", "csv", "parquet", "image_folder"])))]
#[command(group(group("shaped", ["config", "csv", "parquet", "dataset"])))]
#[command(group(group("folder", ["config", "image_folder"])))]
#[command(group(group("images", ["config", "idx_images"])))]
#[command(group(group("labels", ["config", "idx_labels"])))]
pub(crate) struct ClientRunArgs {
    /// A TOML file with these settings, --server, --token and --ca, under the names of the flags with `_` for `-`
    /// (examples/client.toml).
    #[arg(long, env = "TRIBUTARY_CLIENT_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Runs one session and exits.
    #[arg(long, conflicts_with = "fleet")]
    once: bool,
    #[command(flatten)]
    settings: ClientSettings,
}

impl ClientRunArgs {
    pub(super) fn settings(self, global: &GlobalArgs) -> Result<ClientSettings, SettingsError> {
        let file = self.config.as_deref().map(settings_file::read).transpose()?.unwrap_or_default();
        Ok(self.settings.over(file, global))
    }
}

/// Options of which at least one, or the file that may hold it, must be given together with those that require the
/// group.
fn group<const N: usize>(name: &'static str, options: [&'static str; N]) -> ArgGroup {
    ArgGroup::new(name).multiple(true).args(options)
}

/// Runs clients until Ctrl-C, or one client for one session.
pub(super) async fn run(args: ClientRunArgs, global: &GlobalArgs, output: &Output) -> Result<(), CliError> {
    let once = args.once;
    let settings = args.settings(global)?;
    let lines = Arc::new(Lines::new(output.clone()));
    // Made first: how busy the machine is shows in the time until the first session.
    let machine = settings.conditions.machine(Arc::clone(&lines));
    let (token, trust) = trusted(&settings)?;
    let default_dir = settings.fleet.fleet.map(|_| PathBuf::from(FLEET_DIR));
    let state_dir = settings.state_dir.clone().or(default_dir);
    let state_dir =
        state_dir.ok_or_else(|| CliError::BadSetting("--state-dir FOLDER is needed (state_dir in the file)".into()))?;
    let server = settings.server.clone().unwrap_or_default();
    server.warn_if_exposed(output);

    let asking = asking(&server, &trust, token.expose().as_str())?;
    // Without an answer, the enrolment that follows says what is wrong.
    let jobs = asking.open_jobs().await.ok();
    let table = settings.table()?.map(|table| FileTable::of(&table));
    let compute = Compute::open(settings.device.unwrap_or_default())?;
    if let Some(name) = compute.gpu_name() {
        output.note(&format!("training on {name}"));
    }
    let reading = Reading { settings: &settings, jobs: jobs.as_deref(), state_dir: &state_dir, output };
    let members = reading.clients(table.as_ref(), &compute)?;
    let mut clients = Vec::new();
    let count = members.len();
    for (number, member) in members.into_iter().enumerate() {
        let folder = member.name.as_ref().map_or_else(|| state_dir.clone(), |name| state_dir.join(name));
        let mut made_from = Settings::new(server.url().as_str(), token.expose());
        made_from.state_dir = Some(folder);
        made_from.attributes = settings.attributes.iter().chain(&member.attributes).cloned().collect();
        made_from.allow_plaintext = true;
        made_from.describe_floor = settings.describe_floor;
        made_from.privacy_floor = floor(&settings);
        made_from.peers_ca = settings.peers_ca.as_deref().map(pem).transpose()?;
        made_from.peers_certificate = settings.peers_certificate.as_deref().map(pem).transpose()?;
        // One for each client, because connections present a client's certificate.
        let transport = http::transport(server.url(), &trust).map_err(|error| ClientError::Setup(error.to_string()))?;
        let mut builder = Builder::from(made_from).transport(Arc::new(transport));
        if let Some(address) = &settings.listen {
            builder = builder.listen(address, settings.advertise.clone());
        }
        if let Some(table) = &table {
            builder = builder.table(Arc::new(table.part(number, count)));
        }
        let (client, impatient) = (builder.clone().build()?, builder.wait(FIRST_WAIT).build()?);
        clients.push(enrol(member, client, impatient, output).await?);
    }
    if once {
        for Enrolled { client, trainer, .. } in &mut clients {
            match machine.unmet() {
                Some(unmet) => lines.paused(unmet)?,
                None => lines.outcome(None, &client.run_once(trainer, &machine).await?)?,
            }
        }
        return Ok(());
    }
    run_all(clients, lines, machine).await
}

/// The least privacy with which a client takes part.
fn floor(settings: &ClientSettings) -> PrivacyFloor {
    let mut floor = PrivacyFloor::default();
    floor.secure_aggregation = settings.require_secure;
    floor.survivors_min = settings.survivors_min.unwrap_or_default();
    floor.signed = settings.require_signed;
    floor.epsilon_max = settings.epsilon_max;
    floor.clip_max = settings.clip_max;
    floor
}

fn pem(file: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(file).map_err(CliError::file("read", file))
}

/// The token, and whom to trust.
pub(super) fn trusted(settings: &ClientSettings) -> Result<(PinnedSecret, Trust), CliError> {
    enrolling(settings.token.as_ref(), settings.ca.as_deref())
}

async fn enrol(member: Starting, client: Client, impatient: Client, output: &Output) -> Result<Enrolled, CliError> {
    let Starting { name, examples, trainer, .. } = member;
    let id = client.enrol().await?;
    let enrolled = serde_json::json!({ "event": "enrolled", "client": id, "name": name, "examples": examples });
    output.object(&enrolled, || {
        let called = name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        format!("client {id}{called} with {examples} examples")
    })?;
    Ok(Enrolled { name, client, impatient, trainer })
}

/// Runs the sessions of all clients until Ctrl-C.
async fn run_all(clients: Vec<Enrolled>, lines: Arc<Lines>, machine: Machine) -> Result<(), CliError> {
    let machine = Arc::new(machine);
    let mut running = JoinSet::new();
    for mut client in clients {
        let (machine, lines) = (Arc::clone(&machine), Arc::clone(&lines));
        running.spawn(async move { client.run(&machine, &lines).await });
    }
    let off = machine.off.clone();
    // Ctrl-C is awaited in a separate task, because training blocks the others.
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        off.cancel();
    });
    let ended = tokio::select! {
        ended = running.join_next() => ended,
        () = machine.off.cancelled() => None,
    };
    running.shutdown().await;
    match ended {
        Some(ended) => ended.map_err(CliError::task)?,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use tributary_client::examples::{Examples, MemoryExamples, Targets};

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
        Ok(settings_of(&format!("--state-dir state {line}"))?.examples.load(None)?.examples)
    }

    #[test]
    fn examples_come_from_a_table_or_from_images_with_labels() {
        let parse = |line: &str| parse(&format!("--state-dir state {line}"));
        assert!(parse("--csv a.csv --no-header --attribute a=b --attribute c=d").is_ok());
        assert!(parse("--idx-images a --idx-labels b --flat").is_ok());
        assert!(parse("--dataset digits --fleet 20 --evaluator --input-shape 1,8,8").is_ok());
        assert!(parse("--parquet a.parquet --target-column y --label-map a,b").is_ok());
        assert!(parse("--image-folder a --image-size 28,28 --gray --label-map a,b").is_ok());
        assert!(parse("--set typing=a.csv --set photos=b.parquet").is_ok());
        assert!(parse("--csv a.csv --set typing=b.csv").is_ok());
        for line in [
            "",
            "--parquet a --delimiter ,",
            "--parquet a --csv b",
            "--image-folder a",
            "--image-folder a --image-size 28,28 --missing mean",
            "--csv a --gray",
            "--idx-images a",
            "--idx-labels b",
            "--csv a --idx-images b --idx-labels c",
            "--csv a --flat",
            "--csv a --attribute x",
            "--csv a --dataset digits",
            "--csv a --fleet 0",
            "--csv a --fleet 2 --once",
            "--set a.csv",
            "--set a=",
            "--set a/b=c.csv",
            "--csv a --set b=c.csv --fleet 2",
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
        std::fs::write(&path, "x,y\n1,0\none,0\n").unwrap();
        let error = load(&format!("--csv {}", path.display())).unwrap_err().to_string();
        assert!(error.contains("table.csv: line 3: column x: \"one\""), "{error}");
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
        assert_eq!(settings.examples.load(None).unwrap().examples.targets(), Targets::Classes(vec![4, 0]));
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
            ("[examples]\ncsv = 'a'\nparquet = 'b'", "examples come from a table"),
            ("[examples]\ncsv = 'a'\nidx_images = 'b'", "examples come from a table"),
            ("[examples]\nidx_images = 'a'", "examples come from a table"),
            ("[examples]\nparquet = 'a'\nheader = true", "examples come from a table"),
            ("[examples]\ndataset = 'digits'\ngray = true", "examples come from a table"),
            ("[examples]\nimage_folder = 'a'", "image_size: a height and a width from 1 to 4096"),
            ("[examples]\nimage_folder = 'a'\nimage_size = [28, 0]", "image_size: a height and a width"),
            ("[examples]\ncvs = 'a'", "client.toml: line 2: cvs: unknown field `cvs`"),
            ("[attributes]\na = ''", "neither name nor value may be empty"),
        ] {
            std::fs::write(&path, text).unwrap();
            let line = format!("--config {}", path.display());
            let error = settings_of(&line).and_then(|settings| settings.examples.load(None)).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn example_sets_of_the_line_replace_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.toml");
        std::fs::write(&path, "[sets]\ntyping = { csv = 'a.csv', regression = true }\nphotos = { csv = 'b.csv' }")
            .unwrap();
        let settings = settings_of(&format!("--config {} --set photos=c.parquet", path.display())).unwrap();
        let sources: Vec<_> =
            settings.sets.iter().map(|(name, set)| (name.as_str(), set.table().unwrap().unwrap().path)).collect();
        assert_eq!(sources, [("photos", Path::new("c.parquet")), ("typing", Path::new("a.csv"))]);
        assert!(!settings.examples.are_given() && settings.table().unwrap().is_none());
    }

    /// Method: keys that are commented out are uncommented.
    #[test]
    fn the_example_file_holds_every_setting() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/client.toml");
        settings_file::read::<ClientSettings>(&path).unwrap();
        let text = std::fs::read_to_string(&path)
            .unwrap()
            .replace("# idx", "idx")
            .replace("# parquet", "parquet")
            .replace("# image", "image")
            .replace("# gray", "gray")
            .replace("# flat", "flat")
            .replace("# dataset", "dataset")
            .replace("# clients", "clients")
            .replace("# partition", "partition")
            .replace("# evaluator", "evaluator")
            .replace("# sets", "sets")
            .replace("# epsilon", "epsilon")
            .replace("# clip", "clip")
            .replace("# peers", "peers")
            .replace("# listen", "listen")
            .replace("# advertise", "advertise")
            .replace("# ca", "ca");
        toml::from_str::<ClientSettings>(&text).unwrap();
        let table: toml::Table = toml::from_str(&text).unwrap();
        let command = ClientRunArgs::augment_args(GlobalArgs::augment_args(clap::Command::new("run")));
        for argument in command.get_arguments() {
            let key = match argument.get_id().as_str() {
                "fleet" => "clients",
                key => key,
            };
            let is_setting = !matches!(key, "config" | "once" | "json" | "profile" | "config_dir");
            let is_there = ["examples", "fleet", "conditions"].iter().any(|inner| table[*inner].get(key).is_some());
            assert!(!is_setting || table.contains_key(key) || is_there, "{key}");
        }
    }
}
