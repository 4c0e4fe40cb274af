//! Apps with two models: one client each, two example sets, two jobs.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tributary_client::{AlwaysOn, Client, Outcome, Sets};
use tributary_protocol::operator::{self, Job, Page};
use tributary_protocol::state::AssignmentState;

use super::Listening;
use super::app::{Jvm, compiled, create, has_learned, linear_job};
use super::client::Examples;
use super::package::SCRIPT;
use crate::support::{printed, python, within_reason};

/// Name of the job, of its example set, and the shape of its examples: numbers and classes.
const MODELS: [(&str, &str, [usize; 2]); 2] = [("keyboard", "typing", [4, 3]), ("gallery", "photos", [6, 2])];

/// The tables of a client, one for each set.
struct Silo {
    directory: PathBuf,
    tables: [Examples; 2],
}

impl Silo {
    fn new(listening: &Listening, number: usize) -> Self {
        let directory = listening.directory.path().join(format!("silo-{number}"));
        std::fs::create_dir(&directory).unwrap();
        let draw = |set: usize| Examples::draw_of(20 + 10 * number + 5 * set, MODELS[set].2, (2 * number + set) as u64);
        let tables = [0, 1].map(draw);
        for ((_, set, _), table) in MODELS.iter().zip(&tables) {
            std::fs::write(directory.join(format!("{set}.csv")), table.table()).unwrap();
        }
        Self { directory, tables }
    }
}

/// Two sessions of the SDK, one for each job.
async fn in_rust(listening: &Listening, silo: &Silo) {
    let state = silo.directory.join("state");
    let client = Client::builder(listening.url(), listening.enrolment.clone()).state_dir(state).build().unwrap();
    let mut sets = Sets::new();
    for ((_, set, _), table) in MODELS.iter().zip(&silo.tables) {
        sets = sets.with(set, table.trainer()).unwrap();
    }
    let mut contributed = 0;
    while contributed < MODELS.len() {
        let outcome = client.run_once(&mut sets, &AlwaysOn).await.unwrap();
        contributed += usize::from(matches!(outcome, Outcome::Contributed { round: 1, .. }));
    }
    for (job, _, [inputs, _]) in MODELS {
        let model = client.model(job).unwrap().unwrap_or_else(|| panic!("{job} has no model on the device"));
        assert!(model.predict(&vec![0.5; inputs]).is_ok(), "both models stay on the device");
    }
}

/// Makes the command of a program, in the folder of its silo.
type Program = Box<dyn Fn(&Path) -> Command>;

/// Programs that end once they have contributed to both jobs.
async fn programs(listening: &Listening) -> Vec<Program> {
    let (url, token) = (listening.url(), listening.enrolment.clone());
    let with = move |mut command: Command, directory: &Path| {
        command.args([&*url, &*token, "state", "typing.csv", "photos.csv"]).current_dir(directory);
        command
    };
    let program = compiled("sets", listening.directory.path());
    let in_c = with.clone();
    let mut programs: Vec<Program> = vec![Box::new(move |directory| in_c(Command::new(&program), directory))];
    if let Some(python) = python("tributary") {
        let in_python = with.clone();
        programs.push(Box::new(move |directory| {
            let mut command = Command::new(&python);
            command.args([SCRIPT, "sets"]);
            in_python(command, directory)
        }));
    }
    if let Some(jvm) = Jvm::find() {
        let classes = jvm.compiled().await;
        programs.push(Box::new(move |directory| with(jvm.run(&classes, "tributary.example.TwoModelsKt"), directory)));
    }
    programs
}

/// Goal: the second model of an app is no second enrolment, in any language. Method: clients in Rust, C, Python and
/// Kotlin with two example sets, and a job for each. Each client works for both; each job's model is the mean that the
/// tables of its set give, with their sizes as weights; nobody was given work that does not fit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_models_of_one_app_learn_in_every_language() {
    let listening = Listening::start().await;
    let programs = programs(&listening).await;
    let silos: Vec<Silo> = (0..=programs.len()).map(|number| Silo::new(&listening, number)).collect();
    let mut jobs: Vec<(Value, Job)> = Vec::new();
    for (name, set, shape) in MODELS {
        let mut file = linear_job(silos.len(), shape);
        (file["name"], file["data"]) = (json!(name), json!(set));
        let job = create(&listening, &file).await;
        jobs.push((file, job));
    }
    let run = programs.iter().zip(&silos[1..]).map(|(program, silo)| printed(program(&silo.directory)));
    within_reason(async { tokio::join!(in_rust(&listening, &silos[0]), futures_util::future::join_all(run)) }).await;
    for (place, (file, job)) in jobs.iter().enumerate() {
        listening.until_completed(job.head.id).await;
        let path = format!("/jobs/{}/rounds/1/assignments", job.head.id);
        let mut reported = Vec::new();
        for assignment in listening.look(&path).await.ok::<Page<operator::Assignment>>().items {
            assert_eq!(assignment.state, AssignmentState::Reported, "{assignment:?}");
            reported.extend(assignment.weight);
        }
        reported.sort_unstable();
        let sizes: Vec<u64> = silos.iter().map(|silo| silo.tables[place].classes.len() as u64).collect();
        assert_eq!(reported, sizes, "the weight of an update is the size of the job's set");
        let tables: Vec<Examples> = silos.iter().map(|silo| silo.tables[place].clone()).collect();
        has_learned(&listening, job, file, &tables, 1e-6).await;
    }
    let clients: Page<operator::Client> = listening.look("/clients?population=default").await.ok();
    assert_eq!(clients.items.len(), silos.len(), "each enrolled once");
    listening.stop().await;
}
