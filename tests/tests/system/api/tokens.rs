//! Tokens that do not work any more, and names that are taken.

use reqwest::Method;
use serde_json::json;
use tributary_protocol::operator::{CreatedToken, Page, Population, Token};
use tributary_protocol::problem::ProblemType;

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
    let operator: CreatedToken = world.operate(Method::POST, "/tokens", &json!({ "valid_for_ms": 1_000 })).await.ok();
    let wanted = json!({ "population": "devices", "valid_for_ms": 1_000, "label": "field test" });
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
    let created: CreatedToken = world.operate(Method::POST, "/tokens", &json!({})).await.ok();
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
    for path in ["/tokens", "/clients?population=devices", "/populations"] {
        let text = String::from_utf8(world.look(path).await.body.to_vec()).unwrap();
        assert!(!text.contains("tributary_") && !text.contains("secret"), "{path}: {text}");
    }
}

#[tokio::test]
async fn taken_names_and_unknown_populations_are_refused() {
    let world = World::start().await;
    let again = json!({ "name": "devices" });
    world.operate(Method::POST, "/populations", &again).await.refused(ProblemType::NameTaken);
    let stray = json!({ "population": "nobody" });
    world.operate(Method::POST, "/tokens", &stray).await.refused(ProblemType::NotFound);
    let label = json!({ "label": "x".repeat(201) });
    world.operate(Method::POST, "/tokens", &label).await.refused(ProblemType::Malformed);
    let unknown = format!("/tokens/token_{}", "0".repeat(32));
    world.operate(Method::DELETE, &unknown, &json!({})).await.refused(ProblemType::NotFound);
    let populations: Page<Population> = world.look("/populations").await.ok();
    assert_eq!(populations.items.len(), 1);
}
