//! What a newcomer meets: example jobs, fleets, tables that do not fit, and who is waited for.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::listener::process::Serving;

/// A coordinator with a population, and where commands run.
struct Beginning {
    directory: tempfile::TempDir,
    serving: Serving,
    enrolment: String,
}

/// A program that runs until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Beginning {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let serving = Serving::start(directory.path(), &[], None);
        let mut beginning = Self { directory, serving, enrolment: String::new() };
        beginning.ask(&["population", "create", "shop"]);
        let token = beginning.ask(&["token", "create", "--population", "shop"]);
        beginning.enrolment = token[0]["secret"].as_str().unwrap().to_owned();
        beginning
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, token: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command
            .args(["--server", self.serving.event["url"].as_str().unwrap(), "--token", token, "--json"])
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("TRIBUTARY_CONFIG_DIR", self.path())
            .stdin(Stdio::null());
        command
    }

    /// The program's output, for an operator.
    fn operate(&self, arguments: &[&str]) -> Output {
        let token = self.serving.event["operator_token"].as_str().unwrap();
        self.command(token, arguments).output().unwrap()
    }

    fn ask(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.operate(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn create_job(&self, example: &[&str]) {
        let text = Command::new(env!("CARGO_BIN_EXE_tributary"))
            .args(["example", "job"])
            .args(example)
            .current_dir(self.path())
            .env_clear()
            .output()
            .unwrap();
        assert!(text.status.success(), "{}", String::from_utf8_lossy(&text.stderr));
        std::fs::write(self.path().join("job.toml"), text.stdout).unwrap();
        self.ask(&["job", "create", "job.toml"]);
    }
}

#[test]
fn the_first_example_completes_with_one_client_on_the_built_in_digits() {
    let beginning = Beginning::new();
    beginning.create_job(&["first"]);
    let arguments = ["client", "run", "--state-dir", "one", "--dataset", "digits"];
    let client = beginning.command(&beginning.enrolment, &arguments).stdout(Stdio::null()).spawn().unwrap();
    let client = Running(client);
    let watched = beginning.ask(&["job", "watch", "first"]);
    assert_eq!(watched.last().unwrap()["state"], "completed", "{watched:?}");
    let accuracy = watched.iter().rev().find_map(|line| line["accuracy"].as_f64()).unwrap();
    assert!(accuracy > 0.9, "{watched:?}");
    drop(client);
}

/// Goal: what a model has learned of a client is taken away by training again without it. Method: the job of one client
/// again, by another one; and from a later version, which is the new job's first one.
#[test]
fn a_job_is_trained_again_without_a_client() {
    let beginning = Beginning::new();
    beginning.create_job(&["first"]);
    let run = |folder: &str| {
        let arguments = ["client", "run", "--state-dir", folder, "--dataset", "digits"];
        Running(beginning.command(&beginning.enrolment, &arguments).stdout(Stdio::null()).spawn().unwrap())
    };
    let one = run("one");
    beginning.ask(&["job", "watch", "first"]);
    let listed = beginning.ask(&["client", "list", "--population", "shop"]);
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let again = ["job", "rerun", "first", "--without", &id];
    let plan = &beginning.ask(&again)[0];
    let versions = beginning.ask(&["job", "versions", "first"]);
    let newest = versions.len() as u64 - 1;
    assert_eq!((&plan["from"], &plan["versions_again"], &plan["updates"]), (&0.into(), &newest.into(), &newest.into()));
    assert_eq!(beginning.ask(&["job", "list"]).len(), 1, "nothing is created before it is said so");
    let created = &beginning.ask(&[&again[..], &["--yes"]].concat())[0];
    assert_eq!(created["file"]["eligibility"]["without"], serde_json::json!([id]));
    let two = run("two");
    let watched = beginning.ask(&["job", "watch", "first-rerun"]);
    assert_eq!(watched.last().unwrap()["state"], "completed", "{watched:?}");
    drop((one, two));
    let sites = beginning.ask(&["round", "show", "first-rerun", "1"]);
    assert!(!sites.iter().any(|line| line.to_string().contains(&id)), "{sites:?}");

    let from = beginning.ask(&[&again[..], &["--from", "2", "--name", "later", "--yes"]].concat());
    assert_eq!(from[0]["file"]["stop"]["rounds"], newest - 2);
    let begun = beginning.ask(&["job", "versions", "later"]);
    let second = versions.iter().find(|version| version["version"] == 2).unwrap();
    assert_eq!(begun.last().unwrap()["sha256"], second["sha256"]);
    let nothing = beginning.operate(&["job", "rerun", "later", "--without", &id]);
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("there is nothing to do"));
}

/// Method: the fleet is smaller than the cohort of the job, so that it waits.
#[test]
fn a_fleet_that_is_too_small_says_how_many_are_missing() {
    let beginning = Beginning::new();
    beginning.create_job(&["digits"]);
    let arguments = ["client", "run", "--fleet", "2", "--evaluator", "--dataset", "digits"];
    let fleet = beginning.command(&beginning.enrolment, &arguments).stdout(Stdio::piped()).spawn();
    let mut fleet = Running(fleet.unwrap());
    let lines = BufReader::new(fleet.0.stdout.take().unwrap()).lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let waiting = events.into_iter().find(|event| event["event"] == "waiting").unwrap();
    let waits_for = &waiting["waits_for"];
    assert_eq!((&waits_for["kind"], &waits_for["needed"]), (&"clients".into(), &13.into()), "{waiting}");
    // The evaluator does not train.
    assert!(waits_for["available"].as_u64().unwrap() <= 2, "{waiting}");
    for name in ["client-01", "client-02", "evaluator"] {
        assert!(beginning.path().join("tributary-fleet").join(name).is_dir(), "{name}");
    }
}

#[test]
fn a_table_that_no_running_job_can_use_is_refused_before_a_client_enrols() {
    let beginning = Beginning::new();
    beginning.create_job(&["first"]);
    // As many rows as a client tells the sums of, when it has held some out.
    let pets = "weight;animal\n".to_owned() + &"4.1;cat\n30;dog\n".repeat(10);
    std::fs::write(beginning.path().join("pets.csv"), pets).unwrap();
    let arguments = ["client", "run", "--state-dir", "one", "--csv", "pets.csv"];
    let refused = beginning.command(&beginning.enrolment, &arguments).output().unwrap();
    let error: Value = serde_json::from_slice(&refused.stderr).unwrap();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("first: its network reads 64 numbers, and an example has 1 number"), "{message}");
    assert!(beginning.ask(&["client", "list", "--population", "shop"]).is_empty());

    // A job for the table, and the client fits. It would be drawn for the other job, too.
    beginning.ask(&["job", "stop", "first"]);
    beginning.create_job(&["--csv", "pets.csv"]);
    let arguments = ["client", "run", "--state-dir", "one", "--csv", "pets.csv", "--once"];
    let ran = beginning.command(&beginning.enrolment, &arguments).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(beginning.ask(&["client", "list", "--population", "shop"]).len(), 1);
}

#[test]
fn errors_are_objects_with_the_answer_of_the_coordinator() {
    let beginning = Beginning::new();
    let taken = beginning.operate(&["population", "create", "shop"]);
    let error: Value = serde_json::from_slice(&taken.stderr).unwrap();
    assert_eq!(taken.status.code(), Some(4));
    assert_eq!(error["exit_code"], 4);
    assert_eq!(error["problem"]["type"], "urn:tributary:problem:name-taken", "{error}");
    beginning.ask(&["population", "create", "shop", "--if-missing"]);
    let missing = beginning.operate(&["client", "list", "--population", "shpo"]);
    let error: Value = serde_json::from_slice(&missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(3));
    assert!(error["hint"].as_str().unwrap().contains("did you mean shop?"), "{error}");
}
