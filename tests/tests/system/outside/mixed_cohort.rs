//! Clients of all kinds in one round, and in one group of secure aggregation.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use axum::Json;
use axum::routing::post;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tributary_client::Outcome;
use tributary_protocol::operator::{self, Page, RoundDetail, RoundGroup};
use tributary_protocol::state::GroupStage;

use super::Listening;
use super::app::{App, Jvm, contribute, create, has_learned, in_c, in_kotlin, linear_job};
use super::boards::Board;
use super::client::{Examples, MODULES, averaged_by, client, distance, session};
use super::package::SCRIPT;
use crate::support::{has_module, output, python, said, within_reason};

const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboard");
/// What the page `/join` draws: 8x8 numbers, and ten digits.
const DIGITS: [usize; 2] = [64, 10];
/// Ink of a black pixel.
const INK_MAX: f32 = 16.0;
/// Clients that are no tabs. The first one is in this process.
const PROGRAMS: usize = 5;
const TABS: usize = 2;

/// A drawing as the page keeps it (`dashboard/web/join/kept.ts`).
#[derive(Deserialize)]
struct Drawing {
    label: u32,
    ink: Vec<f32>,
}

/// Two people who open the page in tabs of a browser and draw.
pub(super) struct Visitors {
    vitest: PathBuf,
}

impl Visitors {
    /// None where the browser, its tools or the page's client is missing (under CI that is a failure).
    pub(super) async fn find(listening: &Listening) -> Option<Self> {
        let vitest = PathBuf::from(format!("{DASHBOARD}/web/node_modules/.bin/vitest"));
        let browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
        let has_browser =
            std::env::var_os("CHROMIUM").is_some() || browsers.iter().any(|browser| Path::new(browser).exists());
        let client = listening.http.get(format!("{}/join/tributary/index.js", listening.url())).send().await.unwrap();
        if vitest.exists() && has_browser && client.status().is_success() {
            return Some(Self { vitest });
        }
        let missing = format!("{}, Chromium or the client of the page /join is missing", vitest.display());
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}");
        eprintln!("not tried: {missing}; scripts/test installs and builds them");
        None
    }

    /// Runs the tests of a configuration.
    pub(super) fn tool(&self, config: &str) -> Command {
        let mut command = Command::new(&self.vitest);
        command.args(["run", "--config", config]).current_dir(format!("{DASHBOARD}/web"));
        command
    }

    /// Returns once both tabs have contributed. It sends what they have drawn to `inbox` when they are about to train.
    fn run(&self, listening: &Listening, inbox: &str) -> Command {
        let mut command = self.tool("browser/visitors.config.ts");
        command.env("VISITED_URL", listening.url()).env("VISITED_TOKEN", &listening.enrolment);
        command.env("VISITORS_INBOX", inbox);
        command
    }
}

/// A server whose address gets the drawings of each tab.
async fn inbox() -> (String, mpsc::Receiver<Vec<Vec<Drawing>>>) {
    let (sender, receiver) = mpsc::channel(1);
    let handler = post(move |Json(drawn): Json<Vec<Vec<Drawing>>>| async move { sender.send(drawn).await.unwrap() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().route("/", handler)).await.unwrap() });
    (url, receiver)
}

/// Two tabs that have drawn and are about to train: what runs them, and what each has drawn.
async fn tabs(visitors: &Visitors, listening: &Listening) -> (JoinHandle<Output>, Vec<Vec<Drawing>>) {
    let (inbox, mut drawn) = inbox().await;
    let mut visit = tokio::spawn(output(visitors.run(listening, &inbox)));
    let drawings = tokio::select! {
        drawings = within_reason(drawn.recv()) => drawings.unwrap(),
        ended = &mut visit => panic!("{}", said(&ended.unwrap())),
    };
    assert_eq!(drawings.len(), TABS);
    (visit, drawings)
}

fn examples(drawings: &[Drawing]) -> Examples {
    let inputs = drawings.iter().flat_map(|drawing| &drawing.ink).map(|ink| ink / INK_MAX).collect();
    Examples::new(DIGITS[0], inputs, drawings.iter().map(|drawing| drawing.label).collect())
}

/// A client of the Python package with a trainer of this kind.
pub(super) fn in_python(python: PathBuf, kind: &'static str) -> App {
    let command = move |listening: &Listening, directory: &Path| {
        let mut command = Command::new(&python);
        command.args([SCRIPT, kind, &listening.url(), &listening.enrolment, "examples.csv", "state"]);
        command.current_dir(directory);
        command
    };
    App { kind, sdk: "python", contributed: json!({ "kind": "contributed" }), command: Box::new(command) }
}

/// Goal: a job does not know what its clients are made of. Method: a client in Rust, one in Python, one on the JVM, one
/// in C, one of a small board and two tabs of a browser contribute to one round. Its model is the mean that their
/// examples give, to the rounding of different processors, and the operator sees the kind of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_all_kinds_contribute_to_one_round() {
    let (Some(python), Some(jvm), Some(board)) = (python("tributary"), Jvm::find(), Board::aarch64()) else { return };
    let listening = Listening::start().await;
    let Some(visitors) = Visitors::find(&listening).await else { return };
    let classes = jvm.compiled().await;
    let kind = if has_module(&python, "torch") { "torch_digits" } else { "layers" };
    let apps = [
        in_python(python, kind),
        in_kotlin(&jvm, &classes, "kotlin-layers", "layers"),
        in_c(&listening, "c-layers", "client"),
        board.app(),
    ];
    let file = linear_job(PROGRAMS + TABS, DIGITS);
    let job = create(&listening, &file).await;

    // The tabs first: a tab checks in again and again, a program once.
    let (visit, drawings) = tabs(&visitors, &listening).await;
    let mut tables: Vec<Examples> =
        (0..PROGRAMS).map(|client| Examples::draw_of(20 + 10 * client, DIGITS, client as u64)).collect();
    contribute(&listening, &job, &apps, &tables).await;
    let visited = within_reason(visit).await.unwrap();
    assert!(visited.status.success(), "{}", said(&visited));
    tables.extend(drawings.iter().map(|drawings| examples(drawings)));
    has_learned(&listening, &job, &file, &tables, 1e-5).await;

    let clients: Page<operator::Client> = listening.look("/clients?population=default").await.ok();
    let mut kinds: Vec<String> = clients.items.iter().map(|client| client.sdk.as_ref().unwrap().to_string()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["browser", "browser", "c", "kotlin", "python", "rust", "rust"]);
    listening.stop().await;
}

/// Goal: a page of a browser adds masks that clients of other kinds take off. Method: two tabs, a client in Python that
/// was written from `docs/protocol.md`, and one of the SDK are a group. Each weighs the same; the model is the mean of
/// what they learn, which the coordinator knew of none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tabs_python_and_the_sdk_open_the_sum_of_their_group() {
    let Some(python) = python(MODULES) else { return };
    let listening = Listening::start().await;
    let Some(visitors) = Visitors::find(&listening).await else { return };
    let mut file = linear_job(TABS + 2, DIGITS);
    file["aggregation"] = json!({ "combine": "uniform_mean" });
    file["secure_aggregation"] = json!({ "clip": 4.0, "levels": 4096 });
    file.as_object_mut().unwrap().remove("update");
    let job = create(&listening, &file).await;

    let (visit, drawings) = tabs(&visitors, &listening).await;
    let mut tables = [20, 30].map(|count| Examples::draw_of(count, DIGITS, count as u64)).to_vec();
    let [one, other] = ["python", "rust"].map(|name| listening.directory.path().join(name));
    std::fs::create_dir(&one).unwrap();
    let in_python = client((&python, &listening.enrolment), &listening, &one, &tables[0], 1 << 20);
    let ran = async { tokio::join!(output(in_python), session(&listening, &other, &tables[1])) };
    let (output, outcome) = within_reason(ran).await;
    assert!(output.status.success(), "{}", said(&output));
    assert!(matches!(outcome, Outcome::Contributed { round: 1, .. }), "{outcome:?}");
    let visited = within_reason(visit).await.unwrap();
    assert!(visited.status.success(), "{}", said(&visited));
    listening.until_completed(job.head.id).await;

    let detail: RoundDetail = listening.look(&format!("/jobs/{}/rounds/1", job.head.id)).await.ok();
    let [group] = <[RoundGroup; 1]>::try_from(detail.groups).unwrap();
    assert_eq!((group.stage, group.members.len()), (GroupStage::Summed, TABS + 2), "{group:?}");
    tables.extend(drawings.iter().map(|drawings| examples(drawings)));
    let (before, after) = (listening.model(job.head.id, 0).await, listening.model(job.head.id, 1).await);
    let learned: Vec<Vec<f64>> = tables.iter().map(|table| averaged_by(&file, &before, &[table])).collect();
    let mean = |place: usize| learned.iter().map(|values| values[place]).sum::<f64>() / learned.len() as f64;
    let error = distance(&after, &(0..learned[0].len()).map(mean).collect::<Vec<_>>());
    assert!(error < 1e-3, "the model is {error} away from the mean of the four");
    assert!(distance(&after, &learned[2]) > 1e-2, "one tab alone is another model");
    listening.stop().await;
}
