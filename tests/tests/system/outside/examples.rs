//! The example apps of the SDK and of the Python package, as their README says to start them.

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::operator::{Job, Page, Round};

use super::Listening;
use crate::support::{Answer, has_module, output, python, within_reason};

const RUST_EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client-sdk/examples");
const PYTHON_EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client-sdk/python/examples");

/// An example in Rust: cargo builds all of them for the tests of a workspace.
fn in_rust(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).unwrap().join("examples").join(name)
}

/// Runs a program in a folder to its end; returns what it prints.
async fn printed(folder: &Path, program: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    let output = within_reason(output(command)).await;
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The job file in a folder's README, for this many rounds.
fn job_of_page(folder: &str, rounds: u32) -> Value {
    let page = std::fs::read_to_string(format!("{folder}/README.md")).unwrap();
    let job = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut job: Value = toml::from_str(job).unwrap();
    job["stop"] = json!({ "rounds": rounds });
    job
}

async fn create(listening: &Listening, job: Value) -> Job {
    Answer::to(listening.operate(Method::POST, "/jobs").json(&json!({ "job": job }))).await.ok()
}

/// The numbers of the job's committed rounds.
async fn committed(listening: &Listening, job: &str) -> Vec<u32> {
    let jobs: Page<Job> = listening.look("/jobs").await.ok();
    let id = jobs.items.iter().find(|one| one.file.name.as_str() == job).unwrap().head.id;
    listening.until_completed(id).await;
    let rounds: Page<Round> = listening.look(&format!("/jobs/{id}/rounds?task=train")).await.ok();
    rounds.items.iter().map(|round| round.number).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_app_in_thirty_lines_contributes_and_started_again_is_the_same_client() {
    let listening = Listening::start().await;
    create(&listening, job_of_page(RUST_EXAMPLES, 2)).await;
    let (folder, url) = (listening.directory.path(), listening.url());
    for round in 1..=2 {
        let said = printed(folder, &in_rust("app"), &[&url, &listening.enrolment, "state"]).await;
        assert_eq!(said, format!("contributed to round {round}\n"));
    }
    assert_eq!(committed(&listening, "digits").await.len(), 2);
    let clients: Value = listening.look("/clients?population=default").await.ok();
    assert_eq!(clients["items"].as_array().unwrap().len(), 1, "{clients}");
    listening.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_app_with_a_network_of_its_own_prints_its_model_and_contributes() {
    let listening = Listening::start().await;
    let (folder, url) = (listening.directory.path(), listening.url());
    let model: Value = toml::from_str(&printed(folder, &in_rust("own_network"), &[]).await).unwrap();
    let mut job = job_of_page(RUST_EXAMPLES, 1);
    job["model"] = model["model"].clone();
    create(&listening, job).await;
    let said = printed(folder, &in_rust("own_network"), &[&url, &listening.enrolment, "state"]).await;
    assert!(said.contains("Contributed { round: 1"), "{said}");
    assert_eq!(committed(&listening, "digits").await, [1]);
    listening.stop().await;
}

/// Writes examples with numpy, as the READMEs describe them.
async fn write_examples(python: &Path, folder: &Path, inputs: &str) {
    let code = format!(
        "import numpy as np; rng = np.random.default_rng(7); \
         np.savez('examples.npz', inputs={inputs}, labels=rng.integers(0, 2, 40))"
    );
    printed(folder, python, &["-c", &code]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_numpy_silo_contributes_to_the_job_of_its_page() {
    let Some(python) = python("tributary") else { return };
    let listening = Listening::start().await;
    create(&listening, job_of_page(PYTHON_EXAMPLES, 1)).await;

    let (folder, url) = (listening.directory.path(), listening.url());
    write_examples(&python, folder, "rng.random((40, 64))").await;
    let script = format!("{PYTHON_EXAMPLES}/numpy_silo.py");
    let said = printed(folder, &python, &[&script, &url, &listening.enrolment, "examples.npz", "state"]).await;
    assert_eq!(said, "contributed 1\n");
    assert_eq!(committed(&listening, "softmax").await, [1]);
    listening.stop().await;
}

/// Where PyTorch is installed: the job comes from the module, and the silo contributes to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silos_with_pytorch_make_their_jobs_and_contribute() {
    let Some(python) = python("tributary") else { return };
    let silos = [
        ("torch_silo", "torch", "digits-torch", "rng.random((40, 64))"),
        ("lora_silo", "torch, transformers, peft", "adapters", "rng.integers(0, 100, (40, 12))"),
    ];
    for (name, modules, job, inputs) in silos {
        if !has_module(&python, modules) {
            eprintln!("not tried: {name} needs {modules}");
            continue;
        }
        let listening = Listening::start().await;
        let (folder, url) = (listening.directory.path(), listening.url());
        let script = format!("{PYTHON_EXAMPLES}/{name}.py");
        printed(folder, &python, &[&script, "job", "job.toml"]).await;
        let mut file: Value = toml::from_str(&std::fs::read_to_string(folder.join("job.toml")).unwrap()).unwrap();
        file["stop"] = json!({ "rounds": 1 });
        let created = create(&listening, file).await;
        let model = std::fs::read(folder.join("job.safetensors")).unwrap();
        let upload = listening.operate(Method::PUT, &format!("/jobs/{}/models/0", created.head.id)).body(model);
        assert_eq!(Answer::to(upload).await.status, 200);

        write_examples(&python, folder, inputs).await;
        let said = printed(folder, &python, &[&script, &url, &listening.enrolment, "examples.npz", "state"]).await;
        assert_eq!(said, "contributed 1\n", "{name}");
        assert_eq!(committed(&listening, job).await, [1]);
        listening.stop().await;
    }
}
