//! Secure aggregation in buffered and stale-synchronous jobs: groups of several versions, groups that outlast a
//! version, and clients that wait for others who are drawn later.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_client::{AlwaysOn, Client, Outcome};
use tributary_engine::privacy::spent_by;
use tributary_protocol::operator::{Job, JobPrivacyState, RoundDetail, check_ledger};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AssignmentState, GroupFailure, GroupStage, JobState, Phase};
use tributary_server::db::Db;

use super::buffered::buffered;
use super::masked::{CLIENTS, CLIP, LEVELS, Seat, Signing, delta};
use super::signed::signing;
use crate::support::{Adds, Authority, Device, World, draw_everybody, http, postgres};

/// A masked job with this mode, whose groups have five members.
fn masked(mode: &Value, changes: &Value) -> Value {
    let mut all = json!({
        "aggregation": { "combine": "uniform_mean" },
        "secure_aggregation": { "clip": CLIP, "levels": LEVELS, "group": CLIENTS, "group_min": 3 },
    });
    all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let mut file = buffered(mode, &all);
    file.as_object_mut().unwrap().remove("update");
    file
}

/// Buffers of five updates.
fn buffer(concurrency: u32) -> Value {
    json!({ "buffer": CLIENTS, "concurrency": concurrency, "staleness_weight": { "kind": "constant" } })
}

async fn start(world: &World, concurrency: u32) -> Job {
    world.create_job(&masked(&buffer(concurrency), &json!({}))).await.ok()
}

/// Devices whose SDK knows groups of several versions.
async fn devices<const N: usize>(world: &World) -> [Device; N] {
    world.devices().await.map(|device: Device| device.able(&["first", "feature:masking_any_version"]))
}

/// Seats of these devices, all of which are drawn. Their places begin at `first`.
async fn seated(world: &World, devices: &[&Device], first: usize) -> Vec<Seat> {
    let work = world.gather(devices).await;
    // The updates of the first places are within the clip.
    let seats = devices.iter().zip(work).zip((first..).map(|place| place % CLIENTS));
    seats.map(|((device, work), place)| Seat::new((*device).clone(), work.unwrap(), place)).collect()
}

/// The members of a group join and share.
async fn form(world: &World, seats: &mut [Seat]) {
    let shares = world.driven(join_all(seats.iter_mut().map(Seat::join))).await;
    world.driven(join_all(seats.iter_mut().zip(shares).map(|(seat, shares)| seat.share(shares)))).await;
}

/// They send their updates and open the sum.
async fn finish(world: &World, seats: &mut [Seat]) {
    world.driven(join_all(seats.iter_mut().map(Seat::send))).await;
    open(world, seats).await;
}

async fn open(world: &World, seats: &mut [Seat]) {
    let opening = world.driven(join_all(seats.iter_mut().map(Seat::survive))).await;
    for (seat, unmask) in seats.iter().zip(opening) {
        seat.taken(Method::PUT, "/unmask", unmask).await;
    }
    world.drive().await;
}

async fn detail(world: &World, job: &Job, round: u32) -> RoundDetail {
    world.look(&format!("/jobs/{}/rounds/{round}", job.head.id)).await.ok()
}

/// What a query counts.
async fn rows(world: &World, sql: &'static str) -> i64 {
    match &world.app().db {
        Db::Sqlite { writer, .. } => {
            sqlx::query_scalar(sql).fetch_one(&mut *writer.acquire().await.unwrap()).await.unwrap()
        }
        Db::Postgres { pool, .. } => sqlx::query_scalar(sql).fetch_one(pool).await.unwrap(),
    }
}

/// Checks that a version is the one before and the mean of the updates of these places.
async fn check_step(world: &World, job: &Job, version: u32, members: &[usize]) {
    let (before, after) = (world.weights(job.head.id, version - 1).await, world.weights(job.head.id, version).await);
    for (index, (before, after)) in before.iter().zip(&after).enumerate() {
        let mean = members.iter().map(|place| delta(*place)[index]).sum::<f32>() / members.len() as f32;
        assert!((after - before - mean).abs() < 1e-3, "version {version}: {} instead of {mean}", after - before);
    }
    world.check_books(job.head.id).await;
}

/// Goal: clients that have trained different versions are one group, whose sum counts in full. Method: of eight at work
/// five make a version; the other three and two that are drawn afterwards make the next one.
async fn members_may_have_trained_different_versions(world: World) {
    let job = start(&world, 8).await;
    let devices = devices::<8>(&world).await;
    let mut seats = seated(&world, &devices.iter().collect::<Vec<_>>(), 0).await;
    assert!(seats[0].assignment.plan.masking.unwrap().any_version);
    let mut late = seats.split_off(CLIENTS);
    form(&world, &mut seats).await;
    finish(&world, &mut seats).await;
    check_step(&world, &job, 1, &[0, 1, 2, 3, 4]).await;

    late.extend(seated(&world, &[&devices[0], &devices[1]], 8).await);
    let versions: Vec<u32> = late.iter().map(|seat| seat.assignment.model_version).collect();
    assert_eq!(versions, [0, 0, 0, 1, 1]);
    form(&world, &mut late).await;
    finish(&world, &mut late).await;
    check_step(&world, &job, 2, &[0, 1, 2, 3, 4]).await;
    let RoundDetail { round, groups, .. } = detail(&world, &job, 2).await;
    assert_eq!((round.phase, round.reported, groups.len()), (Phase::Committed, 5, 1));
    let kept = round.buffer.unwrap();
    assert_eq!((kept.staleness_mean, kept.lost_weight), (Some(0.6), 0.0), "three of five are one version behind");
}

#[tokio::test]
async fn members_may_have_trained_different_versions_on_sqlite() {
    members_may_have_trained_different_versions(World::start_on_sqlite().await).await;
}

#[tokio::test]
async fn members_may_have_trained_different_versions_on_postgres() {
    let Some(database) = postgres().await else { return };
    members_may_have_trained_different_versions(World::start_on(database).await).await;
}

/// Goal: a group outlasts the version that another one makes, at each stage, also through a restart: nothing that came
/// is deleted with the updates of the version. Method: two groups of five; the second one is at this stage when the
/// first one fills the buffer, and its model is too old for the next version.
async fn a_group_outlasts_a_version(stage: GroupStage, mut world: World) {
    let mode = json!({
        "buffer": CLIENTS, "concurrency": 10, "staleness_max": 0, "staleness_weight": { "kind": "constant" },
    });
    let job: Job = world.create_job(&masked(&mode, &json!({}))).await.ok();
    let devices = devices::<10>(&world).await;
    let mut first = seated(&world, &devices.iter().collect::<Vec<_>>(), 0).await;
    let mut second = first.split_off(CLIENTS);
    form(&world, &mut first).await;
    let shares = world.driven(join_all(second.iter_mut().map(Seat::join))).await;
    let share = async |world: &World, second: &mut [Seat], shares: Vec<Vec<u8>>| {
        world.driven(join_all(second.iter_mut().zip(shares).map(|(seat, shares)| seat.share(shares)))).await;
    };
    if stage > GroupStage::Sharing {
        share(&world, &mut second, shares.clone()).await;
    }
    if stage > GroupStage::Masking {
        world.driven(join_all(second.iter_mut().map(Seat::send))).await;
        second[4].give_up().await;
    }
    finish(&world, &mut first).await;
    check_step(&world, &job, 1, &[0, 1, 2, 3, 4]).await;
    world.restart().await;
    world.drive().await;
    let RoundDetail { round, groups, .. } = detail(&world, &job, 2).await;
    assert_eq!((round.phase, groups.len(), groups[0].stage), (Phase::Training, 1, stage), "{groups:?}");
    if stage == GroupStage::Sharing {
        share(&world, &mut second, shares).await;
    }
    let updates = match stage > GroupStage::Masking {
        true => 4,
        false => 5,
    };
    if stage > GroupStage::Masking {
        second.truncate(4);
        open(&world, &mut second).await;
    } else {
        finish(&world, &mut second).await;
    }
    let RoundDetail { round, groups, .. } = detail(&world, &job, 2).await;
    assert_eq!((round.reported, groups[0].stage), (updates, GroupStage::Summed));
    if updates == 5 {
        check_step(&world, &job, 2, &[0, 1, 2, 3, 4]).await;
    }
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn a_group_that_shares_outlasts_a_version() {
    a_group_outlasts_a_version(GroupStage::Sharing, World::start().await).await;
}

#[tokio::test]
async fn a_group_that_masks_outlasts_a_version() {
    a_group_outlasts_a_version(GroupStage::Masking, World::start().await).await;
}

#[tokio::test]
async fn a_group_that_opens_its_sum_outlasts_a_version() {
    a_group_outlasts_a_version(GroupStage::Unmasking, World::start().await).await;
}

#[tokio::test]
async fn a_group_outlasts_a_version_on_postgres() {
    let Some(database) = postgres().await else { return };
    a_group_outlasts_a_version(GroupStage::Unmasking, World::start_on(database).await).await;
}

/// Goal: those that wait are not left out while others can be drawn; who runs out of time ends alone. A group gives its
/// members the time of its stages. Method: two wait, one of them so long that its own time ends; three that are drawn
/// later find the other one. The deadline of an assignment is 10 s.
#[tokio::test]
async fn who_waits_finds_others_that_are_drawn_later() {
    let world = World::start().await;
    let job = start(&world, 5).await;
    let devices = devices::<5>(&world).await;
    let mut early = seated(&world, &[&devices[0]], 0).await;
    world.pass_ms(4_000).await;
    let mut next = seated(&world, &[&devices[1]], 1).await;
    let (one, two) = (early.remove(0), next.remove(0));
    let waits = [&one, &two].map(|seat| {
        let join = seat.device.request(Method::PUT, &format!("/assignments/{}/group", seat.assignment.id));
        tokio::spawn(join.body(seat.member.request()).send())
    });
    let mut changes = world.app().signals.watch();
    while rows(&world, "select count(*) from secure_members").await < 2 {
        changes.changed().await.unwrap();
    }
    world.pass_ms(5_900).await;
    assert_eq!(world.assignments(job.head.id, 1).await.len(), 2, "nobody is left out");
    let health = world.job_now(job.head.id).await.health;
    let told = "2 clients have finished and wait for others: a group has 3 members at least";
    assert!(health.iter().any(|line| line.text == told), "{health:?}");
    world.pass_ms(200).await;
    let states = async |id| {
        let all = world.assignments(job.head.id, 1).await;
        all.iter().find(|assignment| assignment.id == id).unwrap().state
    };
    assert_eq!(states(one.assignment.id).await, AssignmentState::Expired, "its own time is over");
    assert_eq!(states(two.assignment.id).await, AssignmentState::Assigned);
    let mut seats = seated(&world, &[&devices[2], &devices[3], &devices[4]], 2).await;
    seats.insert(0, two);
    let shares = world.driven(join_all(seats.iter_mut().map(Seat::join))).await;
    let told = join_all(waits).await.into_iter().map(|answer| answer.unwrap().unwrap().status());
    assert_eq!(told.collect::<Vec<_>>(), [StatusCode::GONE, StatusCode::OK]);
    // Its assignment would have ended by now.
    world.pass_ms(9_000).await;
    world.driven(join_all(seats.iter_mut().zip(shares).map(|(seat, shares)| seat.share(shares)))).await;
    finish(&world, &mut seats).await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reported), (Phase::Training, 4), "the buffer has room for one more");
    world.check_books(job.head.id).await;
}

/// Goal: a client that is drawn twice into a buffer signs with the same certificate in both groups.
#[tokio::test]
async fn a_client_signs_again_in_the_same_buffer() {
    let (world, authority) = (World::start().await, Authority::new());
    let mode = json!({
        "buffer": 10, "concurrency": CLIENTS, "staleness_weight": { "kind": "constant" }, "per_client": 2,
    });
    let mut file = masked(&mode, &json!({}));
    file["secure_aggregation"]["peers_ca"] = authority.pem().into();
    let job: Job = world.create_job(&file).await.ok();
    let devices = devices::<CLIENTS>(&world).await;
    let mut keys: Vec<Signing> = devices.iter().map(|_| signing(&authority)).collect();
    for reported in [5, 10] {
        let unsigned = seated(&world, &devices.iter().collect::<Vec<_>>(), 0).await;
        let seats = unsigned.into_iter().zip(keys.drain(..));
        let mut seats: Vec<Seat> =
            seats.map(|(seat, keys)| Seat::signing(seat.device, seat.assignment, seat.place, Some(keys))).collect();
        form(&world, &mut seats).await;
        finish(&world, &mut seats).await;
        assert_eq!(world.round(job.head.id, 1).await.reported, reported);
        keys.extend(seats.iter_mut().filter_map(|seat| seat.signing.take()));
    }
    check_step(&world, &job, 1, &[0, 1, 2, 3, 4]).await;
}

/// Goal: the end of a job leaves no secret. Method: a job of one version, with a group open when it is made.
#[tokio::test]
async fn the_groups_that_are_open_at_the_end_of_a_job_end() {
    let world = World::start().await;
    let job: Job = world.create_job(&masked(&buffer(10), &json!({ "stop": { "rounds": 1 } }))).await.ok();
    let devices = devices::<10>(&world).await;
    let mut first = seated(&world, &devices.iter().collect::<Vec<_>>(), 0).await;
    let mut second = first.split_off(CLIENTS);
    form(&world, &mut first).await;
    form(&world, &mut second).await;
    world.driven(join_all(second.iter_mut().map(Seat::send))).await;
    finish(&world, &mut first).await;
    assert_eq!(world.job_now(job.head.id).await.head.state, JobState::Completed);
    let RoundDetail { round, groups, .. } = detail(&world, &job, 1).await;
    assert_eq!((round.reported, round.expired, round.spare), (5, 5, 5), "the job ended without them");
    let failed: Vec<_> = groups.iter().filter(|group| group.stage == GroupStage::Failed).collect();
    assert_eq!((failed.len(), failed[0].reason), (1, Some(GroupFailure::RoundEnded)));
    for seat in &second {
        assert_eq!(seat.call(Method::GET, "/survivors", Vec::new()).await.0, StatusCode::GONE);
    }
    assert_eq!(rows(&world, "select count(*) from secure_shares").await, 0);
    assert_eq!(rows(&world, "select count(*) from blob_chunks where blob not like 'model/%'").await, 0);
}

/// Goal: the members of a stale-synchronous job are groups, too; each sum moves the clocks of its survivors on.
#[tokio::test]
async fn members_with_clocks_form_groups() {
    let world = World::start().await;
    let mode = json!({ "kind": "stale_synchronous", "members": CLIENTS, "slack": 1 });
    let job: Job = world.create_job(&masked(&mode, &json!({}))).await.ok();
    let devices = devices::<CLIENTS>(&world).await;
    let all: Vec<&Device> = devices.iter().collect();
    for (version, first) in [(1, 0), (2, 5)] {
        let mut seats = seated(&world, &all, first).await;
        if version == 2 {
            let gone = seats.pop().unwrap();
            gone.give_up().await;
        }
        form(&world, &mut seats).await;
        finish(&world, &mut seats).await;
        let members: Vec<usize> = seats.iter().map(|seat| seat.place).collect();
        check_step(&world, &job, version, &members).await;
        let clocks = detail(&world, &job, version + 1).await.clocks;
        assert!(clocks.iter().all(|member| member.clock == version), "{clocks:?}");
        assert_eq!(clocks.len(), members.len(), "who gave up is no member any more");
    }
}

/// Goal: noise of the clients goes with buffers; each sum is charged, and the ledger verifies.
#[tokio::test]
async fn noise_of_the_clients_goes_with_buffers() {
    const NOISE: f64 = 1.5;
    const DELTA: f64 = 1e-6;
    let world = World::start().await;
    let mut file = masked(&buffer(5), &json!({ "stop": { "rounds": 20 } }));
    file["model"] = json!({ "parameters": [{ "name": "w", "shape": [20_000] }] });
    file["secure_aggregation"] = json!({ "levels": 64, "group": CLIENTS, "group_min": 5 });
    file["privacy"] = json!({
        "epsilon": 50.0, "delta": DELTA, "mechanism": "distributed", "noise_multiplier": NOISE, "clip": 0.5,
        "participations_max": 4, "separation": 1,
    });
    let job: Job = world.create_job(&file).await.ok();
    let folders: Vec<TempDir> = (0..CLIENTS).map(|_| TempDir::new().unwrap()).collect();
    let mut clients = Vec::new();
    for folder in &folders {
        let client = Client::builder(world.server(), world.enrolment.clone()).state_dir(folder.path());
        let client = client.http_client(http()).wait(Duration::ZERO).build().unwrap();
        client.run_once(&mut Adds::new(0.0), &AlwaysOn).await.unwrap();
        clients.push(client);
    }
    for _ in 1..=2 {
        draw_everybody(&world).await;
        let sessions = clients.iter().map(async |client| client.run_once(&mut Adds::new(0.0), &AlwaysOn).await);
        for outcome in world.driven(join_all(sessions)).await {
            assert!(matches!(outcome, Ok(Outcome::Contributed { .. })), "{outcome:?}");
        }
        world.drive().await;
    }
    let (first, second) = (world.weights(job.head.id, 1).await, world.weights(job.head.id, 2).await);
    let square: f64 = first.iter().zip(&second).map(|(a, b)| f64::from(b - a).powi(2)).sum();
    let deviation = (square / first.len() as f64).sqrt();
    // Five add noise of which three are counted on.
    let wanted = NOISE * 0.5 * (5.0f64 / 4.0).sqrt() / 5.0;
    assert!((deviation / wanted - 1.0).abs() < 0.03, "{deviation} is not {wanted}");
    let state: JobPrivacyState = world.look(&format!("/jobs/{}/privacy", job.head.id)).await.ok();
    let privacy = state.privacy.unwrap();
    assert_eq!(check_ledger(&privacy.ledger), Ok(()));
    let of: Vec<_> = privacy.ledger.iter().map(|entry| (entry.round, entry.participations)).collect();
    assert_eq!(of, [(1, 1), (2, 2)]);
    assert_eq!(privacy.spent.unwrap(), spent_by(&privacy.ledger, DELTA).unwrap());
    world.check_books(job.head.id).await;
}

#[tokio::test]
async fn what_does_not_go_with_groups_of_several_versions_is_refused_with_what_to_set() {
    let world = World::start().await;
    let refused = async |mode: Value, changes: Value| {
        world.create_job(&masked(&mode, &changes)).await.refused(ProblemType::JobFileInvalid).detail
    };
    let moving = refused(buffer(8), json!({ "secure_aggregation": { "group": CLIENTS } })).await;
    assert!(moving.contains("a clip that moves") && moving.contains("set a number as the clip"), "{moving}");
    let weighed = refused(json!({ "buffer": CLIENTS, "concurrency": 8 }), json!({})).await;
    assert!(weighed.contains("staleness_weight") && weighed.contains("\"constant\""), "{weighed}");
    let few = refused(buffer(4), json!({})).await;
    assert!(few.contains("[round] mode concurrency") && few.contains("at least group"), "{few}");
    let small = refused(
        json!({ "buffer": 2, "concurrency": 8, "staleness_weight": { "kind": "constant" } }),
        json!({ "secure_aggregation": { "clip": CLIP } }),
    );
    let small = small.await;
    assert!(small.contains("[round] mode buffer") && small.contains("at least group_min"), "{small}");
}
