//! The OpenAPI document says what the coordinator does, and the page that shows it loads nothing from elsewhere.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::Value;

use crate::support::{Answer, World};

/// The document that the dashboard's types are generated from.
const DASHBOARD_DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboard/web/openapi.json");
/// When set, the test writes that file instead of comparing it. `npm run api` in `dashboard/web` sets it.
const WRITE: &str = "TRIBUTARY_TEST_WRITE_OPENAPI";

async fn document(world: &World) -> Value {
    Answer::to(world.request(Method::GET, "/openapi.json")).await.value()
}

/// Everything under a JSON value, with the keys that lead there.
fn walk<'a>(value: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    visit(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        Value::Object(members) => members.values().for_each(|member| walk(member, visit)),
        _ => {}
    }
}

#[tokio::test]
async fn every_type_that_is_named_is_there_and_every_one_there_is_named() {
    let world = World::start().await;
    let document = document(&world).await;
    let mut named = BTreeSet::new();
    walk(&document, &mut |value| {
        if let Some(name) = value.get("$ref").and_then(Value::as_str) {
            named.insert(name.strip_prefix("#/components/schemas/").unwrap().to_owned());
        }
    });
    let there: BTreeSet<String> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(named.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new(), "missing");
    // A stream's events are told in words.
    let unnamed: Vec<_> = there.difference(&named).map(String::as_str).collect();
    assert_eq!(unnamed, Vec::<&str>::new());
}

#[tokio::test]
async fn the_dashboard_is_typed_by_this_document() {
    let world = World::start().await;
    let served = document(&world).await;
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(DASHBOARD_DOCUMENT, format!("{served:#}\n")).unwrap();
        return;
    }
    let checked_in = std::fs::read(DASHBOARD_DOCUMENT).unwrap_or_default();
    assert!(
        serde_json::from_slice::<Value>(&checked_in).is_ok_and(|document| document == served),
        "dashboard/web/openapi.json differs from what the coordinator serves at /openapi.json: \
         run `npm run api` in dashboard/web and commit the files that it writes"
    );
}

/// Where a value has not the form of a schema: its type, the members that it needs, and no others.
fn misfit(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(path) = schema["$ref"].as_str() {
        return misfit(document, document.pointer(&path[1..]).unwrap(), value);
    }
    let parts = |kind: &str| schema[kind].as_array().filter(|parts| !parts.is_empty());
    if let Some(any) = parts("oneOf").or_else(|| parts("anyOf")) {
        let misfits: Option<Vec<String>> = any.iter().map(|part| misfit(document, part, value)).collect();
        return misfits.map(|misfits| misfits.join(" or "));
    }
    // The members of several parts belong to one object, and each part knows its own alone.
    if let Some([only]) = parts("allOf").map(Vec::as_slice) {
        return misfit(document, only, value);
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let is = |kind| types.contains(&kind);
    match value {
        Value::Object(members) if is("object") => {
            let needed = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let missing = needed.into_iter().find(|name| !members.contains_key(*name));
            missing.map(|name| format!("no {name}")).or_else(|| {
                let closed = schema["properties"].is_object() && !schema["additionalProperties"].is_object();
                members.iter().find_map(|(name, member)| match &schema["properties"][name] {
                    Value::Null => closed.then(|| format!("a {name}")),
                    known => misfit(document, known, member).map(|misfit| format!("{name}: {misfit}")),
                })
            })
        }
        Value::Array(items) if is("array") => items.iter().find_map(|item| misfit(document, &schema["items"], item)),
        Value::String(_) if is("string") => None,
        Value::Bool(_) if is("boolean") => None,
        Value::Null if is("null") => None,
        Value::Number(number) if is("number") || (is("integer") && !number.is_f64()) => None,
        _ => Some(format!("{value} is no {types:?}")),
    }
}

/// What a call shows in JSON: of its request, and of its success.
fn shown(operation: &Value) -> Vec<(&'static str, &Value)> {
    let answers = operation["responses"].as_object().unwrap().iter().filter(|(status, _)| status.starts_with('2'));
    let answers = answers.map(|(_, answer)| ("answer", &answer["content"]["application/json"]));
    let all = answers.chain([("request", &operation["requestBody"]["content"]["application/json"])]);
    all.filter(|(_, content)| content.is_object()).collect()
}

#[tokio::test]
async fn every_call_has_an_example_of_its_form() {
    let world = World::start().await;
    let document = document(&world).await;
    let mut wrong = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for (part, content) in shown(operation) {
                match &content["example"] {
                    Value::Null => wrong.push(format!("{method} {path} has no example of its {part}")),
                    example => {
                        let misfit = misfit(&document, &content["schema"], example);
                        wrong.extend(misfit.map(|misfit| format!("{part} of {method} {path}: {misfit}")));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "scripts/examples makes them again: {wrong:#?}");
}

/// Goal: the document and the coordinator agree on what there is.
/// Method: call each operation with made-up ids and the right kind of token: no path is unknown, no method is refused.
#[tokio::test]
async fn every_call_of_the_document_exists() {
    let world = World::start().await;
    let (device, leaving) = (world.device().await, world.device().await);
    let document = document(&world).await;
    let (mut calls, mut heads, mut free) = (0, 0, 0);
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let zeros = "0".repeat(32);
            let made_up = ["job", "token", "client", "assignment", "release", "group"]
                .iter()
                .fold(path.clone(), |path, kind| path.replace(&format!("{{{kind}}}"), &format!("{kind}_{zeros}")));
            let made_up = made_up
                .replace("{account}", "nobody")
                .replace("{population}", "nobody")
                .replace("{number}", "1")
                .replace("{rank}", "0")
                .replace("{part}", "0")
                .replace("{version}", "0");
            assert!(!made_up.contains('{'), "{made_up}");
            let Some(needed) = operation["security"][0].as_object() else {
                let to_sign_in = ["/operator/v1/login", "/operator/v1/oidc/login", "/operator/v1/oidc/callback"];
                assert!(to_sign_in.contains(&path.as_str()), "{path}: only these calls need no credential");
                free += 1;
                continue;
            };
            let token = match needed.keys().next().unwrap().as_str() {
                "operator" => &world.operator,
                "enrolment" => &world.enrolment,
                _ if path == "/device/v1/client" => &leaving.secret,
                _ => &device.secret,
            };
            let request = world.request(method.to_uppercase().parse().unwrap(), &made_up).bearer_auth(token);
            // Only the head of the answer: a stream would go on for ever.
            let status = request.send().await.unwrap().status().as_u16();
            assert!(![401, 403, 405].contains(&status) && status < 500, "{method} {made_up}: {status}");
            calls += 1;
            heads += usize::from(method == "head");
        }
    }
    // The table of routes that the tests keep has those whose refusals have a body.
    assert_eq!(calls - heads, super::routes::guarded_routes().len());
    let ids: BTreeSet<&str> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values().map(|call| call["operationId"].as_str().unwrap()))
        .collect();
    assert_eq!(ids.len(), calls + free, "each operation has an id of its own");
}

#[tokio::test]
async fn the_page_of_the_api_loads_nothing_from_elsewhere() {
    let world = World::start().await;
    let page = Answer::to(world.request(Method::GET, "/docs")).await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    for (file, kind) in [("/docs/docs.js", "text/javascript"), ("/docs/docs.css", "text/css")] {
        assert!(html.contains(file));
        let answer = Answer::to(world.request(Method::GET, file)).await;
        assert!(answer.status == 200 && answer.header("content-type").starts_with(kind), "{file}");
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(!text.contains("http://") && !text.contains("https://"), "{file}");
    }
    assert!(!html.contains("http"), "{html}");
    assert_eq!(Answer::to(world.request(Method::GET, "/docs/other")).await.status, 404);
}
