//! The Python package takes part in rounds beside clients in Rust, and operates the coordinator.

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use tributary_client::Outcome;
use tributary_protocol::operator::{self, Job, JobAnswers, Page, Round};
use tributary_protocol::state::{AssignmentState, Phase};

use super::Listening;
use super::client::{Examples, averaged, distance, job_file, session};
use crate::support::{Answer, has_module, output, python, within_reason};

pub(super) const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/package.py");

/// A process with the package, and a separate folder.
struct Silo {
    python: PathBuf,
    directory: PathBuf,
}

impl Silo {
    fn new(python: &Path, listening: &Listening, name: &str, examples: &Examples) -> Self {
        let directory = listening.directory.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("examples.csv"), examples.table()).unwrap();
        Self { python: python.to_owned(), directory }
    }

    /// One session with a trainer of this kind: what it prints.
    async fn session(&self, listening: &Listening, kind: &str) -> Value {
        self.run(&[kind, &listening.url(), &listening.enrolment, "examples.csv", "state"]).await
    }

    async fn run(&self, arguments: &[&str]) -> Value {
        let mut command = Command::new(&self.python);
        command.arg(SCRIPT).args(arguments).current_dir(&self.directory);
        let output = within_reason(output(command)).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

async fn create(listening: &Listening, job: Value) -> Job {
    Answer::to(listening.operate(Method::POST, "/jobs").json(&json!({ "job": job }))).await.ok()
}

async fn assignments(listening: &Listening, job: &Job) -> Vec<operator::Assignment> {
    let path = format!("/jobs/{}/rounds/1/assignments", job.head.id);
    listening.look(&path).await.ok::<Page<operator::Assignment>>().items
}

/// Goal: data scientists join with what they have. Method: the SDK in Rust, the package with its own trainer, one with
/// numpy, and where PyTorch is installed one with a module do one round; its outcome is computed from their tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_clients_contribute_beside_the_sdk_and_the_operator_reads_the_outcome() {
    let Some(python) = python("tributary") else { return };
    let listening = Listening::start().await;
    let mut kinds = vec!["layers", "numpy"];
    kinds.extend(has_module(&python, "torch").then_some("torch"));
    let mut file = job_file();
    let clients = kinds.len() + 1;
    file["round"] = json!({ "updates_goal": clients, "updates_min": clients, "over_selection": 1.0 });
    let job = create(&listening, file).await;

    let tables: Vec<Examples> = (0..clients).map(|client| Examples::draw(20 + 10 * client, client as u64)).collect();
    let rust = listening.directory.path().join("rust");
    let silos = kinds.iter().zip(&tables[1..]).map(|(kind, table)| Silo::new(&python, &listening, kind, table));
    let silos: Vec<Silo> = silos.collect();
    let python_sessions = silos.iter().zip(&kinds).map(|(silo, kind)| silo.session(&listening, kind));
    let (outcome, printed) = within_reason(async {
        tokio::join!(session(&listening, &rust, &tables[0]), futures_util::future::join_all(python_sessions))
    })
    .await;
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    listening.until_completed(job.head.id).await;

    let reported = assignments(&listening, &job).await;
    for ((kind, printed), table) in kinds.iter().zip(&printed).zip(&tables[1..]) {
        assert_eq!((&printed["kind"], &printed["round"]), (&json!("contributed"), &json!(1)), "{kind}");
        let theirs = reported.iter().find(|one| json!(one.client) == printed["client"]).unwrap();
        assert_eq!(
            (theirs.state, theirs.weight),
            (AssignmentState::Reported, Some(table.classes.len() as u64)),
            "{kind}"
        );
        let client: Value = listening.look(&format!("/clients/{}", theirs.client)).await.ok();
        assert_eq!(client["attributes"]["kind"], *kind, "{client}");
    }
    let expected = averaged(&listening.model(job.head.id, 0).await, &tables.iter().collect::<Vec<_>>());
    let error = distance(&listening.model(job.head.id, 1).await, &expected);
    assert!(error < 1e-6, "the model is {error} away from the mean of all clients");

    let ca = listening.ca.file.display().to_string();
    let seen = silos[0].run(&["operator", &listening.url(), &listening.operator, &ca, "classes"]).await;
    let shapes = json!({
        "layers.0.weight": [8, 4], "layers.0.bias": [8], "layers.2.weight": [3, 8], "layers.2.bias": [3],
    });
    assert_eq!(seen, json!({ "rounds": [[1, "committed", clients]], "model": shapes, "refused": "not-found" }));
    listening.stop().await;
}

/// Goal: a silo in Python answers analyses from rows that its code gives, without a trainer, and of its exceptions the
/// operator learns the kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_in_python_answers_analyses() {
    let Some(python) = python("tributary") else { return };
    let listening = Listening::start().await;
    let survey = |name: &str| {
        json!({
            "name": name, "population": job_file()["population"],
            "analysis": { "queries": [
                { "name": "ages", "kind": "mean", "column": "age", "range": [0, 100] },
                { "name": "cats", "kind": "count", "column": "pet", "values": ["cat"] },
            ] },
            "round": { "updates_goal": 1, "updates_min": 1, "over_selection": 1.0 },
        })
    };
    let job = create(&listening, survey("census")).await;
    let silo = Silo::new(&python, &listening, "silo", &Examples::draw(1, 1));
    let with = [&listening.url(), &listening.enrolment, "state"];
    let answered = silo.run(&["answers", with[0], with[1], with[2]]).await;
    assert_eq!(answered["kind"], "contributed");
    listening.until_completed(job.head.id).await;
    let told: JobAnswers = listening.look(&format!("/jobs/{}/answers", job.head.id)).await.ok();
    let value = |query: usize| told.answers[query].estimates[0].value.unwrap();
    // Of the six rows four have an age.
    assert!((value(0) - (31.5 + 40.0 + 52.0 + 20.0) / 4.0).abs() < 1e-3, "{told:?}");
    assert!((value(1) - 3.0).abs() < 1e-6, "{told:?}");

    let job = create(&listening, survey("second")).await;
    let raised = silo.run(&["refuses", with[0], with[1], with[2]]).await;
    assert_eq!(raised["kind"], "raised");
    let failed = serde_json::to_string(&assignments(&listening, &job).await[0]).unwrap();
    assert!(failed.contains("KeyError") && !failed.contains("patient_17"), "{failed}");
    listening.stop().await;
}

/// Goal: a silo in Python holds a large model twice at most. Method: two rounds of a job of 9 million parameters,
/// whose vectors are so long that the allocator gives them back to the system at once. The first round downloads the
/// model, the second adds a model delta to the one that is here.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_silo_needs_ten_bytes_a_parameter_beside_its_trainer() {
    let Some(python) = python("tributary") else { return };
    let listening = Listening::start().await;
    let mut file = job_file();
    file["model"] = json!({ "parameters": [
        { "name": "w", "shape": [7, 1_000_000] }, { "name": "v", "shape": [2_000_000] },
    ] });
    file["update"] = json!({ "codec": "int8" });
    file["download"] = json!({ "delta": true });
    file["round"] = json!({ "updates_goal": 1, "updates_min": 1, "over_selection": 1.0 });
    file["stop"] = json!({ "rounds": 2 });
    let job = create(&listening, file).await;
    let silo = Silo::new(&python, &listening, "silo", &Examples::draw(1, 1));
    let (url, token) = (listening.url(), &listening.enrolment);
    for round in 1..=2 {
        let ended = silo.run(&["memory", &url, token, "state"]).await;
        assert_eq!((&ended["kind"], &ended["round"]), (&json!("contributed"), &json!(round)));
        let bytes = ended["bytes_per_parameter"].as_f64().unwrap();
        assert!(bytes <= 10.0, "round {round}: {bytes}");
    }
    listening.until_completed(job.head.id).await;
    listening.stop().await;
}

/// Goal: a failure in Python reaches the operator as the type of its exception, as text only where the client says so,
/// and the app as its own exception; a device that is busy does not train.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exception_of_a_trainer_is_reported_and_raised_and_a_host_can_stop_a_session() {
    let Some(python) = python("tributary") else { return };
    for (kind, says_text) in [("raises", false), ("raises_text", true)] {
        let listening = Listening::start().await;
        let mut file = job_file();
        file["round"] = json!({ "updates_goal": 1, "updates_min": 1, "over_selection": 1.0 });
        let job = create(&listening, file).await;
        let silo = Silo::new(&python, &listening, "silo", &Examples::draw(20, 1));

        let away = within_reason(silo.session(&listening, "away")).await;
        assert_eq!(away["kind"], "interrupted");
        let raised = within_reason(silo.session(&listening, kind)).await;
        assert_eq!((&raised["kind"], &raised["text"]), (&json!("raised"), &json!("the disk of the silo is gone")));
        let failed = &assignments(&listening, &job).await[0];
        assert_eq!(failed.state, AssignmentState::Failed);
        let rounds: Page<Round> = listening.look(&format!("/jobs/{}/rounds?task=train", job.head.id)).await.ok();
        assert!(rounds.items.iter().all(|round| round.phase != Phase::Committed));
        let told = serde_json::to_string(failed).unwrap();
        assert!(told.contains("OSError") && told.contains("the disk of the silo is gone") == says_text, "{told}");
        listening.stop().await;
    }
}

/// Goal: an interruption loses nothing while the deadline allows another session. Method: sessions of new processes on
/// one folder, which a host interrupts; the model is that of a client that was not interrupted, and the round had one
/// assignment. One trainer keeps f64, the other an optimiser's moments, running statistics and random states, in the
/// second epoch of a loader that shuffles.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_trainer_in_python_goes_on_with_the_same_bits() {
    let Some(python) = python("tributary") else { return };
    let examples = Examples::draw(40, 1);
    let with = async |kind: &str, sessions: &[i32]| {
        let listening = Listening::start().await;
        let mut file = job_file();
        file["training"]["steps"] = json!(8);
        if kind == "torch_batches" {
            let layers = json!([
                { "kind": "linear", "out_features": 8 }, { "kind": "dropout", "probability": 0.5 }, { "kind": "relu" },
                { "kind": "linear", "out_features": 3 },
            ]);
            file["model"]["layers"] = layers;
            file["training"] = json!({ "epochs": 2, "optimizer": { "kind": "adam", "learning_rate": 0.05 } });
        }
        file["round"] = json!({ "updates_goal": 1, "updates_min": 1, "over_selection": 1.0, "deadline_ms": 600_000 });
        let job = create(&listening, file).await;
        let silo = Silo::new(&python, &listening, kind, &examples);
        let mut looks = Vec::new();
        for stopped_after in sessions {
            let (url, stopped_after) = (listening.url(), stopped_after.to_string());
            let ended = silo.run(&[kind, &url, &listening.enrolment, "examples.csv", "state", &stopped_after]).await;
            let expected = if stopped_after == "-1" { "contributed" } else { "interrupted" };
            assert_eq!(ended["kind"], expected, "{kind}");
            looks.push(ended["looks"].as_u64().unwrap());
        }
        listening.until_completed(job.head.id).await;
        let model = listening.look(&format!("/jobs/{}/models/1", job.head.id)).await.body;
        let assignments = assignments(&listening, &job).await;
        listening.stop().await;
        assert_eq!((assignments.len(), assignments[0].state), (1, AssignmentState::Reported), "{kind}");
        (looks, model, assignments[0].loss)
    };
    let torch = has_module(&python, "torch").then_some("torch_batches");
    for kind in ["numpy"].into_iter().chain(torch) {
        let (all, model, loss) = within_reason(with(kind, &[-1])).await;
        let (looks, resumed_model, resumed_loss) = within_reason(with(kind, &[0, 3, 4, -1])).await;
        assert!((resumed_model, resumed_loss) == (model, loss), "{kind}: other bits than without an interruption");
        // A trainer looks before each batch, and PyTorch's also at the end of each of two epochs.
        let expected = if kind == "numpy" { (8, [1, 4, 5, 1]) } else { (12, [1, 4, 5, 5]) };
        assert_eq!((all[0], looks.as_slice()), (expected.0, expected.1.as_slice()), "{kind} began again");
    }
}

/// Goal: trainers in Python correct their gradients as those in Rust do. Method: FedDyn, which pulls towards the model
/// and from the second round on adds the client's own term; for each trainer a job of one client with the same
/// examples. A trainer that does not say that it corrects its gradients is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_trainers_correct_their_gradients_as_the_sdk_does() {
    let Some(python) = python("tributary") else { return };
    let examples = Examples::draw(30, 1);
    let mut file = job_file();
    file["training"]["algorithm"] = json!({ "kind": "fed_dyn", "alpha": 0.3, "clients": 1 });
    file["aggregation"] = json!({ "combine": "uniform_mean" });
    file["round"] = json!({ "updates_goal": 1, "updates_min": 1, "over_selection": 1.0 });
    file["stop"] = json!({ "rounds": 3 });

    let after = async |kind: &str| {
        let listening = Listening::start().await;
        let job = create(&listening, file.clone()).await;
        let silo = Silo::new(&python, &listening, kind, &examples);
        if kind == "plain" {
            let told = silo.session(&listening, kind).await;
            listening.stop().await;
            // No slot is lost on it.
            let reason = "its SDK cannot follow the plan: it lacks algorithm:fed_dyn";
            assert_eq!((&told["kind"], &told["waits_for"]["reason"]), (&json!("nothing_to_do"), &json!(reason)));
            return Vec::new();
        }
        for _ in 0..3 {
            match kind {
                "rust" => drop(session(&listening, &silo.directory, &examples).await),
                kind => drop(silo.session(&listening, kind).await),
            }
        }
        listening.until_completed(job.head.id).await;
        let model = listening.model(job.head.id, 3).await;
        listening.stop().await;
        model.into_values()
    };
    let expected = within_reason(after("rust")).await;
    let torch = has_module(&python, "torch").then_some("torch");
    for kind in ["numpy"].into_iter().chain(torch) {
        let got = within_reason(after(kind)).await;
        let error = got.iter().zip(&expected).map(|(got, expected)| (got - expected).abs()).fold(0.0, f32::max);
        assert!(error < 1e-5, "{kind}: {error} away from the trainer in Rust");
    }
    within_reason(after("plain")).await;
}

/// Goal: a report of Python carries what one of Rust does. Method: a client of the SDK trains and one in Python
/// evaluates; the round shows its figure, and counts by class that add up to its examples.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_client_evaluates_with_figures_of_its_own_and_counts_by_class() {
    let Some(python) = python("tributary") else { return };
    let listening = Listening::start().await;
    let mut file = job_file();
    file["round"] = json!({ "updates_goal": 1, "updates_min": 1, "over_selection": 1.0 });
    file["evaluation"] = json!({ "attributes": { "kind": "numpy" } });
    let job = create(&listening, file).await;
    let silo = Silo::new(&python, &listening, "silo", &Examples::draw(40, 1));

    let rust = listening.directory.path().join("rust");
    let trained = within_reason(session(&listening, &rust, &Examples::draw(30, 2))).await;
    assert!(matches!(trained, Outcome::Contributed { round: 1, .. }), "{trained:?}");
    let evaluated = within_reason(silo.session(&listening, "numpy")).await;
    assert_eq!((&evaluated["kind"], &evaluated["round"]), (&json!("evaluated"), &json!(1)));
    listening.until_completed(job.head.id).await;

    let rounds: Page<Round> = listening.look(&format!("/jobs/{}/rounds?task=evaluate", job.head.id)).await.ok();
    let round = &rounds.items[0];
    let classes = round.classes.as_ref().unwrap();
    assert_eq!((classes.examples.len(), classes.examples.iter().sum::<u64>()), (3, 40));
    let right = classes.right.iter().sum::<u64>() as f64;
    assert!((round.accuracy.unwrap() - right / 40.0).abs() < 1e-9, "{round:?}");
    let margin = &round.metrics[0];
    assert_eq!((margin.name.as_str(), margin.mean, margin.reports), ("margin", 0.5, 1));
    listening.stop().await;
}

/// Goal: what the package promises without a coordinator, of forked children, signals, modules and loops. Method: its
/// own tests, those of modules where PyTorch is installed.
#[tokio::test]
async fn the_python_package_passes_its_own_tests() {
    let Some(python) = python("tributary") else { return };
    let with_torch = has_module(&python, "torch").then_some("package_torch");
    for tests in ["package_alone"].into_iter().chain(with_torch) {
        let mut command = Command::new(&python);
        command.args(["-m", "unittest", tests]).current_dir(Path::new(SCRIPT).parent().unwrap());
        let output = within_reason(output(command)).await;
        assert!(output.status.success(), "{tests}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
