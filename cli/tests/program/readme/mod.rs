//! The README does what it says.
//!
//! Goal: somebody who copies each command of the README into terminals in an empty directory gets a model, and every
//! command ends with 0. Method: the shell blocks are taken from the README and typed into real shells, word for word.
//! Programs that the README may use are listed in [`tools`]; any other command is not found, which fails the test.
//!
//! Three things differ from what a reader does. `cargo` is a stand-in that uses the binary under test and knows no
//! other command lines than the README's. The coordinator listens on a free port. A token that the README abbreviates
//! (`..`) is the one that a command printed before.

mod links;
mod pages;
mod roles;
mod terminal;
mod tools;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use pages::{Block, blocks, repository};
use terminal::{Terminal, Transcript};
use tools::Tools;

/// The block that is typed into a separate terminal, because it does not end.
const SERVE: &str = "tributary serve\n";
/// Abbreviated secrets of the README.
const ABBREVIATED: [&str; 2] = ["tributary_operator_..", "tributary_enrolment_.."];
/// Rounds of the README's job.
const ROUNDS: u64 = 10;

/// What the terminals of a reader share.
struct Reader {
    directory: tempfile::TempDir,
    tools: Tools,
    transcript: Transcript,
}

impl Reader {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, tools: Tools::new(), transcript: Transcript::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn terminal(&self, settings: &[(&str, &str)]) -> Terminal {
        let mut environment = BTreeMap::from([
            ("PATH", self.tools.path()),
            ("HOME", self.directory.path().to_str().unwrap().to_owned()),
            ("TMPDIR", self.directory.path().to_str().unwrap().to_owned()),
        ]);
        environment.extend(settings.iter().map(|(name, value)| (*name, (*value).to_owned())));
        Terminal::open(self.directory.path(), &environment, self.transcript.clone())
    }

    /// The block with the newest printed secrets in place of the abbreviated ones.
    fn completed(&self, block: &str) -> String {
        ABBREVIATED.into_iter().filter(|short| block.contains(short)).fold(block.to_owned(), |block, short| {
            let kind = short.trim_end_matches('.');
            let printed = self.transcript.last_word_with(kind);
            let secret = printed.unwrap_or_else(|| panic!("{short} is used before a command printed it:\n{block}"));
            block.replace(short, &secret)
        })
    }

    /// What the program prints as JSON to an operator.
    fn ask(&self, server: &str, arguments: &[&str]) -> Vec<Value> {
        let output = Command::new(env!("CARGO_BIN_EXE_tributary"))
            .arg("--json")
            .args(arguments)
            .env("TRIBUTARY_SERVER", server)
            .env("TRIBUTARY_TOKEN", self.transcript.last_word_with("tributary_operator_").unwrap())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn a_reader_who_copies_every_command_gets_a_model() {
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let reader = Reader::new();
    let (before, from_serve): (Vec<Block>, Vec<Block>) = {
        let all: Vec<Block> = blocks(&readme).into_iter().filter(|block| block.language == "sh").collect();
        let serve = all.iter().position(|block| block.text == SERVE).expect("the README starts a coordinator");
        (all[..serve].to_vec(), all[serve + 1..].to_vec())
    };

    let mut first = reader.terminal(&[("TRIBUTARY_LISTEN", "127.0.0.1:0")]);
    let demo = before.iter().map(|block| first.run(&reader.completed(&block.text))).collect::<String>();
    assert_the_demo_ended_well(&demo);
    assert!(reader.tools.has_installed(), "the README uses `tributary` without installing it");

    // From here on the first terminal belongs to the coordinator.
    let server = serve(&mut first);
    assert!(reader.path("tributary.db").is_file());
    assert_the_coordinator_shows_its_pages(&server);

    let mut second = reader.terminal(&[("TRIBUTARY_SERVER", &server)]);
    for block in &from_serve {
        assert_ne!(block.text, SERVE, "the README starts one coordinator");
        second.run(&reader.completed(&block.text));
    }
    assert_the_job_learned(&reader, &server);
}

/// Starts the coordinator in a terminal: its address.
fn serve(terminal: &mut Terminal) -> String {
    terminal.start(SERVE);
    let line = terminal.line_with("http://127.0.0.1:");
    terminal.line_with("tributary_operator_");
    line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned()
}

fn assert_the_demo_ended_well(printed: &str) {
    let first = printed.lines().next().unwrap();
    assert!(first.contains("http://127.0.0.1:") && first.contains("/#token=tributary_operator_"), "{printed}");
    let rounds = printed.lines().filter(|line| line.starts_with("round ") && line.contains("accuracy"));
    assert_eq!(rounds.count(), 30, "{printed}");
    assert!(printed.lines().any(|line| line.starts_with("accuracy ")), "{printed}");
    let model = printed.split_whitespace().find(|word| word.ends_with(".safetensors"));
    assert_is_model(Path::new(model.unwrap_or_else(|| panic!("no model file in\n{printed}"))));
}

/// The addresses that the README names.
fn assert_the_coordinator_shows_its_pages(server: &str) {
    let address = server.trim_start_matches("http://").trim_end_matches('/');
    for path in ["/", "/docs", "/openapi.json"] {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&answer));
    }
}

fn assert_the_job_learned(reader: &Reader, server: &str) {
    let job = &reader.ask(server, &["job", "show", "points"])[0]["job"];
    assert_eq!(job["state"], "completed", "{job}");
    assert_eq!(job["rounds_committed"], ROUNDS, "{job}");

    let rounds = reader.ask(server, &["round", "list", "points"]);
    assert_eq!(rounds.len() as u64, ROUNDS);
    for round in &rounds {
        assert_eq!((&round["phase"], &round["reported"]), (&"committed".into(), &5.into()), "{round}");
    }
    let loss = |round: &Value| round["training_loss"].as_f64().unwrap();
    assert!(loss(&rounds[9]) < loss(&rounds[0]) / 2.0, "{rounds:?}");
    let evaluations = reader.ask(server, &["round", "list", "points", "--task", "evaluate"]);
    // Half of the points lie in the circle.
    let accuracy = evaluations.last().unwrap()["accuracy"].as_f64().unwrap();
    assert!(accuracy > 0.9, "{evaluations:?}");

    let table = std::fs::read_to_string(reader.path("rounds.csv")).unwrap();
    assert_eq!(table.lines().count() as u64, 1 + ROUNDS, "{table}");
    assert_is_model(&reader.path("points.safetensors"));
}

/// A safetensors file: the length of its header, then the header as JSON.
fn assert_is_model(path: &Path) {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (length, rest) = file.split_first_chunk().unwrap();
    let header = std::str::from_utf8(&rest[..u64::from_le_bytes(*length) as usize]).unwrap();
    assert!(header.contains("layers.0.weight"), "{}: {header}", path.display());
}

/// The way from an empty folder to an accuracy on the screen, with a table that is there.
#[test]
fn the_first_round_on_a_table_of_ones_own_takes_eight_commands() {
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let all: Vec<String> = blocks(&readme).into_iter().flat_map(|block| lines_of(&block)).collect();
    let serve = all.iter().position(|line| *line == SERVE.trim()).expect("the README starts a coordinator");
    let watch = all.iter().position(|line| line.starts_with("tributary job watch")).expect("and follows a job");
    let begins = ["tributary ", "export ", "TRIBUTARY_TOKEN="];
    let is_command = |line: &&String| begins.iter().any(|begin| line.starts_with(begin));
    assert_eq!(all[serve..=watch].iter().filter(is_command).count(), 8, "{all:?}");
}

fn lines_of(block: &Block) -> Vec<String> {
    block.text.lines().map(str::to_owned).collect()
}

#[test]
fn the_readme_has_no_block_that_this_test_overlooks() {
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    for block in blocks(&readme) {
        assert!(["sh", "rust"].contains(&block.language.as_str()), "line {}: {:?}", block.line, block.language);
    }
    let indented =
        readme.lines().zip(1..).find(|(line, _)| line.starts_with("    tributary ") || line.starts_with("    cargo "));
    assert_eq!(indented, None, "commands belong into ```sh blocks");
}
