//! What each role may do, where, and for how long.

use std::collections::BTreeSet;

use reqwest::{Method, Response};
use serde_json::{Value, json};
use tributary_protocol::operator::{AuditEntry, CreatedToken, Job, Overview, Page, Population, SignedIn, Token};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Role;

use crate::support::{Answer, World, job_file, within_reason};

/// The role that a call needs, by rules of its own: what the document says is checked against them.
fn expected_role(method: &Method, path: &str) -> Role {
    let is_for_admins =
        ["/tokens", "/accounts", "/sessions"].iter().any(|prefix| path.starts_with(&format!("/operator/v1{prefix}")));
    match path {
        _ if is_for_admins => Role::Admin,
        "/operator/v1/populations" if method == Method::POST => Role::Admin,
        "/operator/v1/populations/{population}/budget" if method == Method::PUT => Role::Admin,
        "/operator/v1/jobs/{job}" if method == Method::DELETE => Role::Admin,
        "/operator/v1/logout" | "/operator/v1/logout-everywhere" => Role::Viewer,
        _ if method == Method::GET => Role::Viewer,
        _ => Role::Operator,
    }
}

/// Goal: every call of the document is for its role and those above, and for nobody below.
/// Method: walk the document with a token of each role. The ids of the paths exist, so what is read is there; what is
/// written has an empty body, which is looked at only after the role.
#[tokio::test]
async fn every_call_of_the_document_is_for_its_role_and_those_above() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let _held = device.wait();
    world.until_waiting(1).await;
    world.drive().await;
    let spare = world.token("devices").await;
    let account = json!({ "name": "ada", "role": "viewer", "password": "correct horse battery" });
    world.operate(Method::POST, "/accounts", &account).await.value();
    let mut tokens = Vec::new();
    for role in Role::ALL {
        tokens.push((*role, world.operator_token(*role, None).await.secret.expose()));
    }
    let document = Answer::to(world.request(Method::GET, "/openapi.json")).await.value();
    let (mut allowed, mut refused) = (0, 0);
    for (path, item) in document["paths"].as_object().unwrap() {
        if !path.starts_with("/operator/v1") || path.ends_with("/login") || path.ends_with("/oidc/callback") {
            continue;
        }
        for (method, call) in item.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let needed: Vec<Role> = serde_json::from_value(call["security"][0]["operator"].clone()).unwrap();
            assert_eq!(needed, [expected_role(&method, path)], "{method} {path}");
            assert_eq!(call["security"][1]["session"], call["security"][0]["operator"], "{method} {path}");
            for (role, token) in &tokens {
                // Each erases one of its own.
                let erased = if method == Method::DELETE { Some(world.device().await.id) } else { None };
                let filled = filled(path, call, &job, &erased.unwrap_or(device.id).to_string(), &spare);
                let mut request = world.request(method.clone(), &filled).bearer_auth(token);
                if method != Method::GET {
                    request = request.json(&json!({}));
                }
                // Only the head of the answer: a stream would go on for ever.
                let status = request.send().await.unwrap().status().as_u16();
                if *role >= needed[0] {
                    assert!(![401, 403, 404, 405, 500].contains(&status), "{role}: {method} {filled}: {status}");
                    assert!(method != Method::GET || status == 200, "{role}: {method} {filled}: {status}");
                    allowed += 1;
                } else {
                    assert_eq!(status, 403, "{role}: {method} {filled}");
                    refused += 1;
                }
            }
        }
    }
    assert!(allowed > 80 && refused > 20, "{allowed} {refused}");
}

/// A path of the document with ids that exist, and the parameters that it needs.
fn filled(path: &str, call: &Value, job: &Job, client: &str, token: &CreatedToken) -> String {
    let path = path
        .replace("{job}", &job.head.id.to_string())
        .replace("{client}", client)
        .replace("{token}", &token.token.id.to_string())
        .replace("{account}", "ada")
        .replace("{population}", "devices")
        .replace("{number}", "1")
        .replace("{version}", "0");
    let parameters = call["parameters"].as_array().cloned().unwrap_or_default();
    let needed = parameters.iter().filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
    let pairs: Vec<String> = needed
        .map(|parameter| match parameter["name"].as_str().unwrap() {
            "population" => "population=devices".to_owned(),
            "job" => format!("job={}", job.head.id),
            "actor" => "actor=oidc:x".to_owned(),
            name => format!("{name}=x"),
        })
        .collect();
    if pairs.is_empty() { path } else { format!("{path}?{}", pairs.join("&")) }
}

struct As<'a> {
    world: &'a World,
    token: String,
}

impl As<'_> {
    async fn call(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.world.request(method, &format!("/operator/v1{path}"));
        Answer::to(request.bearer_auth(&self.token).json(body)).await
    }

    async fn look(&self, path: &str) -> Answer {
        self.call(Method::GET, path, &json!({})).await
    }
}

/// Goal: the admin of one population sees and changes it, and nothing else, not even that there is more.
#[tokio::test]
async fn an_operator_of_one_population_sees_and_changes_no_other() {
    let world = World::start().await;
    for name in ["mine", "theirs"] {
        world.operate(Method::POST, "/populations", &json!({ "name": name })).await.value();
    }
    let mine = world.job(json!({ "population": "mine" })).await;
    let theirs = world.job(json!({ "population": "theirs" })).await;
    let client = world.device().await.id;
    let foreign = world.token("theirs").await.token.id;
    let whole = world.operator_token(Role::Viewer, None).await.token.id;
    let local = world.operator_token(Role::Admin, Some("mine")).await;
    let me = As { world: &world, token: local.secret.expose() };

    let who: SignedIn = me.look("/me").await.ok();
    assert_eq!((who.role, who.population.unwrap().as_str()), (Role::Admin, "mine"));
    let names = |page: Page<Population>| page.items.iter().map(|item| item.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(me.look("/populations").await.ok()), ["mine"]);
    let jobs: Page<Job> = me.look("/jobs").await.ok();
    assert_eq!(jobs.items.iter().map(|job| job.head.id).collect::<Vec<_>>(), [mine.head.id]);
    let overview: Overview = me.look("/overview").await.ok();
    assert_eq!((overview.jobs.len(), overview.populations.len()), (1, 1));
    assert_eq!(overview.jobs[0].job.head.id, mine.head.id);
    let tokens: Page<Token> = me.look("/tokens").await.ok();
    assert_eq!(tokens.items.iter().map(|token| token.id).collect::<Vec<_>>(), [local.token.id]);
    let log: Page<AuditEntry> = me.look("/audit").await.ok();
    assert!(log.items.iter().all(|entry| entry.population.as_ref().is_some_and(|name| name.as_str() == "mine")));
    assert_eq!(log.items.len(), 3, "population, job and token");

    // What has an id of another population does not exist.
    for path in ["", "/file", "/metrics", "/models", "/models/0", "/rounds", "/rounds/1", "/curve", "/shapes"] {
        me.look(&format!("/jobs/{}{path}", theirs.head.id)).await.refused(ProblemType::NotFound);
    }
    for path in [
        format!("/clients/{client}"),
        format!("/clients/{client}/assignments"),
        format!("/events?job={}", theirs.head.id),
    ] {
        me.look(&path).await.refused(ProblemType::NotFound);
    }
    for (method, path) in [
        (Method::POST, format!("/jobs/{}/pause", theirs.head.id)),
        (Method::POST, format!("/jobs/{}/stop", theirs.head.id)),
        (Method::PATCH, format!("/jobs/{}", theirs.head.id)),
        (Method::DELETE, format!("/jobs/{}", theirs.head.id)),
        (Method::PUT, format!("/jobs/{}/models/0/pin", theirs.head.id)),
        (Method::PATCH, format!("/jobs/{}/round-policy", theirs.head.id)),
        (Method::DELETE, format!("/tokens/{foreign}")),
        (Method::DELETE, format!("/tokens/{whole}")),
    ] {
        me.call(method, &path, &json!({})).await.refused(ProblemType::NotFound);
    }
    // What names another population, or the deployment, is refused.
    for path in [
        "/jobs?population=theirs",
        "/clients?population=theirs",
        "/populations/theirs/attributes",
        "/populations/theirs/classes?attribute=x",
        "/populations/theirs/budget",
        "/system",
        "/nodes",
        "/schedules",
        "/audit/export",
    ] {
        me.look(path).await.refused(ProblemType::Forbidden);
    }
    for (path, body) in [
        ("/populations", json!({ "name": "new" })),
        ("/tokens", json!({ "kind": "enrolment", "population": "theirs" })),
        ("/tokens", json!({ "kind": "operator", "role": "viewer" })),
        ("/tokens", json!({ "kind": "operator", "role": "viewer", "population": "theirs" })),
        ("/accounts", json!({ "name": "eve", "role": "admin", "password": "correct horse battery" })),
        ("/jobs", json!({ "job": job_file(&json!({ "population": "theirs", "name": "new" })) })),
        ("/jobs?dry_run=true", json!({ "job": job_file(&json!({ "population": "theirs", "name": "new" })) })),
    ] {
        me.call(Method::POST, path, &body).await.refused(ProblemType::Forbidden);
    }
    // At home everything works.
    me.call(Method::POST, &format!("/jobs/{}/pause", mine.head.id), &json!({})).await.value();
    let token = json!({ "kind": "operator", "role": "admin", "population": "mine" });
    me.call(Method::POST, "/tokens", &token).await.value();
    let account = json!({ "name": "eve", "role": "admin", "population": "mine", "password": "correct horse battery" });
    me.call(Method::POST, "/accounts", &account).await.value();
    let new = json!({ "job": job_file(&json!({ "population": "mine", "name": "new" })) });
    me.call(Method::POST, "/jobs", &new).await.value();
}

#[tokio::test]
async fn metrics_with_a_token_are_for_operators_of_the_whole_deployment() {
    let mut world = World::start().await;
    let whole = world.operator_token(Role::Viewer, None).await.secret.expose();
    let local = world.operator_token(Role::Admin, Some("devices")).await.secret.expose();
    world.set_metrics(tributary_server::metrics::MetricsAccess::Token);
    world.restart().await;
    let metrics = |token: &str| Answer::to(world.request(Method::GET, "/metrics").bearer_auth(token));
    assert_eq!(metrics(&whole).await.status, 200);
    metrics(&local).await.refused(ProblemType::Forbidden);
}

/// Reads a stream to its end, which must come.
async fn end_of(mut stream: Response) -> String {
    let mut text = String::new();
    while let Some(piece) = within_reason(stream.chunk()).await.unwrap() {
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    text
}

/// Goal: nobody sees more than a few seconds after the end of a credential.
/// Method: streams and a long poll with tokens that are revoked or expire; the clock moves, and each of them ends.
#[tokio::test]
async fn streams_end_with_the_token_that_opened_them() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let paths = ["/feed".to_owned(), format!("/events?job={}&after=1", job.head.id)];
    let open = async |path: &str, token: &CreatedToken| {
        let request = world.request(Method::GET, &format!("/operator/v1{path}")).bearer_auth(token.secret.expose());
        let response = request.header("accept", "text/event-stream").send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        response
    };
    let revoked = world.operator_token(Role::Viewer, None).await;
    let short = json!({ "kind": "operator", "role": "viewer", "valid_for_ms": 3_000 });
    let expiring: CreatedToken = world.operate(Method::POST, "/tokens", &short).await.ok();
    let kept = world.operator_token(Role::Viewer, None).await;
    let mut streams = Vec::new();
    for token in [&revoked, &expiring] {
        for path in &paths {
            streams.push(open(path, token).await);
        }
    }
    let mut going_on = open(&paths[0], &kept).await;
    let poll = world.request(Method::GET, &format!("/operator/v1{}&wait_ms=60000", paths[1]));
    let poll = tokio::spawn(Answer::to(poll.bearer_auth(revoked.secret.expose())));
    world.operate(Method::DELETE, &format!("/tokens/{}", revoked.token.id), &json!({})).await;
    world.hand.advance_ms(5_000);
    for stream in streams {
        assert!(!end_of(stream).await.contains("event:"), "nothing had happened");
    }
    // The poll was held already, or it came too late: both end it.
    within_reason(poll).await.unwrap().refused(ProblemType::Unauthorized);
    world.operate(Method::POST, &format!("/jobs/{}/stop", job.head.id), &json!({})).await.value();
    let mut text = String::new();
    while !text.contains("stopped") {
        let piece = within_reason(going_on.chunk()).await.unwrap().expect("this token works");
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
}

#[tokio::test]
async fn a_feed_of_one_population_tells_nothing_of_others() {
    let world = World::start().await;
    world.operate(Method::POST, "/populations", &json!({ "name": "theirs" })).await.value();
    let local = world.operator_token(Role::Viewer, Some("devices")).await;
    let request = world.request(Method::GET, "/operator/v1/feed").bearer_auth(local.secret.expose());
    let mut feed = request.send().await.unwrap();
    let theirs = world.job(json!({ "population": "theirs" })).await;
    let mine = world.job(json!({})).await;
    let mut text = String::new();
    let mut jobs = BTreeSet::new();
    while jobs.is_empty() {
        let piece = within_reason(feed.chunk()).await.unwrap().expect("the stream goes on");
        text.push_str(std::str::from_utf8(&piece).unwrap());
        let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
        jobs.extend(
            events
                .filter_map(|data| serde_json::from_str::<Value>(data).ok())
                .map(|event| event["job"].clone().to_string()),
        );
    }
    assert_eq!(jobs.into_iter().collect::<Vec<_>>(), [format!("\"{}\"", mine.head.id)]);
    assert!(!text.contains(&theirs.head.id.to_string()["job_".len()..]), "nor in the cursor");
}
