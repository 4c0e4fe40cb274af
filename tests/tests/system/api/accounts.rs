//! People who sign in with a password: sessions, their protection and their end.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tributary_protocol::operator::{Account, AuditEntry, Page, REQUESTED_BY, Session, SignedIn};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::Role;

use crate::support::{Answer, NOW_MS, World};

const PASSWORD: &str = "correct horse battery";
const HOUR_MS: i64 = 3_600_000;

/// A world with the account `ada`.
async fn world(role: &str) -> World {
    let world = World::start().await;
    let wanted = json!({ "name": "ada", "role": role, "password": PASSWORD });
    let account: Account = world.operate(Method::POST, "/accounts", &wanted).await.ok();
    assert_eq!((account.name.as_str(), account.role.as_str(), account.created_at_ms), ("ada", role, NOW_MS));
    world
}

/// What a browser adds to the requests of a page's own script.
fn from_own_page(request: RequestBuilder) -> RequestBuilder {
    request.header(REQUESTED_BY, "dashboard").header("sec-fetch-site", "same-origin")
}

async fn sign_in(world: &World, account: &str, password: &str) -> Answer {
    let request = world.request(Method::POST, "/operator/v1/login");
    Answer::to(from_own_page(request).json(&json!({ "account": account, "password": password }))).await
}

/// The pair of name and value of the cookie that an answer sets.
fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

struct Browser<'a> {
    world: &'a World,
    cookie: String,
}

impl<'a> Browser<'a> {
    async fn signed_in(world: &'a World) -> Self {
        let answer = sign_in(world, "ada", PASSWORD).await;
        assert_eq!(answer.status, 200);
        Self { world, cookie: cookie(&answer) }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.world.request(method, &format!("/operator/v1{path}")).header("cookie", &self.cookie)
    }

    async fn call(&self, method: Method, path: &str, body: &Value) -> Answer {
        Answer::to(from_own_page(self.request(method, path)).json(body)).await
    }

    async fn look(&self, path: &str) -> Answer {
        Answer::to(self.request(Method::GET, path)).await
    }
}

#[tokio::test]
async fn a_person_signs_in_acts_by_role_and_signs_out() {
    let world = world("operator").await;
    let job = world.job(json!({})).await;
    let answer = sign_in(&world, "ada", PASSWORD).await;
    let who: SignedIn = answer.ok();
    assert_eq!((who.actor.as_str(), who.name.as_str(), who.role), ("account:ada", "ada", Role::Operator));
    assert_eq!((who.population.clone(), who.expires_at_ms), (None, Some(NOW_MS + 12 * HOUR_MS)));
    let set = answer.header("set-cookie");
    assert!(set.starts_with("tributary_session=") && set.contains("; HttpOnly; SameSite=Strict"), "{set}");
    assert!(!set.contains("Secure"), "plain HTTP on the loopback address");
    assert_eq!(answer.header("cache-control"), "no-store");

    let browser = Browser { world: &world, cookie: cookie(&answer) };
    assert_eq!(browser.look("/me").await.ok::<SignedIn>(), who);
    browser.call(Method::POST, &format!("/jobs/{}/pause", job.head.id), &json!({})).await.value();
    browser.call(Method::POST, "/populations", &json!({ "name": "new" })).await.refused(ProblemType::Forbidden);
    browser.look("/accounts").await.refused(ProblemType::Forbidden);
    let log: Page<AuditEntry> = world.look("/audit?limit=20").await.ok();
    let pause = log.items.iter().find(|entry| entry.action.as_str() == "job.pause").unwrap();
    assert_eq!((pause.actor.as_str(), pause.label.as_str()), ("account:ada", "ada"));

    let out = browser.call(Method::POST, "/logout", &json!({})).await;
    assert_eq!((out.status, out.header("set-cookie").contains("Max-Age=0")), (204, true));
    browser.look("/me").await.refused(ProblemType::Unauthorized);
}

/// Goal: an answer does not show whether an account exists.
#[tokio::test]
async fn unknown_revoked_and_mistyped_have_the_same_answer() {
    let world = world("viewer").await;
    let gone = json!({ "name": "gone", "role": "viewer", "password": PASSWORD });
    world.operate(Method::POST, "/accounts", &gone).await.value();
    assert_eq!(world.operate(Method::DELETE, "/accounts/gone", &json!({})).await.status, 204);
    let mut answers = Vec::new();
    for (account, password) in
        [("ada", "correct horse batterz"), ("nobody", PASSWORD), ("gone", PASSWORD), ("a b", PASSWORD), ("", "")]
    {
        let answer = sign_in(&world, account, password).await;
        let mut problem = answer.refused(ProblemType::Unauthorized);
        problem.request_id = None;
        let names: Vec<_> = answer.headers.keys().map(ToString::to_string).collect();
        answers.push((problem, names));
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    let weak = json!({ "name": "weak", "role": "viewer", "password": "short" });
    world.operate(Method::POST, "/accounts", &weak).await.refused(ProblemType::Malformed);
    let again = json!({ "name": "gone", "role": "admin", "password": PASSWORD });
    world.operate(Method::POST, "/accounts", &again).await.refused(ProblemType::NameTaken);
}

#[tokio::test]
async fn attempts_are_limited_also_for_accounts_that_do_not_exist() {
    let world = world("viewer").await;
    for account in ["ada", "nobody"] {
        for _ in 0..5 {
            sign_in(&world, account, "wrong wrong wrong").await.refused(ProblemType::Unauthorized);
        }
        let refused = sign_in(&world, account, PASSWORD).await.refused(ProblemType::TooManyRequests);
        assert_eq!(refused.retry_after_ms, Some(15 * 60_000));
    }
    world.hand.advance_ms(15 * 60_000);
    assert_eq!(sign_in(&world, "ada", PASSWORD).await.status, 200);
}

/// Goal: a page of another site can do nothing with the cookie of a browser.
#[tokio::test]
async fn another_sites_page_cannot_use_the_session() {
    let world = world("admin").await;
    let browser = Browser::signed_in(&world).await;
    let create = || browser.request(Method::POST, "/populations").json(&json!({ "name": "new" }));
    for forged in [
        create(),
        create().header("sec-fetch-site", "same-origin"),
        create().header(REQUESTED_BY, "x"),
        create().header(REQUESTED_BY, "x").header("sec-fetch-site", "cross-site"),
        create().header(REQUESTED_BY, "x").header("sec-fetch-site", "same-site"),
        create().header(REQUESTED_BY, "x").header("origin", "https://evil.example"),
        create().header(REQUESTED_BY, "x").header("origin", "null"),
        browser.request(Method::GET, "/jobs").header("sec-fetch-site", "cross-site"),
        world.request(Method::POST, "/operator/v1/login").json(&json!({ "account": "ada", "password": PASSWORD })),
    ] {
        Answer::to(forged).await.refused(ProblemType::Forbidden);
    }
    let own = create().header(REQUESTED_BY, "x").header("origin", world.server());
    assert_eq!(Answer::to(own).await.status, 201, "an old browser names the origin only");
    // A token is not sent by a browser on its own, so its requests need none of this.
    world.operate(Method::POST, "/populations", &json!({ "name": "newer" })).await.value();
    // A proxy's own password is none of the coordinator's business.
    browser.request(Method::GET, "/me").basic_auth("a", Some("b")).send().await.unwrap().error_for_status().unwrap();
    // A token counts before a cookie.
    let both = browser.request(Method::GET, "/me").bearer_auth(&world.operator);
    assert!(Answer::to(both).await.ok::<SignedIn>().actor.starts_with("token_"));
}

#[tokio::test]
async fn sessions_end_by_time_and_by_disuse() {
    let world = world("viewer").await;
    let (used, idle) = (Browser::signed_in(&world).await, Browser::signed_in(&world).await);
    for _ in 0..11 {
        world.hand.advance_ms(HOUR_MS);
        used.look("/me").await.value();
    }
    idle.look("/me").await.refused(ProblemType::Unauthorized);
    world.hand.advance_ms(HOUR_MS - 1);
    used.look("/me").await.value();
    world.hand.advance_ms(1);
    used.look("/me").await.refused(ProblemType::Unauthorized);
}

/// Goal: all sessions of an account end at once, whoever wants it.
#[tokio::test]
async fn all_sessions_of_an_account_end_together() {
    let world = world("viewer").await;
    for (method, path, body, by_ada) in [
        (Method::POST, "/logout-everywhere", json!({}), true),
        (Method::DELETE, "/accounts/ada/sessions", json!({}), false),
        (Method::PUT, "/accounts/ada/password", json!({ "password": PASSWORD }), false),
        (Method::DELETE, "/accounts/ada", json!({}), false),
    ] {
        let browsers = [Browser::signed_in(&world).await, Browser::signed_in(&world).await];
        let sessions: Vec<Session> = world.look("/accounts/ada/sessions").await.ok();
        assert_eq!(sessions.len(), 2, "{path}");
        let answer = match by_ada {
            true => browsers[0].call(method, path, &body).await,
            false => world.operate(method, path, &body).await,
        };
        assert_eq!(answer.status, 204, "{path}");
        for browser in &browsers {
            browser.look("/me").await.refused(ProblemType::Unauthorized);
        }
        let sessions: Vec<Session> = world.look("/accounts/ada/sessions").await.ok();
        assert!(sessions.is_empty(), "{path}");
    }
    sign_in(&world, "ada", PASSWORD).await.refused(ProblemType::Unauthorized);
    let accounts: Page<Account> = world.look("/accounts").await.ok();
    assert_eq!(accounts.items[0].revoked_at_ms, Some(NOW_MS));
    let change = json!({ "password": PASSWORD });
    world.operate(Method::PUT, "/accounts/ada/password", &change).await.refused(ProblemType::WrongState);
    world.operate(Method::POST, "/logout", &json!({})).await.refused(ProblemType::WrongState);
}

#[tokio::test]
async fn a_changed_password_replaces_the_old_one() {
    let world = world("viewer").await;
    let change = json!({ "password": "another horse battery" });
    assert_eq!(world.operate(Method::PUT, "/accounts/ada/password", &change).await.status, 204);
    sign_in(&world, "ada", PASSWORD).await.refused(ProblemType::Unauthorized);
    assert_eq!(sign_in(&world, "ada", "another horse battery").await.status, 200);
    world.operate(Method::PUT, "/accounts/nobody/password", &change).await.refused(ProblemType::NotFound);
}

#[tokio::test]
async fn a_stream_of_a_session_ends_with_it() {
    let world = world("viewer").await;
    let browser = Browser::signed_in(&world).await;
    let mut feed = browser.request(Method::GET, "/feed").send().await.unwrap();
    assert_eq!(feed.status().as_u16(), 200);
    browser.call(Method::POST, "/logout", &json!({})).await;
    world.hand.advance_ms(5_000);
    while crate::support::within_reason(feed.chunk()).await.unwrap().is_some() {}
}

/// Goal: what a proxy says counts where the coordinator is told of one, and nowhere else.
#[tokio::test]
async fn a_proxys_headers_count_only_where_there_is_a_proxy() {
    let mut world = world("viewer").await;
    let sign_in_through = async |world: &World, password: &str, address: &str| {
        let request = from_own_page(world.request(Method::POST, "/operator/v1/login"));
        let request = request.header("x-forwarded-proto", "https").header("x-forwarded-for", address);
        Answer::to(request.json(&json!({ "account": "ada", "password": password }))).await
    };
    let plain = sign_in_through(&world, PASSWORD, "192.0.2.1").await;
    assert!(plain.header("set-cookie").starts_with("tributary_session="), "anybody can send these headers");
    for last in 0..5 {
        sign_in_through(&world, "wrong wrong wrong", &format!("192.0.2.{last}")).await;
    }
    sign_in_through(&world, PASSWORD, "192.0.2.9").await.refused(ProblemType::TooManyRequests);

    world.set_behind_proxy(true);
    world.restart().await;
    for _ in 0..5 {
        sign_in_through(&world, "wrong wrong wrong", "203.0.113.5, 192.0.2.1").await;
    }
    sign_in_through(&world, PASSWORD, "203.0.113.6, 192.0.2.1").await.refused(ProblemType::TooManyRequests);
    let secure = sign_in_through(&world, PASSWORD, "192.0.2.1, 192.0.2.2").await;
    let set = secure.header("set-cookie");
    assert!(set.starts_with("__Host-tributary_session=") && set.contains("; Secure"), "{set}");
    let sessions: Vec<Session> = world.look("/accounts/ada/sessions").await.ok();
    assert!(sessions.iter().any(|session| session.address.as_deref() == Some("192.0.2.2")));
}
