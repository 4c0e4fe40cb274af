//! Paths, methods, tokens: the same rules for every route.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::problem::ProblemType;

use crate::support::{Answer, World};

/// Every route that needs a token. Ids are well-formed and unknown.
pub(super) fn guarded_routes() -> Vec<(Method, String)> {
    let job = format!("job_{}", "0".repeat(32));
    let assignment = format!("assignment_{}", "0".repeat(32));
    let token = format!("token_{}", "0".repeat(32));
    let client = format!("client_{}", "0".repeat(32));
    let group = format!("group_{}", "0".repeat(32));
    let release = format!("release_{}", "0".repeat(32));
    let operator = [
        (Method::GET, "/populations".into()),
        (Method::POST, "/populations".into()),
        (Method::GET, "/tokens".into()),
        (Method::POST, "/tokens".into()),
        (Method::DELETE, format!("/tokens/{token}")),
        (Method::GET, "/overview".into()),
        (Method::GET, "/clients?population=devices".into()),
        (Method::GET, format!("/clients/{client}")),
        (Method::DELETE, format!("/clients/{client}")),
        (Method::PUT, format!("/clients/{client}/standing")),
        (Method::GET, format!("/clients/{client}/assignments")),
        (Method::GET, "/populations/devices/budget".into()),
        (Method::PUT, "/populations/devices/budget".into()),
        (Method::GET, "/populations/devices/attributes".into()),
        (Method::GET, "/populations/devices/classes?attribute=ram".into()),
        (Method::GET, "/jobs".into()),
        (Method::POST, "/jobs".into()),
        (Method::GET, format!("/jobs/{job}")),
        (Method::PATCH, format!("/jobs/{job}")),
        (Method::DELETE, format!("/jobs/{job}")),
        (Method::PUT, format!("/jobs/{job}/models/0/pin")),
        (Method::DELETE, format!("/jobs/{job}/models/0/pin")),
        (Method::GET, format!("/jobs/{job}/file")),
        (Method::GET, format!("/jobs/{job}/metrics?format=csv")),
        (Method::PATCH, format!("/jobs/{job}/round-policy")),
        (Method::POST, format!("/jobs/{job}/pause")),
        (Method::POST, format!("/jobs/{job}/resume")),
        (Method::POST, format!("/jobs/{job}/stop")),
        (Method::GET, format!("/jobs/{job}/models")),
        (Method::GET, format!("/jobs/{job}/models/0")),
        (Method::PUT, format!("/jobs/{job}/models/0")),
        (Method::GET, format!("/jobs/{job}/rounds")),
        (Method::GET, format!("/jobs/{job}/rounds/1")),
        (Method::GET, format!("/jobs/{job}/curve")),
        (Method::GET, format!("/jobs/{job}/metric-curves")),
        (Method::GET, format!("/jobs/{job}/outlook")),
        (Method::GET, format!("/jobs/{job}/answers")),
        (Method::GET, format!("/jobs/{job}/privacy")),
        (Method::GET, format!("/jobs/{job}/stale-clients")),
        (Method::GET, format!("/jobs/{job}/test-set")),
        (Method::PUT, format!("/jobs/{job}/test-set")),
        (Method::GET, format!("/jobs/{job}/shapes")),
        (Method::GET, format!("/jobs/{job}/rounds/1/assignments")),
        (Method::GET, "/releases?population=devices".into()),
        (Method::POST, "/releases".into()),
        (Method::PATCH, format!("/releases/{release}")),
        (Method::POST, format!("/releases/{release}/withdraw")),
        (Method::GET, format!("/events?job={job}")),
        (Method::GET, "/feed".into()),
        (Method::GET, "/nodes".into()),
        (Method::GET, "/schedules".into()),
        (Method::GET, "/system".into()),
        (Method::GET, "/audit".into()),
        (Method::GET, "/audit/export".into()),
        (Method::GET, "/accounts".into()),
        (Method::POST, "/accounts".into()),
        (Method::DELETE, "/accounts/ada".into()),
        (Method::PUT, "/accounts/ada/password".into()),
        (Method::GET, "/accounts/ada/sessions".into()),
        (Method::DELETE, "/accounts/ada/sessions".into()),
        (Method::GET, "/sessions?actor=oidc:x".into()),
        (Method::DELETE, "/sessions?actor=oidc:x".into()),
        (Method::POST, "/logout".into()),
        (Method::POST, "/logout-everywhere".into()),
        (Method::GET, "/me".into()),
    ];
    let device = [
        (Method::POST, "/clients".into()),
        (Method::GET, "/jobs".into()),
        (Method::POST, "/checkins".into()),
        (Method::POST, "/certificate".into()),
        (Method::POST, "/secret".into()),
        (Method::GET, format!("/jobs/{job}/models/0")),
        (Method::GET, format!("/jobs/{job}/models/0/delta")),
        (Method::GET, format!("/jobs/{job}/models/0/control")),
        (Method::GET, "/release?channel=stable".into()),
        (Method::GET, format!("/releases/{release}/model")),
        (Method::GET, format!("/releases/{release}/difference")),
        (Method::GET, format!("/assignments/{assignment}")),
        (Method::PUT, format!("/assignments/{assignment}/update?weight=1&loss=1&steps=1&train_ms=1")),
        (Method::PATCH, format!("/assignments/{assignment}/update?weight=1&loss=1&steps=1&train_ms=1")),
        (Method::PUT, format!("/assignments/{assignment}/parts/0?weight=1&loss=1&steps=1&train_ms=1")),
        (Method::PATCH, format!("/assignments/{assignment}/parts/0?weight=1&loss=1&steps=1&train_ms=1")),
        (Method::PUT, "/relay/jobs".into()),
        (Method::PUT, format!("/assignments/{assignment}/sum?examples=1&steps=1&train_ms=1")),
        (Method::PATCH, format!("/assignments/{assignment}/sum?examples=1&steps=1&train_ms=1")),
        (Method::PUT, format!("/assignments/{assignment}/group")),
        (Method::PUT, format!("/assignments/{assignment}/group/shares")),
        (Method::PUT, format!("/assignments/{assignment}/group/update")),
        (Method::PATCH, format!("/assignments/{assignment}/group/update")),
        (Method::GET, format!("/assignments/{assignment}/group/survivors")),
        (Method::PUT, format!("/assignments/{assignment}/group/agreement")),
        (Method::PUT, format!("/assignments/{assignment}/group/unmask")),
        (Method::PUT, format!("/assignments/{assignment}/ring")),
        (Method::PUT, format!("/assignments/{assignment}/ring/stall")),
        (Method::PUT, format!("/assignments/{assignment}/ring/outcome")),
        (Method::GET, format!("/groups/{group}/links/0")),
        (Method::PUT, format!("/assignments/{assignment}/evaluation")),
        (Method::PUT, format!("/assignments/{assignment}/description")),
        (Method::POST, format!("/assignments/{assignment}/failure")),
        // The last one: the client is not known any more.
        (Method::DELETE, "/client".into()),
    ];
    let under = |api: &'static str| move |(method, path): (Method, String)| (method, format!("/{api}/v1{path}"));
    operator.into_iter().map(under("operator")).chain(device.into_iter().map(under("device"))).collect()
}

#[tokio::test]
async fn every_route_needs_a_token_and_says_so() {
    let world = World::start().await;
    for (method, path) in guarded_routes() {
        let answer = Answer::to(world.request(method.clone(), &path).json(&json!({}))).await;
        assert_eq!(answer.status, 401, "{method} {path}");
        answer.refused(ProblemType::Unauthorized);
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        for wrong in ["Bearer nonsense", "Basic dXNlcjpwYXNz", "Bearer ", "bearer"] {
            let request = world.request(method.clone(), &path).header("authorization", wrong).json(&json!({}));
            Answer::to(request).await.refused(ProblemType::Unauthorized);
        }
    }
}

#[tokio::test]
async fn a_token_of_another_kind_is_forbidden_everywhere() {
    let world = World::start().await;
    let device = world.device().await;
    for (method, path) in guarded_routes() {
        let wrong = match path.as_str() {
            "/device/v1/clients" | "/device/v1/jobs" => [&world.operator, &device.secret],
            path if path.starts_with("/device") => [&world.operator, &world.enrolment],
            _ => [&device.secret, &world.enrolment],
        };
        for secret in wrong {
            let answer = Answer::to(world.request(method.clone(), &path).bearer_auth(secret).json(&json!({}))).await;
            assert_eq!(answer.status, 403, "{method} {path}");
            answer.refused(ProblemType::Forbidden);
        }
    }
}

#[tokio::test]
async fn the_right_token_gets_past_the_guard_everywhere() {
    let world = World::start().await;
    let device = world.device().await;
    for (method, path) in guarded_routes() {
        let secret = match path.as_str() {
            "/device/v1/clients" | "/device/v1/jobs" => &world.enrolment,
            path if path.starts_with("/device") => &device.secret,
            _ => &world.operator,
        };
        if path.ends_with("/feed") {
            // Goes on for ever when it is let in; its own tests listen to it.
            continue;
        }
        let answer = Answer::to(world.request(method.clone(), &path).bearer_auth(secret).json(&json!({}))).await;
        assert!(![401, 403, 405, 500].contains(&answer.status), "{method} {path}: {}", answer.status);
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problem_documents() {
    let world = World::start().await;
    for path in ["/nothing", "/operator/v1/nothing", "/device/v1/nothing", "/operator/v2/jobs", "/../etc/passwd"] {
        Answer::to(world.request(Method::GET, path)).await.refused(ProblemType::NotFound);
    }
    for (method, path) in [
        (Method::DELETE, "/healthz"),
        (Method::DELETE, "/operator/v1/jobs"),
        (Method::GET, "/device/v1/clients"),
        (Method::PATCH, "/device/v1/checkins"),
    ] {
        Answer::to(world.request(method, path)).await.refused(ProblemType::MethodNotAllowed);
    }
    Answer::to(world.request(Method::POST, "/")).await.refused(ProblemType::NotFound);
}

#[tokio::test]
async fn health_and_the_dashboard_need_no_token() {
    let world = World::start().await;
    for path in ["/healthz", "/readyz", "/"] {
        assert_eq!(Answer::to(world.request(Method::GET, path)).await.status, 200, "{path}");
    }
    let page = Answer::to(world.request(Method::GET, "/")).await;
    assert!(page.header("content-type").starts_with("text/html"));
    assert!(page.header("content-security-policy").contains("default-src 'self'"));
}

#[tokio::test]
async fn what_does_not_parse_is_malformed_and_says_where() {
    let world = World::start().await;
    let device = world.device().await;
    let post = |path: &str| world.operator_request(Method::POST, path);
    let json = |text: &'static str| post("/populations").header("content-type", "application/json").body(text);
    for request in [
        json("{"),
        json(r#"{"name": "bad name"}"#),
        json(r#"{"name": 7}"#),
        json(r"{}"),
        json(r#"{"name": "ok", "colour": "red"}"#),
        post("/populations").body(r#"{"name": "ok"}"#),
        world.operator_request(Method::GET, "/jobs/job_17"),
        world.operator_request(Method::GET, "/jobs?limit=0"),
        world.operator_request(Method::GET, "/jobs?limit=1001"),
        world.operator_request(Method::GET, "/jobs?limit=many"),
        world.operator_request(Method::GET, "/jobs?colour=red"),
        world.operator_request(Method::GET, "/clients"),
        world.operator_request(Method::GET, "/clients?population=devices&after=x"),
        world.operator_request(Method::GET, "/events"),
        device.request(Method::POST, "/checkins").json(&json!({ "state": {} })),
        device.request(Method::GET, "/assignments/nothing"),
        device.request(Method::PUT, &format!("/assignments/assignment_{}/update?weight=-1", "0".repeat(32))),
    ] {
        Answer::to(request).await.refused(ProblemType::Malformed);
    }
    let attributes = json!({ "x".repeat(200): "y" });
    let enrol = world.request(Method::POST, "/device/v1/clients").bearer_auth(&world.enrolment);
    Answer::to(enrol.json(&json!({ "attributes": attributes }))).await.refused(ProblemType::Malformed);
    let huge = json!({ "name": "x".repeat(400_000) });
    world.operate(Method::POST, "/populations", &huge).await.refused(ProblemType::TooLarge);
}
