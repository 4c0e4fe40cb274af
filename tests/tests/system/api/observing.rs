//! What operators see from outside: `/metrics`, and the ids of requests.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::problem::{Problem, ProblemType};
use tributary_server::metrics::{MetricsAccess, table};

use crate::support::{Answer, WEIGHTS, World};

async fn scrape(world: &World) -> String {
    let answer = Answer::to(world.request(Method::GET, "/metrics")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").starts_with("text/plain; version=0.0.4"));
    String::from_utf8(answer.body.to_vec()).unwrap()
}

/// The value of a series; 0 when it is not there.
fn value(text: &str, series: &str) -> f64 {
    let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.map_or(0.0, |value| value.parse().unwrap())
}

/// Two of three clients report, the third is a straggler that stops; the next round finds nobody.
#[tokio::test]
async fn what_happened_in_a_round_can_be_read_from_the_metrics() {
    let world = World::start().await;
    let round = json!({
        "updates_goal": 2, "updates_min": 1, "over_selection": 1.5, "deadline_ms": 60_000, "selection_timeout_ms": 9_000,
    });
    let job = world.job(json!({ "round": round })).await;
    let [first, second, third] = world.devices().await;
    world.drive().await;
    world.hand.advance_ms(3_000);
    let [one, two, three] = world.assign([&first, &second, &third]).await;
    world.hand.advance_ms(20_000);
    first.contribute(&one, &[0.5; WEIGHTS], 1).await;
    second.contribute(&two, &[0.5; WEIGHTS], 1).await;
    world.drive().await;
    assert_eq!(third.status(three.id).await.status, 410);
    assert_eq!(third.status(three.id).await.status, 410);
    world.pass_ms(10_000).await;

    let text = scrape(&world).await;
    let job_of = |rest: &str| format!("{{population=\"devices\",task=\"train\"{rest}}}");
    for (series, expected) in [
        (format!("tributary_rounds_opened_total{}", job_of("")), 2.0),
        (format!("tributary_rounds_total{}", job_of(",outcome=\"committed\",reason=\"none\"")), 1.0),
        (format!("tributary_rounds_total{}", job_of(",outcome=\"abandoned\",reason=\"selection_timeout\"")), 1.0),
        (format!("tributary_assignments_total{}", job_of(",outcome=\"assigned\"")), 3.0),
        (format!("tributary_assignments_total{}", job_of(",outcome=\"reported\"")), 2.0),
        (format!("tributary_assignments_total{}", job_of(",outcome=\"lost\"")), 0.0),
        (format!("tributary_assignments_total{}", job_of(",outcome=\"spare\"")), 1.0),
        (format!("tributary_assignments_total{}", job_of(",outcome=\"late\"")), 0.0),
        (format!("tributary_assignments_total{}", job_of(",outcome=\"stopped\"")), 1.0),
        ("tributary_round_phase_seconds_sum{task=\"train\",phase=\"selecting\"}".into(), 13.0),
        ("tributary_round_phase_seconds_sum{task=\"train\",phase=\"training\"}".into(), 20.0),
        ("tributary_round_phase_seconds_count{task=\"train\",phase=\"aggregating\"}".into(), 1.0),
        ("tributary_commit_seconds_count".into(), 1.0),
        ("tributary_updates_total{codec=\"f32\",outcome=\"reported\"}".into(), 2.0),
        ("tributary_update_place_seconds_count".into(), 2.0),
        ("tributary_updates_in_flight".into(), 0.0),
        ("tributary_checkins_total{population=\"devices\",answer=\"assigned\"}".into(), 3.0),
        ("tributary_leases_held".into(), 1.0),
        ("tributary_lease_changes_total{change=\"taken\"}".into(), 1.0),
        ("tributary_driver_failures_total".into(), 0.0),
        (
            "tributary_http_requests_total{route=\"/device/v1/assignments/{id}\",method=\"GET\",status=\"410\"}".into(),
            2.0,
        ),
        ("tributary_http_requests_open".into(), 1.0),
    ] {
        assert_eq!(value(&text, &series), expected, "{series} in\n{text}");
    }
    assert!(value(&text, "tributary_bytes_total{direction=\"up\"}") > 0.0);
    for operation in ["begin_read", "begin_write", "query", "commit"] {
        let series = format!("tributary_database_seconds_count{{operation=\"{operation}\"}}");
        assert!(value(&text, &series) > 0.0, "{series}");
        assert_eq!(value(&text, &format!("tributary_database_failures_total{{operation=\"{operation}\"}}")), 0.0);
    }

    for name in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(table::ALL.iter().any(|metric| metric.name == name), "{name} is not in the table");
    }
    let ids = [job.head.id.to_string(), first.id.to_string(), one.id.to_string()];
    for secret in ids.iter().chain([&world.operator, &world.enrolment, &first.secret]) {
        assert!(!text.contains(secret), "the metrics tell {secret}");
    }
}

#[tokio::test]
async fn a_transaction_that_is_given_up_counts_nothing() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 1, "updates_min": 1, "over_selection": 1.0 } })).await;
    world.drive().await;
    let key =
        tributary_server::db::RoundKey { job: job.head.id, task: tributary_protocol::state::Task::Train, number: 1 };
    let mut tx = world.app().db.begin().await.unwrap();
    tx.record(
        tributary_server::db::Transition::Round {
            round: key,
            phase: tributary_protocol::state::Phase::Committed,
            reason: None,
        },
        0,
    )
    .await
    .unwrap();
    drop(tx);
    let series = "tributary_rounds_total{population=\"devices\",task=\"train\",outcome=\"committed\",reason=\"none\"}";
    assert_eq!(value(&scrape(&world).await, series), 0.0);
}

#[tokio::test]
async fn metrics_can_be_for_operators_or_for_nobody() {
    let mut world = World::start().await;
    world.set_metrics(MetricsAccess::Token);
    world.restart().await;
    let ask = || world.request(Method::GET, "/metrics");
    Answer::to(ask()).await.refused(ProblemType::Unauthorized);
    Answer::to(ask().bearer_auth(&world.enrolment)).await.refused(ProblemType::Forbidden);
    assert_eq!(Answer::to(ask().bearer_auth(&world.operator)).await.status, 200);
    world.set_metrics(MetricsAccess::Off);
    world.restart().await;
    let refused = Answer::to(world.request(Method::GET, "/metrics").bearer_auth(&world.operator)).await;
    refused.refused(ProblemType::NotFound);
    // All else works as before.
    assert_eq!(world.look("/jobs").await.status, 200);
}

#[tokio::test]
async fn every_answer_has_the_id_of_its_request_and_problems_tell_it() {
    let world = World::start().await;
    let ask = |path: &str, id: &str| world.operator_request(Method::GET, path).header("x-request-id", id);
    let known = Answer::to(ask("/jobs", "app-1.2_3")).await;
    assert_eq!((known.status, known.header("x-request-id")), (200, "app-1.2_3"));
    let problem = Answer::to(ask("/jobs/job_17", "mine")).await.refused(ProblemType::Malformed);
    assert_eq!(problem.request_id.as_deref(), Some("mine"));
    let told = Answer::to(ask("/jobs?limit=0", "two words")).await;
    let problem: Problem = told.refused(ProblemType::Malformed);
    assert_eq!(problem.request_id.as_deref(), Some(told.header("x-request-id")));
    assert_eq!(told.header("x-request-id").len(), 16);

    let outside = [
        (Method::GET, "/nothing", ProblemType::NotFound),
        (Method::DELETE, "/healthz", ProblemType::MethodNotAllowed),
        (Method::POST, "/device/v1/checkins", ProblemType::Unauthorized),
    ];
    for (method, path, kind) in outside {
        let answer = Answer::to(world.request(method, path)).await;
        assert_eq!(answer.refused(kind).request_id.as_deref(), Some(answer.header("x-request-id")), "{path}");
    }
    let first = Answer::to(world.request(Method::GET, "/healthz")).await;
    let second = Answer::to(world.request(Method::GET, "/healthz")).await;
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
}
