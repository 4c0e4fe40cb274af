//! The shortest apps of all languages.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Listening;
use super::app::{Jvm, compiled, create, linear_job};
use crate::support::{printed, python, within_reason};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client-sdk");
const FILES: [&str; 4] =
    ["examples/smallest.rs", "python/examples/smallest.py", "ffi/kotlin/Smallest.kt", "ffi/c/smallest.c"];
const LINES_MAX: usize = 25;

#[test]
fn the_shortest_apps_are_short() {
    for file in FILES {
        let lines = std::fs::read_to_string(format!("{SOURCES}/{file}")).unwrap().lines().count();
        assert!(lines <= LINES_MAX, "{file} has {lines} lines");
    }
}

/// Goal: a newcomer's first app works as it is. Method: the shortest app of each language does the round of one job
/// and prints the class and the probabilities that its model says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shortest_apps_take_part_and_predict() {
    let (Some(python), Some(jvm)) = (python("tributary"), Jvm::find()) else { return };
    let listening = Listening::start().await;
    let classes = jvm.compiled().await;
    let tests = std::env::current_exe().unwrap();
    let in_rust = Command::new(tests.ancestors().nth(2).unwrap().join("examples/smallest"));
    let mut in_python = Command::new(python);
    in_python.arg(format!("{SOURCES}/python/examples/smallest.py"));
    let in_kotlin = jvm.run(&classes, "tributary.example.SmallestKt");
    let in_c = Command::new(compiled("smallest", listening.directory.path()));

    let mut job = linear_job(FILES.len(), [2, 2]);
    job["name"] = json!("points");
    let columns = json!([{ "name": "x" }, { "name": "y" }]);
    job["model"]["inputs"] = json!({ "columns": columns, "target": { "name": "side", "classes": ["left", "right"] } });
    create(&listening, &job).await;
    let apps = [("rust", in_rust), ("python", in_python), ("kotlin", in_kotlin), ("c", in_c)];
    let runs = apps.map(|(name, mut command)| {
        let folder: &Path = &listening.directory.path().join(name);
        std::fs::create_dir(folder).unwrap();
        command.args([&listening.url(), &listening.enrolment]).current_dir(folder);
        async move { (name, printed(command).await) }
    });
    for (name, printed) in within_reason(futures_util::future::join_all(runs)).await {
        assert!(["left", "right"].iter().any(|class| printed.contains(class)), "{name}: {printed}");
        assert!(printed.contains("0."), "{name} prints probabilities: {printed}");
    }
    listening.stop().await;
}
