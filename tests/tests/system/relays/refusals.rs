//! What a parent refuses of relays, by name, and what it takes when a relay lost some of its clients.

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinHandle;
use tributary_protocol::device::{Assignment, CheckInResponse, EnrolResponse, ReportAccepted};
use tributary_protocol::fixed::{Contribution, Weight};
use tributary_protocol::id::AssignmentId;
use tributary_protocol::operator::Job;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, Phase};
use tributary_protocol::sum::{SumWriter, tag};

use crate::support::{Answer, Device, WEIGHTS, World, binary_point, delta_file, figures, sum_of, within_reason};

/// A client with a token that grants `relay`, which speaks by hand.
pub(super) async fn relay(world: &World) -> Device {
    let token = world.relay_token().await;
    let request = world.request(Method::POST, "/device/v1/clients").bearer_auth(token);
    let enrolled: EnrolResponse = Answer::to(request.json(&json!({}))).await.ok();
    Device::new(world.http.clone(), world.server(), &enrolled)
}

async fn offer(device: &Device, places: u32) -> Answer {
    let mut request = device.check_in_request(60_000);
    request["relay"] = json!({ "places": places });
    Answer::to(device.request(Method::POST, "/checkins").json(&request)).await
}

/// Offers places, and waits for work.
pub(super) fn offers(device: &Device, places: u32) -> JoinHandle<CheckInResponse> {
    let device = device.clone();
    tokio::spawn(async move { offer(&device, places).await.ok() })
}

pub(super) async fn drawn(offered: JoinHandle<CheckInResponse>) -> Assignment {
    match within_reason(offered).await.unwrap() {
        CheckInResponse::Assigned(assignment) => *assignment,
        retry @ CheckInResponse::Retry { .. } => panic!("no work: {retry:?}"),
    }
}

/// A round of four clients: a relay with three places, and a client.
struct Drawn {
    world: World,
    job: Job,
    relay: (Device, Assignment),
    client: (Device, Assignment),
}

impl Drawn {
    async fn new() -> Self {
        let world = World::start().await;
        let job = world.job(json!({ "round": { "updates_goal": 4, "updates_min": 2 } })).await;
        let (relay, client) = (relay(&world).await, world.device().await);
        let (offered, waits) = (offers(&relay, 3), client.wait());
        world.until_waiting(2).await;
        world.drive().await;
        let (part, work) = (drawn(offered).await, drawn(waits).await);
        assert_eq!(part.relay.as_ref().map(|terms| (terms.places, terms.cohort)), Some((3, 4)));
        assert!(work.relay.is_none());
        Self { world, job, relay: (relay, part), client: (client, work) }
    }

    /// The sum of so many updates of this weight together, all of whose values are this integer.
    fn sum(&self, updates: u32, examples: u32, value: i64) -> Vec<u8> {
        let part = &self.relay.1;
        sum_of(part, part.model_version, (updates, examples), value)
    }

    async fn send(&self, body: Vec<u8>, examples: u32) -> Answer {
        put_sum(&self.relay.0, self.relay.1.id, body, examples).await
    }
}

/// Sends a sum of zeros.
pub(super) async fn send_sum(device: &Device, part: &Assignment, updates: u32, examples: u32) -> Answer {
    put_sum(device, part.id, sum_of(part, part.model_version, (updates, examples), 0), examples).await
}

async fn put_sum(device: &Device, id: AssignmentId, body: Vec<u8>, examples: u32) -> Answer {
    let query = json!({ "examples": examples, "loss": 0.25, "steps": 9, "train_ms": 40 });
    Answer::to(device.request(Method::PUT, &format!("/assignments/{id}/sum")).query(&query).body(body)).await
}

#[tokio::test]
async fn only_a_granted_client_offers_places() {
    let world = World::start().await;
    let refused = offer(&world.device().await, 3).await;
    assert!(refused.refused(ProblemType::Forbidden).detail.contains("token create --relay"));
}

#[tokio::test]
async fn a_sum_and_an_update_are_not_taken_for_each_other() {
    let round = Drawn::new().await;
    let (relay, part) = &round.relay;
    let update = relay.put_update(part.id, &figures(10), delta_file(part, &[0.5; WEIGHTS])).await;
    assert!(update.refused(ProblemType::WrongState).detail.contains("a relay sends the sum"));
    let (client, work) = &round.client;
    let sum = put_sum(client, work.id, round.sum(1, 10, 1 << 30), 10).await;
    assert!(sum.refused(ProblemType::WrongState).detail.contains("no relay"));
    // Both can still report what they have to.
    let _: ReportAccepted = round.send(round.sum(3, 60, 1 << 30), 60).await.ok();
    let (world, job) = (&round.world, round.job.head.id);
    let (device, work) = &round.client;
    device.contribute(work, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    let done = world.round(job, 1).await;
    assert_eq!((done.phase, done.reported), (Phase::Committed, 4), "{done:?}");
    world.check_books(job).await;
}

/// A relay that brings fewer updates than it has places gives the rest back with them.
#[tokio::test]
async fn a_sum_counts_for_its_updates_and_frees_the_other_places() {
    let round = Drawn::new().await;
    let unit = 1_i64 << binary_point(&round.relay.1);
    // Of 20 and 40 examples with the values 1 and 0.25: 30 in all, in units of the sum.
    let body = round.sum(2, 60, 30 * unit);
    let _: ReportAccepted = round.send(body.clone(), 60).await.ok();
    let _: ReportAccepted = round.send(body, 60).await.ok();
    let again = round.send(round.sum(2, 60, 31 * unit), 60).await;
    assert_eq!(again.status, 409, "{again:?}");
    let (world, job) = (&round.world, round.job.head.id);
    let assignments = world.assignments(job, 1).await;
    let part = assignments.iter().find(|row| row.id == round.relay.1.id).unwrap();
    assert_eq!((part.state, part.weight), (AssignmentState::Reported, Some(60)));
    let (device, work) = &round.client;
    device.contribute(work, &[0.5; WEIGHTS], 10).await;
    world.drive().await;
    let done = world.round(job, 1).await;
    assert_eq!((done.phase, done.reported, done.failed), (Phase::Committed, 3, 1), "{done:?}");
    let moved: Vec<f32> = world.weights(job, 1).await;
    let before: Vec<f32> = world.weights(job, 0).await;
    let mean = (30.0 + 10.0 * 0.5) / 70.0;
    assert!(moved.iter().zip(&before).all(|(new, old)| (new - old - mean).abs() < 1e-6), "{moved:?} {before:?}");
    world.check_books(job).await;
}

/// The body that a relay sends in a round, and the examples that it announces.
type Sent = fn(&Drawn) -> (Vec<u8>, u32);

/// Goal: a sum that breaks a rule is refused by name and leaves no trace.
#[tokio::test]
async fn sums_that_break_a_rule_are_refused_by_name() {
    let cases: [(&str, &str, Sent); 7] = [
        ("another version", "another job, base version or binary point", |round| {
            (sum_of(&round.relay.1, 7, (2, 60), 1), 60)
        }),
        ("more updates than places", "4 updates", |round| (round.sum(4, 60, 1), 60)),
        ("more weight than its updates may have", "weight", |round| (round.sum(2, 2001, 1), 2001)),
        ("another weight than announced", "59 examples were announced", |round| (round.sum(2, 60, 1), 59)),
        ("a value beyond the caps", "value", |round| (round.sum(1, 10, i64::MAX), 10)),
        ("an end too early", "ends", |round| {
            let mut body = round.sum(2, 60, 1 << 20);
            body.pop();
            (body, 60)
        }),
        ("bytes after the end", "after", |round| {
            let mut body = round.sum(2, 60, 1 << 20);
            body.push(0);
            (body, 60)
        }),
    ];
    for (case, words, body) in cases {
        let round = Drawn::new().await;
        let (body, examples) = body(&round);
        let refused = round.send(body, examples).await;
        let detail = refused.refused(ProblemType::UpdateRejected).detail;
        assert!(detail.contains(words), "{case}: {detail}");
        round.world.drive().await;
        // The client that is left cannot bring two updates.
        let ended = round.world.round(round.job.head.id, 1).await;
        assert_eq!((ended.phase, ended.reported, ended.rejected), (Phase::Abandoned, 0, 3), "{case}: {ended:?}");
        round.world.check_books(round.job.head.id).await;
    }
}

/// Goal: a large sum is added while it arrives, and taken out again if its end breaks a rule.
#[tokio::test]
async fn a_large_sum_that_ends_badly_leaves_the_round_as_it_was() {
    const VALUES: u32 = 300_000;
    // The last value, the examples that are announced, and whether the sum is right.
    for (last, examples, is_right) in [(0, 60, true), (i64::MAX, 60, false), (0, 59, false)] {
        let world = World::start().await;
        let model = json!({ "parameters": [{ "name": "w", "shape": [VALUES] }] });
        let round = json!({ "updates_goal": 3, "updates_min": 1 });
        let job = world.job(json!({ "model": model, "round": round, "stop": { "rounds": 1 } })).await.head.id;
        let (relay, client) = (relay(&world).await, world.device().await);
        let (offered, waits) = (offers(&relay, 2), client.wait());
        world.until_waiting(2).await;
        world.drive().await;
        let (part, work) = (drawn(offered).await, drawn(waits).await);
        let binary_point = binary_point(&part);
        let (unit, contribution) = (1_i64 << binary_point, Contribution { weight: Weight::examples(60), updates: 2 });
        let mut writer = SumWriter::new(tag(&part.job, part.model_version, binary_point), contribution, VALUES);
        // Each value of both updates was 0.5, but for the last one.
        writer.push(&vec![30 * unit + 12_345; VALUES as usize - 1]);
        writer.push(&[if last == 0 { 30 * unit } else { last }]);
        let body = writer.finish().unwrap();
        assert!(body.len() > 1 << 20, "{} bytes are not stored chunk by chunk", body.len());
        let sent = put_sum(&relay, part.id, body, examples).await;
        assert_eq!(sent.status, if is_right { 200 } else { 422 }, "{sent:?}");
        client.contribute(&work, &vec![0.25; VALUES as usize], 20).await;
        world.drive().await;
        let ended = world.round(job, 1).await;
        assert_eq!((ended.phase, ended.reported), (Phase::Committed, if is_right { 3 } else { 1 }), "{ended:?}");
        let expected = if is_right { (30.0 + 20.0 * 0.25) / 80.0 } else { 0.25 };
        let [before, after] = [world.weights(job, 0).await, world.weights(job, 1).await];
        let is_near = |(new, old): (&f32, &f32)| (new - old - expected).abs() < 1e-6;
        assert!(after.iter().zip(&before).all(is_near), "{last}: {:?}", &after[..3]);
        world.check_books(job).await;
    }
}

/// A job whose rule reads single updates draws no relay, and says why.
#[tokio::test]
async fn a_relay_is_not_drawn_where_a_sum_does_not_say_enough() {
    let world = World::start().await;
    world
        .job(json!({ "aggregation": { "combine": "median" }, "round": { "updates_goal": 3, "updates_min": 3 } }))
        .await;
    let relay = relay(&world).await;
    let offered = offers(&relay, 3);
    world.until_waiting(1).await;
    world.drive().await;
    world.hand.advance_ms(60_000);
    match within_reason(offered).await.unwrap() {
        CheckInResponse::Retry { waits_for: Some(waits_for), .. } => {
            assert!(format!("{waits_for:?}").contains("the rule reads single updates"), "{waits_for:?}");
        }
        other => panic!("{other:?}"),
    }
}
