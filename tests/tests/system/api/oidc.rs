//! Signing in with an identity provider: one of our own, which does everything right until it is told otherwise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::Method;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::operator::{AuditEntry, Page, REQUESTED_BY, Session, SignInWays, SignedIn};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AuditAction, Role};
use tributary_server::people::{GroupRole, OidcSettings};

use crate::support::{Answer, NOW_MS, World, within_reason};

type Pairs = BTreeMap<String, String>;

/// What the provider says, and what it was asked.
struct Provider {
    address: String,
    state: Mutex<Said>,
    /// Tokens are given out while it is free.
    gate: tokio::sync::Mutex<()>,
    /// How often it was asked for a token.
    asked: tokio::sync::Semaphore,
}

struct Said {
    key: EcdsaKeyPair,
    key_id: String,
    /// Changes of the claims of the next ID tokens.
    claims: Value,
    /// The parameters with which the browser came, by the code that it was given.
    begun: BTreeMap<String, Pairs>,
    key_sets: u32,
    issuer: String,
}

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap()
}

impl Provider {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let said = Said {
            key: key(),
            key_id: "first".into(),
            claims: json!({}),
            begun: BTreeMap::new(),
            key_sets: 0,
            issuer: address.clone(),
        };
        let provider = Arc::new(Self {
            address,
            state: Mutex::new(said),
            gate: tokio::sync::Mutex::new(()),
            asked: tokio::sync::Semaphore::new(0),
        });
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(configuration))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/keys", get(keys))
            .with_state(Arc::clone(&provider));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        provider
    }

    fn set_claims(&self, claims: Value) {
        self.state.lock().unwrap().claims = claims;
    }
}

async fn configuration(State(provider): State<Arc<Provider>>) -> Json<Value> {
    let address = &provider.address;
    Json(json!({
        "issuer": provider.state.lock().unwrap().issuer, "authorization_endpoint": format!("{address}/authorize?tenant=1"),
        "token_endpoint": format!("{address}/token"), "jwks_uri": format!("{address}/keys"),
    }))
}

/// The person is signed in already: the browser is sent back at once.
async fn authorize(State(provider): State<Arc<Provider>>, Query(asked): Query<Pairs>) -> Response {
    let mut said = provider.state.lock().unwrap();
    let code = format!("code/{}+", said.begun.len());
    let encoded = code.replace('/', "%2F").replace('+', "%2B");
    let to = format!("{}?code={encoded}&state={}&iss=x", asked["redirect_uri"], asked["state"]);
    said.begun.insert(code, asked);
    (StatusCode::FOUND, [("location", to)]).into_response()
}

async fn token(State(provider): State<Arc<Provider>>, headers: HeaderMap, body: String) -> Response {
    provider.asked.add_permits(1);
    drop(provider.gate.lock().await);
    let form: reqwest::Url = format!("http://form?{body}").parse().unwrap();
    let asked: Pairs = form.query_pairs().into_owned().collect();
    let refused = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    let credentials = format!("Basic {}", STANDARD.encode("tributary%3A1:s%26cret"));
    if headers["authorization"] != credentials.as_str() {
        return refused("invalid_client");
    }
    let mut said = provider.state.lock().unwrap();
    // A code works once.
    let Some(begun) = said.begun.remove(&asked["code"]) else { return refused("invalid_grant") };
    let challenge = URL_SAFE_NO_PAD.encode(Sha256Hash::of(asked["code_verifier"].as_bytes()).0);
    if begun["code_challenge"] != challenge
        || begun["code_challenge_method"] != "S256"
        || begun["redirect_uri"] != asked["redirect_uri"]
        || asked["grant_type"] != "authorization_code"
    {
        return refused("invalid_grant");
    }
    let now_s = NOW_MS / 1000;
    let mut claims = json!({
        "iss": provider.address, "sub": "user-7", "aud": "tributary:1", "iat": now_s, "exp": now_s + 300,
        "nonce": begun["nonce"], "preferred_username": "ada", "groups": ["everybody", "ml-team"],
    });
    claims.as_object_mut().unwrap().extend(said.claims.as_object().unwrap().clone());
    let header = json!({ "alg": "ES256", "kid": said.key_id, "typ": "JWT" });
    let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let message = format!("{}.{}", part(&header), part(&claims));
    let signature = said.key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()));
    Json(json!({ "id_token": token, "access_token": "unused", "token_type": "Bearer" })).into_response()
}

async fn keys(State(provider): State<Arc<Provider>>) -> Json<Value> {
    let mut said = provider.state.lock().unwrap();
    said.key_sets += 1;
    let point = said.key.public_key().as_ref();
    let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
    Json(json!({ "keys": [{ "kty": "EC", "crv": "P-256", "use": "sig", "kid": said.key_id, "x": x, "y": y }] }))
}

async fn world() -> (World, Arc<Provider>) {
    let provider = Provider::start().await;
    let mut world = World::start().await;
    let role = |group: &str, role, population: Option<&str>| GroupRole {
        group: group.into(),
        role,
        population: population.map(|name| name.parse().unwrap()),
    };
    world.set_oidc(OidcSettings {
        issuer: provider.address.clone(),
        client_id: "tributary:1".into(),
        client_secret: "s&cret".into(),
        public_url: world.server().parse().unwrap(),
        scopes: "openid profile".into(),
        groups_claim: "groups".into(),
        roles: vec![
            role("ml-admins", Role::Admin, None),
            role("ml-team", Role::Operator, None),
            role("ward", Role::Viewer, Some("devices")),
        ],
    });
    world.restart().await;
    (world, provider)
}

/// A browser follows redirects itself, so that the test sees each of them.
fn browser() -> reqwest::Client {
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap()
}

async fn visit(url: &str, cookie: Option<&str>) -> Answer {
    let request = browser().get(url);
    Answer::to(cookie.into_iter().fold(request, |request, cookie| request.header("cookie", cookie))).await
}

/// The pairs of name and value of the cookies that an answer sets.
fn cookies(answer: &Answer) -> Vec<String> {
    let set = answer.headers.get_all("set-cookie").iter();
    set.map(|value| value.to_str().unwrap().split(';').next().unwrap().to_owned()).collect()
}

/// Goes to the provider and comes back: the address of the callback, and the cookie that belongs to it.
async fn to_provider_and_back(world: &World) -> (String, String) {
    let begun = visit(&format!("{}/operator/v1/oidc/login", world.server()), None).await;
    assert_eq!(begun.status, 303, "{:?}", begun.body);
    let set = begun.header("set-cookie");
    assert!(set.starts_with("tributary_provider=") && set.contains("HttpOnly; SameSite=Lax"), "{set}");
    let back = visit(begun.header("location"), None).await;
    assert_eq!(back.status, 302);
    (back.header("location").to_owned(), cookies(&begun).remove(0))
}

async fn sign_in(world: &World) -> Answer {
    let (callback, cookie) = to_provider_and_back(world).await;
    visit(&callback, Some(&cookie)).await
}

#[tokio::test]
async fn a_person_signs_in_with_the_role_of_a_group() {
    let (world, provider) = world().await;
    let ways: SignInWays = Answer::to(world.request(Method::GET, "/operator/v1/login")).await.ok();
    assert!(ways.provider);
    let answer = sign_in(&world).await;
    assert_eq!((answer.status, answer.header("location")), (303, &*format!("{}/#session", world.server())));
    let set = cookies(&answer);
    assert_eq!(set[1], "tributary_provider=", "it has served");
    let call = |method: Method, path: &str| {
        let request = world.request(method, &format!("/operator/v1{path}")).header("cookie", &set[0]);
        request.header(REQUESTED_BY, "dashboard").header("sec-fetch-site", "same-origin").json(&json!({}))
    };
    let who: SignedIn = Answer::to(call(Method::GET, "/me")).await.ok();
    assert_eq!((who.name.as_str(), who.actor.as_str(), who.role), ("ada", "oidc:user-7", Role::Operator));
    Answer::to(call(Method::POST, "/populations")).await.refused(ProblemType::Forbidden);
    assert_eq!(Answer::to(call(Method::POST, "/logout-everywhere")).await.status, 204);
    Answer::to(call(Method::GET, "/me")).await.refused(ProblemType::Unauthorized);
    // The first group in the settings decides, and a role may be for one population.
    for (groups, role, population) in
        [(json!(["ml-team", "ml-admins"]), Role::Admin, None), (json!("ward"), Role::Viewer, Some("devices"))]
    {
        provider.set_claims(json!({ "groups": groups }));
        let session = cookies(&sign_in(&world).await).remove(0);
        let me = world.request(Method::GET, "/operator/v1/me").header("cookie", session);
        let who: SignedIn = Answer::to(me).await.ok();
        assert_eq!((who.role, who.population.as_ref().map(Name::as_str)), (role, population));
    }
}

#[tokio::test]
async fn claims_that_are_wrong_sign_nobody_in() {
    let (world, provider) = world().await;
    let now_s = NOW_MS / 1000;
    for (claims, refusal) in [
        (json!({ "groups": ["everybody"] }), ProblemType::Forbidden),
        (json!({ "groups": null }), ProblemType::Forbidden),
        (json!({ "iss": "https://evil.example" }), ProblemType::Unauthorized),
        (json!({ "aud": "another" }), ProblemType::Unauthorized),
        (json!({ "aud": ["tributary:1", "another"] }), ProblemType::Unauthorized),
        (json!({ "nonce": "of another sign-in" }), ProblemType::Unauthorized),
        (json!({ "exp": now_s - 61 }), ProblemType::Unauthorized),
        (json!({ "iat": now_s + 61 }), ProblemType::Unauthorized),
    ] {
        provider.set_claims(claims.clone());
        let answer = sign_in(&world).await;
        answer.refused(refusal);
        assert!(cookies(&answer).is_empty(), "{claims}");
    }
}

/// Goal: a sign-in ends in the browser in which it began, once.
#[tokio::test]
async fn a_callback_works_once_and_only_in_the_browser_that_began() {
    let (world, _provider) = world().await;
    let (callback, cookie) = to_provider_and_back(&world).await;
    let (other_callback, other_cookie) = to_provider_and_back(&world).await;
    for (callback, cookie) in [
        (&callback, None),
        (&callback, Some(&other_cookie)),
        (&other_callback, Some(&cookie)),
        (&callback, Some(&"tributary_provider=..".to_owned())),
        (&callback.replace("&state=", "&state=x"), Some(&cookie)),
        (&callback.split('?').next().unwrap().to_owned(), Some(&cookie)),
        (&format!("{}?error=access_denied", callback.split('?').next().unwrap()), Some(&cookie)),
    ] {
        visit(callback, cookie.map(String::as_str)).await.refused(ProblemType::Unauthorized);
    }
    assert_eq!(visit(&callback, Some(&cookie)).await.status, 303);
    visit(&callback, Some(&cookie)).await.refused(ProblemType::Unauthorized);
}

/// Goal: new keys of the provider are found, and a forger cannot make the coordinator ask for them all the time.
#[tokio::test]
async fn keys_that_change_are_looked_up_again_but_not_too_often() {
    let (world, provider) = world().await;
    assert_eq!(sign_in(&world).await.status, 303);
    let change_key = |id: &str| {
        let mut said = provider.state.lock().unwrap();
        (said.key, said.key_id) = (key(), id.into());
    };
    change_key("second");
    sign_in(&world).await.refused(ProblemType::Unauthorized);
    assert_eq!(provider.state.lock().unwrap().key_sets, 1, "within a minute");
    world.hand.advance_ms(60_000);
    assert_eq!(sign_in(&world).await.status, 303);
    assert_eq!(provider.state.lock().unwrap().key_sets, 2);
    // The same id with another key is a forgery.
    change_key("second");
    world.hand.advance_ms(60_000);
    sign_in(&world).await.refused(ProblemType::Unauthorized);
}

#[tokio::test]
async fn a_provider_that_calls_itself_otherwise_or_is_none_is_not_used() {
    let (world, provider) = world().await;
    provider.state.lock().unwrap().issuer = "https://evil.example".into();
    visit(&format!("{}/operator/v1/oidc/login", world.server()), None).await.refused(ProblemType::Unauthorized);
    let without = World::start().await;
    visit(&format!("{}/operator/v1/oidc/login", without.server()), None).await.refused(ProblemType::NotFound);
    let ways: SignInWays = Answer::to(without.request(Method::GET, "/operator/v1/login")).await.ok();
    assert!(!ways.provider);
}

/// Goal: who has begun nothing takes no place among those who sign in, and one address takes one. Method: the provider
/// holds its answers back.
#[tokio::test]
async fn made_up_cookies_take_no_place_of_those_who_sign_in() {
    let (mut world, provider) = world().await;
    world.set_behind_proxy(true);
    world.restart().await;
    let come_back = |callback: &str, cookie: &str, address: &'static str| {
        let request = browser().get(callback).header("cookie", cookie).header("x-forwarded-for", address);
        tokio::spawn(Answer::to(request))
    };
    let held = provider.gate.lock().await;
    let (callback, cookie) = to_provider_and_back(&world).await;
    let first = come_back(&callback, &cookie, "192.0.2.1");
    within_reason(provider.asked.acquire()).await.unwrap().forget();
    let made_up = callback.replace("&state=", "&state=x");
    let kept = "tributary_provider=x.y.z";
    let resigned = format!("tributary_provider=x.{}", cookie.split_once('.').unwrap().1);
    for cookie in [kept.to_owned(), resigned, format!("{kept}.1.AAAA"), cookie.clone()] {
        for _ in 0..4 {
            within_reason(come_back(&made_up, &cookie, "192.0.2.9")).await.unwrap().refused(ProblemType::Unauthorized);
        }
    }
    let (callback, cookie) = to_provider_and_back(&world).await;
    let again = within_reason(come_back(&callback, &cookie, "192.0.2.1")).await.unwrap();
    again.refused(ProblemType::TooManyRequests);
    let other = come_back(&callback, &cookie, "192.0.2.2");
    within_reason(provider.asked.acquire()).await.unwrap().forget();
    drop(held);
    for honest in [first, other] {
        assert_eq!(within_reason(honest).await.unwrap().status, 303);
    }
    world.hand.advance_ms(600_001);
    let (callback, cookie) = to_provider_and_back(&world).await;
    world.hand.advance_ms(600_001);
    come_back(&callback, &cookie, "192.0.2.3").await.unwrap().refused(ProblemType::Unauthorized);
}

/// Goal: an admin ends the sessions of a person whom the provider knows, within the admin's population; two subjects
/// are two people.
#[tokio::test]
async fn people_of_a_provider_are_shut_out_by_their_subject() {
    let (world, provider) = world().await;
    let signed_in = async |claims: Value| {
        provider.set_claims(claims);
        cookies(&sign_in(&world).await).remove(0)
    };
    let status = async |session: &str| {
        Answer::to(world.request(Method::GET, "/operator/v1/me").header("cookie", session)).await.status
    };
    let all = signed_in(json!({ "sub": "a b" })).await;
    let of_ward = signed_in(json!({ "sub": "a b", "groups": ["ward"] })).await;
    let other = signed_in(json!({ "sub": "a  b" })).await;
    for sub in ["a\u{1}b", "", "\u{e9}", &"x".repeat(256)] {
        provider.set_claims(json!({ "sub": sub }));
        sign_in(&world).await.refused(ProblemType::Unauthorized);
    }
    let sessions: Vec<Session> = world.look("/sessions?actor=oidc:a%20b").await.ok();
    assert_eq!(sessions.len(), 2);
    for wrong in ["account:ada", "", "oidc:%1b"] {
        world.look(&format!("/sessions?actor={wrong}")).await.refused(ProblemType::Malformed);
    }
    let within = world.operator_token(Role::Admin, Some("devices")).await;
    let end = world.request(Method::DELETE, "/operator/v1/sessions?actor=oidc:a%20b");
    assert_eq!(Answer::to(end.bearer_auth(within.secret.expose())).await.status, 204);
    assert_eq!([status(&all).await, status(&of_ward).await, status(&other).await], [200, 401, 200]);
    assert_eq!(world.operate(Method::DELETE, "/sessions?actor=oidc:a%20b", &json!({})).await.status, 204);
    assert_eq!([status(&all).await, status(&other).await], [401, 200]);
    let log: Page<AuditEntry> = world.look("/audit?limit=1").await.ok();
    let entry = &log.items[0];
    assert_eq!((entry.action, entry.subject.as_str()), (AuditAction::SessionsEnd, "oidc:a b"));
}
