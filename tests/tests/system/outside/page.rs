//! `docs/protocol.md` says what the code does: its words, its JSON and its bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use reqwest::Method;
use serde_json::Value;
use tributary_protocol::device::{AssignmentStatus, CheckInResponse, EnrolResponse, ReportAccepted};
use tributary_protocol::digest::repr_digest;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::problem::{Problem, ProblemType};
use tributary_protocol::safetensors::{model_from_bytes, model_metadata, model_to_bytes};
use tributary_protocol::state::FailureReason;
use tributary_protocol::update::{CodecName, FORMAT, UpdateHeader, encode};

use crate::support::{Answer, World};

const PAGE: &str = include_str!("../../../../docs/protocol.md");
const ERRORS: &str = include_str!("../../../../docs/errors.md");
const CLIENT: &str = include_str!("../../../python/client.py");

/// Schemas of the OpenAPI document whose members the page describes.
const SCHEMAS: [&str; 22] = [
    "EnrolRequest",
    "EnrolResponse",
    "Attestation",
    "CertificateRequest",
    "IssuedCertificate",
    "NewSecret",
    "CheckInRequest",
    "DeviceState",
    "DeviceAssignment",
    "FormFile",
    "ModelDeltaFile",
    "Plan",
    "Training",
    "Download",
    "ChannelAnswer",
    "Released",
    "Difference",
    "AssignmentStatus",
    "EvaluationReport",
    "FailureReport",
    "ReportAccepted",
    "Problem",
];

/// Contents of the page's blocks of this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    PAGE.split(&begin).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// Files that the page shows as indented lines of hexadecimal digits.
fn files() -> Vec<Vec<u8>> {
    let mut files = vec![String::new()];
    for line in PAGE.lines() {
        match line
            .strip_prefix("    ")
            .filter(|line| line.len() >= 64 && line.bytes().all(|byte| byte.is_ascii_hexdigit()))
        {
            Some(digits) => files.last_mut().unwrap().push_str(digits),
            None if files.last().is_some_and(|file| !file.is_empty()) => files.push(String::new()),
            None => {}
        }
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    files.iter().filter(|file| !file.is_empty()).map(|file| file.as_bytes().chunks(2).map(byte).collect()).collect()
}

#[tokio::test]
async fn the_page_has_every_call_and_every_member() {
    let world = World::start().await;
    let document: Value = Answer::to(world.request(Method::GET, "/openapi.json")).await.value();
    let mut missing = Vec::new();
    for (path, calls) in document["paths"].as_object().unwrap().iter().filter(|(path, _)| path.starts_with("/device/"))
    {
        let methods = calls.as_object().unwrap().keys().filter(|key| *key != "parameters");
        missing.extend(
            methods.map(|method| format!("`{} {path}`", method.to_uppercase())).filter(|call| !PAGE.contains(call)),
        );
    }
    let words: BTreeSet<&str> = PAGE.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').collect();
    for schema in SCHEMAS {
        let described = &document["components"]["schemas"][schema];
        let members = described["properties"].as_object().unwrap_or_else(|| panic!("{schema}: {described}"));
        let unknown = members.keys().filter(|member| !words.contains(member.as_str()));
        missing.extend(unknown.map(|member| format!("{schema}.{member}")));
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_pages_have_every_word_of_the_protocol() {
    let problems = ProblemType::ALL.iter().map(|kind| kind.uri().rsplit(':').next().unwrap().to_owned());
    let reasons = FailureReason::ALL.iter().map(ToString::to_string);
    let codecs = CodecName::ALL.iter().map(ToString::to_string);
    let words = problems.chain(reasons).chain(codecs).chain([FORMAT.to_owned()]);
    let missing: Vec<_> = words.filter(|word| !PAGE.contains(&format!("`{word}`"))).collect();
    assert_eq!(missing, [""; 0]);
    for kind in ProblemType::ALL {
        let slug = format!("`{}`", kind.uri().rsplit(':').next().unwrap());
        let rows = PAGE.lines().filter(|line| line.contains(&slug));
        assert!(rows.into_iter().any(|row| row.contains(&kind.status().to_string())), "{slug}: {}", kind.status());
        assert!(ERRORS.contains(&format!("| {slug} | {} |", kind.status())), "{slug} is not in docs/errors.md");
    }
    assert!(CLIENT.lines().count() <= 210, "the page says that the client has 210 lines");
}

/// The page's JSON in its order.
#[test]
fn the_pages_answers_are_those_of_the_types() {
    let json = blocks("json");
    let [problem, enrolled, retry, assigned, status, accepted] = json.as_slice() else { panic!("{json:#?}") };
    let problem: Problem = serde_json::from_str(problem).unwrap();
    assert_eq!((problem.kind, problem.status), (ProblemType::AssignmentClosed, 410));
    serde_json::from_str::<EnrolResponse>(enrolled).unwrap();
    assert!(matches!(serde_json::from_str(retry).unwrap(), CheckInResponse::Retry { retry_after_ms: 1309, .. }));
    let CheckInResponse::Assigned(assignment) = serde_json::from_str(assigned).unwrap() else { panic!("{assigned}") };
    assert_eq!(serde_json::to_string(&CheckInResponse::Assigned(assignment)).unwrap(), *assigned);
    assert!(!serde_json::from_str::<AssignmentStatus>(status).unwrap().reported);
    assert_eq!(serde_json::from_str::<ReportAccepted>(accepted).unwrap().retry_after_ms, 0);
}

#[test]
fn the_pages_bytes_are_those_that_the_coordinator_and_the_sdk_write() {
    let assigned = blocks("json")[3];
    let CheckInResponse::Assigned(assignment) = serde_json::from_str(assigned).unwrap() else { panic!("{assigned}") };
    let files = files();
    let [model_file, update] = files.as_slice() else { panic!("{} files", files.len()) };
    assert_eq!(Sha256Hash::of(model_file), assignment.model_sha256);
    let model = model_from_bytes(model_file).unwrap();
    assert_eq!(model_to_bytes(&model, &model_metadata()), *model_file);
    assert_eq!(model.values(), [-0.307_831_73, 0.599_565_5, 0.534_495_1]);

    let parameters = Arc::new(assignment.plan.model.parameters().unwrap());
    assert_eq!(model.parameters(), &parameters);
    let header = UpdateHeader { codec: assignment.plan.codec, job: assignment.job.to_string(), base_version: 0 };
    assert_eq!(encode(&[0.5, -0.25, 0.125], &parameters, &header, 1, assignment.seed).unwrap(), *update);
    assert_eq!(PAGE.matches(&repr_digest(Sha256Hash::of(update))).count(), 4, "the update's digest");
}
