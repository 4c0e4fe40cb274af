//! Clients of all kinds predict with what they have learned, while there is no coordinator.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tributary_client::predict::Value as Field;
use tributary_client::{Client, Outcome};
use tributary_protocol::card::ModelCard;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::model::Model;
use tributary_protocol::operator::{Job, Page, Release};
use tributary_protocol::safetensors::{model_from_bytes, model_to_bytes};
use tributary_protocol::seed::Seed;

use super::Listening;
use super::app::{App, Jvm, compiled, create, in_c, in_kotlin, linear_job};
use super::boards::Board;
use super::client::{Examples, session};
use super::mixed_cohort::{Visitors, in_python};
use super::package::SCRIPT;
use crate::support::{Answer, output, printed, python, said, within_reason};

const JOB: &str = "wards";
const ROUNDS: u32 = 2;
const CLASSES: usize = 3;
const TOLERANCE: f64 = 1e-5;

/// Two numbers that are scaled, one of which may be missing, one that is fed as it is, and a category: six inputs.
fn inputs() -> Value {
    json!({
        "columns": [
            { "name": "x1", "mean": 0.25, "deviation": 2.0 },
            { "name": "x2", "mean": -0.5, "deviation": 0.5, "missing": "replace" },
            { "name": "x3" },
            { "name": "x4", "kind": "category", "categories": ["0", "1", "2"] },
        ],
        "target": { "name": "class", "classes": ["0", "1", "2"] },
    })
}

fn job_file(clients: usize) -> Value {
    let mut file = linear_job(clients, [6, CLASSES]);
    file["name"] = json!(JOB);
    file["model"]["inputs"] = inputs();
    file["stop"] = json!({ "rounds": ROUNDS });
    file
}

fn table(count: usize, seed: u64) -> Examples {
    let mut stream = Seed(seed).stream();
    let (mut inputs, mut classes) = (Vec::new(), Vec::new());
    for row in 0..count {
        let category = (row % CLASSES) as u32;
        inputs.extend((0..3).map(|_| stream.uniform(-2.0, 2.0)));
        inputs.push(category as f32);
        classes.push(category);
    }
    Examples::new(4, inputs, classes)
}

/// Raw rows, as texts; an empty one is missing.
const ROWS: [[&str; 4]; 4] =
    [["1.5", "0.25", "-1", "0"], ["-0.5", "", "2", "1"], ["0", "-2", "0.125", "2"], ["2", "1", "0", "1"]];

fn rows_as_csv() -> String {
    ROWS.iter().fold("x1,x2,x3,x4\n".to_owned(), |text, row| text + &row.join(",") + "\n")
}

/// The outputs that the model has for a row, by the formula.
fn expected(model: &Model, row: &[&str; 4]) -> Vec<f64> {
    let number = |text: &str, mean: f64, deviation: f64| (text.parse().unwrap_or(mean) - mean) / deviation;
    let category: usize = row[3].parse().unwrap();
    let mut inputs = vec![number(row[0], 0.25, 2.0), number(row[1], -0.5, 0.5), number(row[2], 0.0, 1.0)];
    inputs.extend((0..3).map(|code| f64::from(u8::from(code == category))));
    let tensor = |name: &str| model.tensor(model.parameters().index_of(name).unwrap());
    let (weights, biases) = (tensor("layers.0.weight"), tensor("layers.0.bias"));
    let product = |row: &[f32]| row.iter().zip(&inputs).map(|(weight, input)| f64::from(*weight) * input).sum::<f64>();
    weights.chunks(6).zip(biases).map(|(row, bias)| f64::from(*bias) + product(row)).collect()
}

/// Fails if these are not the classes and outputs of the model for [`ROWS`].
fn are_predictions(who: &str, told: &[Value], model: &Model) {
    assert_eq!(told.len(), ROWS.len(), "{who}: {told:?}");
    for (told, row) in told.iter().zip(&ROWS) {
        let outputs = expected(model, row);
        let class = (0..CLASSES).max_by(|one, other| outputs[*one].total_cmp(&outputs[*other])).unwrap();
        let label = told.get("label").unwrap_or(&told["class"]);
        assert_eq!(*label, class.to_string(), "{who}: {told} for {row:?}");
        let theirs: Vec<f64> = serde_json::from_value(told["outputs"].clone()).unwrap();
        let error = theirs.iter().zip(&outputs).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
        assert!(theirs.len() == CLASSES && error < TOLERANCE, "{who}: {told} instead of {outputs:?}");
    }
}

/// An app with the command that makes it predict.
struct Predicting {
    app: App,
    command: Command,
}

impl Predicting {
    /// Sessions until the app has contributed to all rounds.
    async fn contribute(&self, listening: &Listening, examples: &Examples) {
        for round in 1..=ROUNDS {
            let printed = self.app.session(listening, examples).await;
            assert_eq!(printed["round"], round, "{}: {printed}", self.app.kind);
        }
    }

    async fn predictions(self) -> Vec<Value> {
        let printed = within_reason(printed(self.command)).await;
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn folder(listening: &Listening, app: &App) -> PathBuf {
    let folder = listening.directory.path().join(app.kind);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("rows.csv"), rows_as_csv()).unwrap();
    folder
}

/// Apps in C, Kotlin and Python that predict with the model of a job, or with `@` and a channel with a released one.
fn apps_with_sdks(
    listening: &Listening,
    python: PathBuf,
    (jvm, classes): (&Arc<Jvm>, &Path),
    model: &str,
) -> Vec<Predicting> {
    let at = [listening.url(), listening.enrolment.clone()];
    let in_folder = |app: App, mut command: Command| {
        command.current_dir(folder(listening, &app));
        Predicting { app, command }
    };
    let mut c = Command::new(compiled("predict", listening.directory.path()));
    c.args(&at).args(["state", model, "rows.csv"]);
    let mut kotlin = jvm.run(classes, "tributary.example.PredictKt");
    kotlin.args(&at).args(["state", model, "rows.csv"]);
    let mut script = Command::new(&python);
    script.args([SCRIPT, "predict"]).args(&at).args(["rows.csv", "state", model]);
    vec![
        in_folder(in_c(listening, "c-layers", "client"), c),
        in_folder(in_kotlin(jvm, classes, "kotlin-layers", "layers"), kotlin),
        in_folder(in_python(python, "layers"), script),
    ]
}

/// The same, and a small board, which predicts with a file. Those without their tools are left out.
fn apps(listening: &Listening, python: PathBuf, jvm: (&Arc<Jvm>, &Path), file: &Path) -> Vec<Predicting> {
    let mut apps = apps_with_sdks(listening, python, jvm, JOB);
    if let Some(board) = Board::aarch64() {
        let (mut command, app) = (board.predicts(file, "rows.csv"), board.app());
        command.current_dir(folder(listening, &app));
        apps.push(Predicting { app, command });
    }
    apps
}

/// Keeps the page of `dashboard/web/browser/predictor.test.ts` in step with the other clients: the page reports each
/// step here, and waits until it may go on.
struct Gate {
    url: String,
    /// That the page has contributed, and what opens its way on.
    contributed: mpsc::Receiver<oneshot::Sender<()>>,
    opened: mpsc::Receiver<oneshot::Sender<()>>,
    predicted: mpsc::Receiver<Value>,
}

impl Gate {
    async fn open() -> Self {
        type Step = mpsc::Sender<oneshot::Sender<()>>;
        async fn waits(State(step): State<Step>) {
            let (sender, receiver) = oneshot::channel();
            step.send(sender).await.unwrap();
            receiver.await.unwrap();
        }
        let ((first, contributed), (second, opened)) = (mpsc::channel(1), mpsc::channel(1));
        let (third, predicted) = mpsc::channel(1);
        let tells = async |State(told): State<mpsc::Sender<Value>>, axum::Json(value)| told.send(value).await.unwrap();
        let routes = Router::new()
            .route("/contributed", post(waits).with_state(first))
            .route("/opened", post(waits).with_state(second))
            .route("/predicted", post(tells).with_state(third));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, contributed, opened, predicted }
    }
}

/// A page of a browser that takes part and predicts, as a running command.
async fn page(visitors: &Visitors, listening: &Listening, gate: &Gate, examples: &Examples, file: &Path) -> Command {
    let folder = listening.directory.path().join("page");
    std::fs::create_dir_all(&folder).unwrap();
    let given = json!({
        "options": { "server": listening.url(), "token": listening.enrolment, "store": "predictor" },
        "job": JOB, "rounds": ROUNDS, "shape": [4], "inputs": examples.inputs(), "labels": examples.classes,
    });
    let value = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    let rows: Vec<Value> = ROWS
        .iter()
        .map(|row| json!({ "x4": row[3], "x3": row[2].parse::<f64>().unwrap(), "x2": value(row[1]), "x1": value(row[0]) }))
        .collect();
    std::fs::write(folder.join("examples.json"), given.to_string()).unwrap();
    std::fs::write(folder.join("rows.json"), json!(rows).to_string()).unwrap();
    let mut command = visitors.tool("browser/predictor.config.ts");
    command.env("PREDICTOR_URL", listening.url()).env("PREDICTOR_GATE", &gate.url).env("PREDICTOR_FILE", file);
    command.env("PREDICTOR_EXAMPLES", folder.join("examples.json")).env("PREDICTOR_ROWS", folder.join("rows.json"));
    command
}

/// The file that `tributary job export` would write of a version.
async fn export(listening: &Listening, Job { head, file, plan_hash, .. }: &Job, version: u32, to: &Path) -> Model {
    let body = listening.look(&format!("/jobs/{}/models/{version}", head.id)).await.body;
    let (model, sha256) = (model_from_bytes(&body).unwrap(), Sha256Hash::of(&body));
    let (job, loss) = (file.name.clone(), file.training.loss);
    let card = ModelCard { job, version, sha256, plan_sha256: *plan_hash, loss, model: file.model.clone() };
    std::fs::write(to, model_to_bytes(&model, &card.metadata())).unwrap();
    model
}

/// Goal: a device uses what it has learned, whatever it is and without a network. Method: clients in Rust, C, Kotlin,
/// Python, on a small board and in a page of a browser do two rounds of a job that scales, spreads and replaces raw
/// values; the coordinator stops; each predicts the same raw rows, and the outputs are those of the formula with the
/// model that the second round began with. The board and the page also use a file of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_all_kinds_predict_the_same_without_a_coordinator() {
    let (Some(python), Some(jvm)) = (python("tributary"), Jvm::find()) else { return };
    let listening = Listening::start().await;
    let Some(visitors) = Visitors::find(&listening).await else { return };
    let classes = jvm.compiled().await;
    let file = listening.directory.path().join("wards.safetensors");
    let apps = apps(&listening, python, (&jvm, &classes), &file);
    let written = job_file(apps.len() + 2);
    let job = create(&listening, &written).await;

    let mut gate = Gate::open().await;
    let run = page(&visitors, &listening, &gate, &table(30, 1), &file).await;
    let mut visit = tokio::spawn(output(run));
    let rust = listening.directory.path().join("rust");
    let own = table(40, 2);
    let sessions = apps.iter().zip(3..).map(async |(app, seed)| app.contribute(&listening, &table(50, seed)).await);
    let in_this_process = async {
        for round in 1..=ROUNDS {
            let outcome = session(&listening, &rust, &own).await;
            assert!(matches!(outcome, Outcome::Contributed { round: theirs, .. } if theirs == round), "{outcome:?}");
        }
    };
    let all = async { tokio::join!(in_this_process, futures_util::future::join_all(sessions)) };
    tokio::select! {
        _ = within_reason(all) => {},
        ended = &mut visit => panic!("{}", said(&ended.unwrap())),
    }
    listening.until_completed(job.head.id).await;
    let model = export(&listening, &job, ROUNDS - 1, &file).await;
    within_reason(gate.contributed.recv()).await.unwrap().send(()).unwrap();
    let opened = within_reason(gate.opened.recv()).await.unwrap();
    let (url, token) = (listening.url(), listening.enrolment.clone());
    let directory = listening.stop().await;
    opened.send(()).unwrap();

    let client = Client::builder(url, token).state_dir(&rust).build().unwrap();
    let own = client.model(JOB).unwrap().unwrap();
    let names = ["x1", "x2", "x3", "x4"];
    let told = ROWS.map(|row| {
        let row: Vec<(&str, Field<'_>)> = names.into_iter().zip(row.map(Field::Text)).collect();
        let prediction = own.predict_row(&row).unwrap();
        json!({ "class": own.class_name(prediction.class.unwrap()), "outputs": prediction.outputs })
    });
    are_predictions("rust", &told, &model);
    for app in apps {
        let kind = app.app.kind;
        are_predictions(kind, &app.predictions().await, &model);
    }
    let told = within_reason(gate.predicted.recv()).await.unwrap();
    for (who, told) in ["the page", "the page with a file"].into_iter().zip(told.as_array().unwrap()) {
        are_predictions(who, told.as_array().unwrap(), &model);
    }
    let visited = within_reason(visit).await.unwrap();
    assert!(visited.status.success(), "{}", said(&visited));
    drop(directory);
}

/// Goal: an app in any language uses the model that was released, although its device never trains. Method: a client in
/// Rust trains; the version is released; programs in C, Kotlin and Python, new to the coordinator, predict with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apps_in_all_languages_predict_with_the_released_model() {
    let (Some(python), Some(jvm)) = (python("tributary"), Jvm::find()) else { return };
    let listening = Listening::start().await;
    let classes = jvm.compiled().await;
    let apps = apps_with_sdks(&listening, python, (&jvm, &classes), "@stable");
    let job = create(&listening, &job_file(1)).await;
    let trains = listening.directory.path().join("rust");
    for _ in 0..ROUNDS {
        within_reason(session(&listening, &trains, &table(40, 2))).await;
    }
    listening.until_completed(job.head.id).await;
    let wanted = json!({ "job": job.head.id, "version": ROUNDS, "channel": "stable" });
    let released: Release = Answer::to(listening.operate(Method::POST, "/releases").json(&wanted)).await.ok();
    let model = export(&listening, &job, ROUNDS, &listening.directory.path().join("wards.safetensors")).await;
    for app in apps {
        let kind = app.app.kind;
        are_predictions(kind, &app.predictions().await, &model);
    }
    let seen = listening.look("/releases?population=default").await.ok::<Page<Release>>().items;
    assert_eq!((seen[0].id, seen[0].clients), (released.id, 3));
}
