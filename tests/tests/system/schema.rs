//! Schemathesis, a tester of APIs by their OpenAPI document: drawn requests, good and bad, make no fault, and every
//! answer is one that the document allows.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use tributary_protocol::device::Assignment;
use tributary_protocol::problem::ProblemType;

use crate::support::{Answer, Device, WEIGHTS, World, delta_file, evaluated_job, figures, output};

/// What must hold of every answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
/// Drawn requests of each call, besides those at the edges of each parameter.
const EXAMPLES: &str = "12";

/// Its settings, to which each test adds ids that exist.
const SETTINGS: &str = include_str!("../../python/schemathesis.toml");
const HOOKS: &str = include_str!("../../python/schema_hooks.py");

/// Schemathesis; none where there is none (under CI that is a failure).
fn schemathesis() -> Option<PathBuf> {
    let named = std::env::var_os("TRIBUTARY_TEST_PYTHON").map(PathBuf::from);
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/test-python/bin/python");
    let tester = named.unwrap_or_else(|| PathBuf::from(made)).with_file_name("schemathesis");
    if Command::new(&tester).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Some(tester);
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "there is no {}", tester.display());
    eprintln!("not tried: there is no {}; scripts/test makes one", tester.display());
    None
}

/// A world in which everything that can be listed has been there once.
async fn lived_in() -> (World, Device, Assignment) {
    let world = World::start().await;
    let job: tributary_protocol::operator::Job =
        world.create_job(&evaluated_job(&json!({ "round": { "updates_goal": 2, "updates_min": 1 } }))).await.ok();
    let [a, b] = world.devices().await;
    let evaluator = world.device().await.with("evaluator", "yes");
    let [first, second] = world.assign([&a, &b]).await;
    let model = a.request(reqwest::Method::GET, &format!("/jobs/{}/models/0", job.head.id));
    assert_eq!(Answer::to(model).await.status, 200);
    a.contribute(&first, &[0.5; WEIGHTS], 10).await;
    world.pass_ms(10_000).await;
    let late = b.put_update(second.id, &figures(1), delta_file(&second, &[0.5; WEIGHTS])).await;
    late.refused(ProblemType::AssignmentClosed);
    let [measure] = world.assign([&evaluator]).await;
    let report = json!({ "examples": 5, "loss": 0.5, "accuracy": 0.25, "evaluate_ms": 3 });
    assert_eq!(evaluator.evaluate(measure.id, &report).await.status, 200);
    let [open, failed] = world.assign([&a, &b]).await;
    assert_eq!(b.fail(failed.id, "interrupted").await.status, 200);
    assert_eq!(open.round, 2);
    (world, a, open)
}

/// Calls what the document says under these paths with this token and these ids.
async fn test(world: &World, tester: PathBuf, paths: &'static str, token: &str, known: &[(&str, String)]) {
    let (url, token) = (format!("{}/openapi.json", world.server()), format!("Authorization: Bearer {token}"));
    // It reads its settings, and writes what it remembers, in the directory that it runs in.
    let directory = tempfile::TempDir::new().unwrap();
    let known: String = known.iter().map(|(name, id)| format!("\"path.{name}\" = \"{id}\"\n")).collect();
    std::fs::write(directory.path().join("schemathesis.toml"), format!("{SETTINGS}{known}")).unwrap();
    std::fs::write(directory.path().join("schema_hooks.py"), HOOKS).unwrap();
    let mut command = Command::new(tester);
    command.current_dir(directory.path());
    command.args(["run", &url, "--header", &token, "--include-path-regex", paths]);
    // A stream that goes on for ever has tests of its own.
    command.args(["--exclude-path", "/operator/v1/feed", "--checks", CHECKS, "--max-examples", EXAMPLES]);
    command.args(["--generation-deterministic", "--phases", "coverage,fuzzing", "--no-color"]);
    let output = output(command).await;
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains(" passed"), "{told}");
}

#[tokio::test]
async fn drawn_requests_to_the_operator_api_are_answered_as_documented() {
    let Some(tester) = schemathesis() else { return };
    let (world, device, _) = lived_in().await;
    test(&world, tester, "^/operator", &world.operator, &[("client", device.id.to_string())]).await;
}

#[tokio::test]
async fn drawn_requests_to_the_device_api_are_answered_as_documented() {
    let Some(tester) = schemathesis() else { return };
    let (world, device, open) = lived_in().await;
    let known = [("job", open.job.to_string()), ("assignment", open.id.to_string())];
    test(&world, tester.clone(), "^/device/v1/(checkins|jobs|assignments)", &device.secret, &known).await;
    test(&world, tester, "^/device/v1/clients", &world.enrolment, &[]).await;
}
