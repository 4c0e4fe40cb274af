//! Limits of what one caller may hold or ask for: beyond each, the caller is refused and nobody else notices.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use reqwest::{Method, Response};
use serde_json::json;
use tributary_protocol::device::CheckInResponse;
use tributary_protocol::digest::repr_digest;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{Phase, Role};
use tributary_server::db::Db;
use tributary_server::guard::Limits;

use crate::support::{Answer, Device, WEIGHTS, World, delta_file, figures, within_reason};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

/// A world whose coordinator has these limits.
async fn limited(limits: Limits) -> World {
    let mut world = World::start().await;
    world.set_limits(limits);
    world.restart().await;
    world
}

async fn reached(world: &World, limit: &str) -> u64 {
    let text = world.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let line = format!("tributary_limits_reached_total{{limit=\"{limit}\"}} ");
    text.lines().find_map(|found| found.strip_prefix(&line)).unwrap().parse().unwrap()
}

/// Goal: a client has one held check-in, however many it sends, and the newest counts.
#[tokio::test]
async fn of_two_thousand_held_check_ins_of_one_client_one_is_held() {
    const AT_ONCE: usize = 50;
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 2 } })).await;
    let [greedy, honest] = world.devices().await;
    let mut held = FuturesUnordered::new();
    for _ in 0..2_000 / AT_ONCE {
        held.extend((0..AT_ONCE).map(|_| greedy.wait()));
        while held.len() > 1 {
            let replaced = within_reason(held.next()).await.unwrap().unwrap();
            assert!(matches!(replaced, CheckInResponse::Retry { .. }), "{replaced:?}");
        }
        assert_eq!(world.app().fleet.lobby.len(), 1);
    }
    assert_eq!(reached(&world, "held_per_client").await, 1_999);
    let honest_waits = honest.wait();
    world.until_waiting(2).await;
    world.drive().await;
    let answers = [held.next().await.unwrap(), honest_waits.await];
    for (device, answer) in [&greedy, &honest].into_iter().zip(answers) {
        let CheckInResponse::Assigned(work) = answer.unwrap() else { panic!("the newest check-in is drawn") };
        device.contribute(&work, &STEP, 10).await;
    }
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_client_that_asks_too_often_waits_and_the_others_do_not() {
    let world = limited(Limits { requests_per_minute: 30, ..Limits::default() }).await;
    let job = world.job(json!({ "round": { "updates_goal": 1, "updates_min": 1 } })).await;
    let [eager, honest] = world.devices().await;
    let ask = async || Answer::to(eager.request(Method::POST, "/checkins").json(&eager.check_in_request(0))).await;
    for _ in 0..30 {
        assert_eq!(ask().await.status, 200);
    }
    let refused = ask().await;
    assert_eq!(refused.refused(ProblemType::TooManyRequests).retry_after_ms, Some(2_000));
    assert_eq!(reached(&world, "requests_per_client").await, 1);
    let [work] = world.assign([&honest]).await;
    honest.contribute(&work, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.hand.advance_ms(2_000);
    assert_eq!(ask().await.status, 200);
    ask().await.refused(ProblemType::TooManyRequests);
    // The clock is corrected by a day.
    world.hand.advance_ms(-86_400_000);
    assert_eq!(ask().await.status, 200);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn one_address_holds_so_many_check_ins_and_another_one_still_waits_for_work() {
    let mut world = World::start().await;
    world.set_behind_proxy(true);
    world.set_limits(Limits { held_per_address: 2, ..Limits::default() });
    world.restart().await;
    let job = world.job(json!({ "round": { "updates_goal": 3, "updates_min": 3 } })).await;
    let [a, b, c, d]: [Device; 4] = world.devices().await;
    let wait = |device: &Device, address: &str| {
        let request = device.request(Method::POST, "/checkins").header("x-forwarded-for", address);
        tokio::spawn(Answer::to(request.json(&device.check_in_request(60_000))))
    };
    let mut held = vec![wait(&a, "203.0.113.7"), wait(&b, "203.0.113.7")];
    world.until_waiting(2).await;
    let refused = wait(&c, "203.0.113.7").await.unwrap().refused(ProblemType::TooManyRequests);
    assert!(refused.retry_after_ms.is_some());
    assert_eq!(reached(&world, "held_per_address").await, 1);
    held.push(wait(&d, "203.0.113.8"));
    world.until_waiting(3).await;
    world.drive().await;
    for (device, held) in [&a, &b, &d].into_iter().zip(held) {
        let CheckInResponse::Assigned(work) = held.await.unwrap().ok() else { panic!("all three are drawn") };
        device.contribute(&work, &STEP, 10).await;
    }
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    // Their places are free again.
    let again = wait(&c, "203.0.113.7");
    world.until_waiting(1).await;
    world.app().fleet.lobby.call([c.id]);
    assert_eq!(again.await.unwrap().status, 200);
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn one_operator_has_so_many_feeds_and_the_others_keep_theirs() {
    let world = limited(Limits { feeds_per_operator: 2, ..Limits::default() }).await;
    let other = world.operator_token(Role::Viewer, None).await.secret.expose();
    let open = async |token: &str, path: &str| -> Response {
        let request = world.request(Method::GET, &format!("/operator/v1{path}")).bearer_auth(token);
        request.header("accept", "text/event-stream").send().await.unwrap()
    };
    let job = world.job(json!({})).await;
    let of_job = format!("/events?job={}", job.head.id);
    let first = open(&world.operator, "/feed").await;
    let second = open(&world.operator, &of_job).await;
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200));
    for path in ["/feed", &of_job] {
        assert_eq!(open(&world.operator, path).await.status().as_u16(), 429, "{path}");
    }
    let poll = world.look(&format!("{of_job}&after=1000&wait_ms=60000")).await;
    assert!(poll.refused(ProblemType::TooManyRequests).retry_after_ms.is_some());
    assert_eq!(reached(&world, "feeds_per_operator").await, 3);
    assert_eq!(open(&other, "/feed").await.status().as_u16(), 200);
    assert_eq!(world.look(&of_job).await.status, 200, "a page of events is no feed");
    drop(first);
    let freed = async { while open(&world.operator, "/feed").await.status().as_u16() != 200 {} };
    within_reason(freed).await;
}

/// Goal: what one client begins to upload and never ends takes the place of one update.
#[tokio::test]
async fn a_client_has_one_unfinished_upload() {
    const VALUES: usize = 400_000;
    let world = World::start_on_sqlite().await;
    let job = world
        .job(json!({
            "model": { "parameters": [{ "name": "w", "shape": [VALUES] }] },
            "round": { "updates_goal": 2, "updates_min": 1 },
        }))
        .await;
    let unfinished = async || {
        let Db::Sqlite { writer, .. } = &world.app().db else { panic!("a test of SQLite") };
        let sql = "select count(*) from staged_bodies where blob is null and expires_at_ms > 0";
        let (count,): (i64,) = sqlx::query_as(sql).fetch_one(&mut *writer.acquire().await.unwrap()).await.unwrap();
        count
    };
    let [bad, good] = world.devices().await;
    for round in 1..=3 {
        let [theirs, ours] = world.assign([&bad, &good]).await;
        let body = delta_file(&theirs, &vec![0.25; VALUES]);
        for begun in 1..=5_usize {
            let path = format!("/assignments/{}/update", theirs.id);
            let part = body[..begun * (100 << 10)].to_vec();
            let put = bad.request(Method::PUT, &path).query(&figures(10)).header("Upload-Complete", "?0");
            let digest = repr_digest(Sha256Hash::of(&body));
            assert_eq!(Answer::to(put.header("Repr-Digest", digest).body(part)).await.status, 204);
            assert_eq!(unfinished().await, 1);
        }
        good.contribute(&ours, &vec![0.25; VALUES], 10).await;
        world.pass_ms(10_000).await;
        assert_eq!(world.round(job.head.id, round).await.phase, Phase::Committed);
        assert_eq!(unfinished().await, 0, "with the round it is of no more use");
    }
    world.check_books(job.head.id).await;
}

/// Finding L4: acknowledged updates went into a file without a name.
#[cfg(unix)]
#[tokio::test]
async fn a_database_file_that_was_moved_or_replaced_takes_nothing_until_it_is_back() {
    let world = World::start_on_sqlite().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [work] = world.assign([&device]).await;
    let (path, aside) = (world.database(), format!("{}.aside", world.database()));
    let ready = async || {
        // An answer is used again for a second.
        world.hand.advance_ms(1_000);
        Answer::to(world.request(Method::GET, "/readyz")).await
    };
    assert_eq!(ready().await.status, 200);
    std::fs::rename(&path, &aside).unwrap();
    for replacement in [None, Some("another database")] {
        if let Some(text) = replacement {
            std::fs::write(&path, text).unwrap();
        }
        ready().await.refused(ProblemType::Unavailable);
        let body = delta_file(&work, &STEP);
        let refused = device.put_update(work.id, &figures(10), body).await.refused(ProblemType::Unavailable);
        assert!(refused.retry_after_ms.is_some(), "{replacement:?}");
    }
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(ready().await.status, 200);
    device.contribute(&work, &STEP, 10).await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    world.check_books(job.head.id).await;
}
