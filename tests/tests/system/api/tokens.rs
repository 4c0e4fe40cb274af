//! Tokens that do not work any more, and names that are taken.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::operator::{CreatedToken, Page, Population, Token};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Role;

use crate::support::{Answer, NOW_MS, World};

async fn enrol(world: &World, secret: &str) -> Answer {
    Answer::to(world.request(Method::POST, "/device/v1/clients").bearer_auth(secret).json(&json!({}))).await
}

#[tokio::test]
async fn a_revoked_enrolment_token_enrols_nobody_more_but_its_clients_stay() {
    let world = World::start().await;
    let created = world.token("devices").await;
    let secret = created.secret.expose();
    let device = world.device().await;
    enrol(&world, &secret).await.value();
    let path = format!("/tokens/{}", created.token.id);
    for _ in 0..2 {
        assert_eq!(world.operate(Method::DELETE, &path, &json!({})).await.status, 204, "twice is no error");
    }
    enrol(&world, &secret).await.refused(ProblemType::Unauthorized);
    let _ = device.check_in(0).await;
    let tokens: Page<Token> = world.look("/tokens").await.ok();
    let revoked = tokens.items.iter().find(|token| token.id == created.token.id).unwrap();
    assert_eq!(revoked.revoked_at_ms, Some(NOW_MS));
}

#[tokio::test]
async fn tokens_expire_to_the_millisecond() {
    let world = World::start().await;
    let operator: CreatedToken = world
        .operate(Method::POST, "/tokens", &json!({ "kind": "operator", "role": "viewer", "valid_for_ms": 1_000 }))
        .await
        .ok();
    let wanted = json!({ "kind": "enrolment", "population": "devices", "valid_for_ms": 1_000, "label": "field test" });
    let enrolment: CreatedToken = world.operate(Method::POST, "/tokens", &wanted).await.ok();
    assert_eq!(enrolment.token.expires_at_ms, Some(NOW_MS + 1_000));
    let look = || async {
        Answer::to(world.request(Method::GET, "/operator/v1/jobs").bearer_auth(operator.secret.expose())).await
    };
    world.hand.advance_ms(999);
    look().await.value();
    enrol(&world, &enrolment.secret.expose()).await.value();
    world.hand.advance_ms(1);
    look().await.refused(ProblemType::Unauthorized);
    enrol(&world, &enrolment.secret.expose()).await.refused(ProblemType::Unauthorized);
}

#[tokio::test]
async fn a_revoked_operator_token_is_out() {
    let world = World::start().await;
    let created = world.operator_token(Role::Admin, None).await;
    let look = || async {
        Answer::to(world.request(Method::GET, "/operator/v1/jobs").bearer_auth(created.secret.expose())).await
    };
    look().await.value();
    world.operate(Method::DELETE, &format!("/tokens/{}", created.token.id), &json!({})).await;
    look().await.refused(ProblemType::Unauthorized);
}

#[tokio::test]
async fn no_list_shows_a_secret() {
    let world = World::start().await;
    world.device().await;
    for path in ["/tokens", "/clients?population=devices", "/populations", "/audit", "/audit/export", "/me"] {
        let text = String::from_utf8(world.look(path).await.body.to_vec()).unwrap();
        assert!(!text.contains("tributary_") && !text.contains("secret"), "{path}: {text}");
    }
}

#[tokio::test]
async fn taken_names_and_unknown_populations_are_refused() {
    let world = World::start().await;
    let again = json!({ "name": "devices" });
    world.operate(Method::POST, "/populations", &again).await.refused(ProblemType::NameTaken);
    let stray = json!({ "kind": "enrolment", "population": "nobody" });
    world.operate(Method::POST, "/tokens", &stray).await.refused(ProblemType::NotFound);
    let label = json!({ "kind": "enrolment", "population": "devices", "label": "x".repeat(201) });
    world.operate(Method::POST, "/tokens", &label).await.refused(ProblemType::Malformed);
    let unknown = format!("/tokens/token_{}", "0".repeat(32));
    world.operate(Method::DELETE, &unknown, &json!({})).await.refused(ProblemType::NotFound);
    let populations: Page<Population> = world.look("/populations").await.ok();
    assert_eq!(populations.items.len(), 1);
}

#[tokio::test]
async fn a_token_without_an_explicit_kind_is_not_made() {
    let world = World::start().await;
    let before: Page<Token> = world.look("/tokens").await.ok();
    for vague in [
        json!({}),
        json!([]),
        json!(["operator", "admin", null, "", null]),
        json!([null, "x", 1]),
        json!({ "label": "x" }),
        json!({ "population": "devices" }),
        json!({ "kind": "operator" }),
        json!({ "kind": "operator", "role": "root" }),
        json!({ "kind": "enrolment" }),
        json!({ "kind": "enrolment", "population": "devices", "role": "admin" }),
        json!({ "kind": "operator", "role": "viewer", "uses_max": 3 }),
    ] {
        world.operate(Method::POST, "/tokens", &vague).await.refused(ProblemType::Malformed);
    }
    // An array is no object in any other call either.
    world.operate(Method::POST, "/populations", &json!(["x"])).await.refused(ProblemType::Malformed);
    let after: Page<Token> = world.look("/tokens").await.ok();
    assert_eq!(after.items.len(), before.items.len());
}

#[tokio::test]
async fn operator_tokens_last_ninety_days_unless_said_otherwise() {
    let world = World::start().await;
    let token = world.operator_token(Role::Viewer, None).await.token;
    assert_eq!(token.expires_at_ms, Some(NOW_MS + 90 * 24 * 3_600_000));
    assert_eq!(world.token("devices").await.token.expires_at_ms, None, "apps cannot be given a new one so easily");
}

#[tokio::test]
async fn labels_and_granted_attributes_have_no_character_that_hides() {
    let world = World::start().await;
    for letter in ["\u{202e}", "\u{1b}", "\u{0}", "\u{2066}", "\u{200b}", "\n"] {
        let label = json!({ "kind": "operator", "role": "viewer", "label": format!("a{letter}b") });
        world.operate(Method::POST, "/tokens", &label).await.refused(ProblemType::Malformed);
        let granted = json!({ "kind": "enrolment", "population": "devices", "attributes": { "site": letter } });
        world.operate(Method::POST, "/tokens", &granted).await.refused(ProblemType::Malformed);
    }
    let label = json!({ "kind": "operator", "role": "viewer", "label": "Größe 北京 🙂" });
    world.operate(Method::POST, "/tokens", &label).await.value();
}

#[tokio::test]
async fn the_scheme_of_a_token_has_no_case() {
    let world = World::start().await;
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let header = format!("{scheme} {}", world.operator);
        let request = world.request(Method::GET, "/operator/v1/jobs").header("authorization", header);
        Answer::to(request).await.value();
    }
}

#[tokio::test]
async fn the_last_use_of_a_token_is_known_to_the_minute_and_costs_no_write_per_request() {
    let world = World::start().await;
    let created = world.operator_token(Role::Viewer, None).await;
    let used = async || {
        let tokens: Page<Token> = world.look("/tokens").await.ok();
        tokens.items.into_iter().find(|token| token.id == created.token.id).unwrap().last_used_at_ms
    };
    let request = || world.request(Method::GET, "/operator/v1/jobs").bearer_auth(created.secret.expose());
    assert_eq!(used().await, None);
    for (after_ms, known) in [(0, NOW_MS), (59_999, NOW_MS), (1, NOW_MS + 60_000), (59_999, NOW_MS + 60_000)] {
        world.hand.advance_ms(after_ms);
        Answer::to(request()).await.value();
        assert_eq!(used().await, Some(known));
    }
}

#[tokio::test]
async fn answers_with_secrets_are_kept_by_no_cache() {
    let world = World::start().await;
    let wanted = json!({ "kind": "enrolment", "population": "devices" });
    let created = world.operate(Method::POST, "/tokens", &wanted).await;
    let enrolled = enrol(&world, &world.enrolment).await;
    for answer in [created, enrolled] {
        assert!((200..300).contains(&answer.status));
        assert_eq!((answer.header("cache-control"), answer.header("x-content-type-options")), ("no-store", "nosniff"));
    }
}
