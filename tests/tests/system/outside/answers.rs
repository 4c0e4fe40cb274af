//! Apps in other languages answer analyses from rows that their code gives.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tributary_protocol::operator::JobAnswers;

use super::Listening;
use super::app::{Jvm, compiled, create};
use super::client::job_file;
use super::mixed_cohort::Visitors;
use crate::support::{output, printed, said, within_reason};

/// A client tells nothing of a smaller table.
const ROWS: usize = 5;

/// Age and pet of a client's rows; of each table one row has neither.
fn rows(client: usize) -> Vec<(String, &'static str)> {
    let row = |place: usize| match place {
        0 => (String::new(), ""),
        _ => (format!("{}.5", 20 * client + place), ["cat", "dog"][(client + place) % 2]),
    };
    (0..=ROWS).map(row).collect()
}

/// A folder with the table of a client, as a file and for a page.
fn folder(listening: &Listening, client: usize) -> std::path::PathBuf {
    let folder = listening.directory.path().join(format!("client-{client}"));
    std::fs::create_dir(&folder).unwrap();
    let lines: String = rows(client).iter().map(|(age, pet)| format!("{pet},{age}\n")).collect();
    std::fs::write(folder.join("table.csv"), format!("pet,age\n{lines}")).unwrap();
    let ages: Vec<Value> = rows(client).iter().map(|(age, _)| json!(age.parse::<f64>().ok())).collect();
    let pets: Vec<Value> = rows(client).iter().map(|(_, pet)| json!((!pet.is_empty()).then_some(pet))).collect();
    std::fs::write(folder.join("table.json"), json!({ "age": ages, "pet": pets }).to_string()).unwrap();
    folder
}

fn in_folder(mut command: Command, listening: &Listening, folder: &Path) -> Command {
    command.args([&*listening.url(), &*listening.enrolment, "state", "table.csv"]).current_dir(folder);
    command
}

/// Goal: apps answer analyses, whatever their language. Method: three clients answer one analysis: a program in C, one
/// in Kotlin, a page of a browser. The answers are those of all their rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_in_c_kotlin_and_a_page_answer_one_analysis() {
    let Some(jvm) = Jvm::find() else { return };
    let listening = Listening::start().await;
    let Some(visitors) = Visitors::find(&listening).await else { return };
    let classes = jvm.compiled().await;
    let job = create(
        &listening,
        &json!({
            "name": "census", "population": job_file()["population"],
            "analysis": { "queries": [
                { "name": "ages", "kind": "mean", "column": "age", "range": [0, 100] },
                { "name": "cats", "kind": "count", "column": "pet", "values": ["cat"] },
            ] },
            "round": { "updates_goal": 3, "updates_min": 3, "over_selection": 1.0 },
        }),
    )
    .await;
    let folders: Vec<_> = (0..3).map(|client| folder(&listening, client)).collect();
    let in_c = Command::new(compiled("answers", listening.directory.path()));
    let in_c = printed(in_folder(in_c, &listening, &folders[0]));
    let in_kotlin = printed(in_folder(jvm.run(&classes, "tributary.example.AnswersKt"), &listening, &folders[1]));
    let mut page = visitors.tool("browser/answers.config.ts");
    page.env("ANSWERS_URL", listening.url()).env("ANSWERS_TOKEN", &listening.enrolment);
    page.env("ANSWERS_TABLE", folders[2].join("table.json"));
    let (in_c, in_kotlin, page) = within_reason(async { tokio::join!(in_c, in_kotlin, output(page)) }).await;
    assert!(page.status.success(), "{}", said(&page));
    assert_eq!(serde_json::from_str::<Value>(&in_c).unwrap(), json!({ "outcome": 1, "round": 1 }));
    assert!(in_kotlin.contains("contributed"), "{in_kotlin}");
    listening.until_completed(job.head.id).await;

    let told: JobAnswers = listening.look(&format!("/jobs/{}/answers", job.head.id)).await.ok();
    let value = |query: usize| told.answers[query].estimates[0].value.unwrap();
    let all: Vec<_> = (0..3).flat_map(rows).collect();
    let ages: Vec<f64> = all.iter().filter_map(|(age, _)| age.parse().ok()).collect();
    let mean = ages.iter().sum::<f64>() / ages.len() as f64;
    assert!((value(0) - mean).abs() < 1e-3, "{mean}: {told:?}");
    let cats = all.iter().filter(|(_, pet)| *pet == "cat").count();
    assert!((value(1) - cats as f64).abs() < 1e-6, "{cats}: {told:?}");
    listening.stop().await;
}
