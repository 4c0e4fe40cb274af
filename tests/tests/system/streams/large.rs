//! Large models and updates: the same bits as small ones, and no trace of what was refused.

use sqlx::AssertSqlSafe;
use tributary_engine::aggregate::{Accumulator, SumCaps};
use tributary_protocol::fixed::Weight;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, AssignmentState, Phase};
use tributary_server::db::Tx;

use super::{Half, PARAMETERS, averaged, copy, delta, fold, goal, left, places, sum, until};
use crate::support::{World, delta_file, figures};

/// Goal: what is decoded, summed up and written in parts makes the same bits as the arithmetic on whole vectors.
#[tokio::test]
async fn a_large_round_makes_the_same_bits_as_whole_vectors() {
    for world in places().await {
        let job = world.job(goal(3)).await;
        let devices = world.devices::<3>().await;
        let assignments = world.assign([&devices[0], &devices[1], &devices[2]]).await;
        let caps = SumCaps { weight_max: Weight::examples(1_000), magnitude_max: 8.0, updates_max: 3 };
        let expected = Accumulator::new(PARAMETERS, caps).unwrap();
        for (number, (device, assignment)) in (0..).zip(devices.iter().zip(&assignments)) {
            let delta = delta(number);
            fold(&expected, &delta, 10 + number);
            let body = delta_file(assignment, &delta);
            device.put_update(assignment.id, &figures(10 + number), body).await.value();
            if number < 2 {
                let sum = sum(&world, job.head.id, 1);
                assert_eq!(*sum.accumulator(), expected, "folded in while it arrived");
            }
        }
        let base = world.weights(job.head.id, 0).await;
        world.drive().await;
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
        assert_eq!(world.weights(job.head.id, 1).await, averaged(&base, &expected));
        assert_eq!(left(&world).await, (0, 0), "the updates are gone");
        let round = world.round(job.head.id, 1).await;
        let model_bytes = world.model_file(job.head.id, 0).await.len() as u64;
        assert_eq!(round.traffic.raw_bytes_up, 3 * model_bytes);
        world.check_books(job.head.id).await;
    }
}

/// Goal: an update that turns out bad at its very end leaves the sum as if it had never come, bit for bit.
#[tokio::test]
async fn a_large_update_that_turns_out_bad_leaves_no_trace() {
    for world in places().await {
        let job = world.job(goal(2)).await;
        let [good, bad] = world.devices().await;
        for number in 1..=4 {
            let [first, second] = world.assign([&good, &bad]).await;
            let body = delta_file(&first, &delta(1));
            good.put_update(first.id, &figures(10), body).await.value();
            let sum = sum(&world, job.head.id, number);
            let before = copy(&sum);
            let mut spoilt = delta(2);
            spoilt[PARAMETERS - 1] = f32::NAN;
            let whole = delta_file(&second, &delta(2));
            match number {
                1 => bad.put_digested(second.id, &delta_file(&second, &spoilt)).await,
                2 => bad.put_update(second.id, &figures(10), whole[..whole.len() - 4].to_vec()).await,
                3 => bad.put_update(second.id, &figures(10), [whole, vec![0]].concat()).await,
                _ => bad.put_update(second.id, &figures(1_001), whole).await,
            }
            .refused(ProblemType::UpdateRejected);
            assert!(!sum.is_invalid());
            assert_eq!(*sum.accumulator(), before, "{number}");
            assert_eq!(left(&world).await, (0, 0));
            let round = world.round(job.head.id, number).await;
            assert_eq!((round.reported, round.rejected), (1, 1));
            world.pass_ms(10_000).await;
            world.drive().await;
            assert_eq!(world.round(job.head.id, number).await.phase, Phase::Committed);
            world.release(&bad).await;
        }
        world.check_books(job.head.id).await;
    }
}

/// Goal: a body that is not what its digest says was damaged on the way: no verdict, and it can be sent again.
#[tokio::test]
async fn a_body_with_another_digest_is_refused_and_can_be_sent_again() {
    for world in places().await {
        let job = world.job(goal(2)).await;
        let [device, other] = world.devices().await;
        let [assignment, second] = world.assign([&device, &other]).await;
        other.put_update(second.id, &figures(10), delta_file(&second, &delta(2))).await.value();
        let before = copy(&sum(&world, job.head.id, 1));
        let body = delta_file(&assignment, &delta(1));
        let mut damaged = body.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let announced = tributary_protocol::digest::repr_digest(tributary_protocol::hash::Sha256Hash::of(&body));
        let request = device.request(reqwest::Method::PUT, &format!("/assignments/{}/update", assignment.id));
        let request = request.query(&figures(10)).header("Repr-Digest", announced).body(damaged);
        crate::support::Answer::to(request).await.refused(ProblemType::DigestMismatch);
        assert_eq!(*sum(&world, job.head.id, 1).accumulator(), before);
        assert_eq!(left(&world).await, (0, 0));
        assert_eq!(world.assignments(job.head.id, 1).await[0].state, AssignmentState::Assigned);
        device.put_digested(assignment.id, &body).await.value();
        world.drive().await;
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
        world.check_books(job.head.id).await;
    }
}

#[tokio::test]
async fn a_deadline_ends_a_body_that_is_half_here() {
    for world in places().await {
        let job = world.job(goal(1)).await;
        let [slow] = world.devices().await;
        let [first] = world.assign([&slow]).await;
        let body = delta_file(&first, &delta(1));
        let half = Half::send(&world, &slow, &first, &body, body.len() / 2).await;
        let sum = sum(&world, job.head.id, 1);
        let empty = Accumulator::new(PARAMETERS, sum.accumulator().caps()).unwrap();
        until(|| *sum.accumulator() != empty).await;
        world.pass_ms(10_000).await;
        let answer = half.answer().await;
        assert!(answer.starts_with("HTTP/1.1 410"), "{answer}");
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Abandoned);
        assert_eq!(*sum.accumulator(), empty);
        assert!(!sum.is_invalid());
        assert_eq!(left(&world).await, (0, 0));
    }
}

/// Goal: a commit waits for no body, and what was half in the sum is not in the model.
#[tokio::test]
async fn a_goal_met_by_others_ends_a_body_that_is_half_here() {
    for world in places().await {
        let job = world
            .job(super::large(&[(
                "round",
                serde_json::json!({ "updates_goal": 1, "updates_min": 1, "over_selection": 2.0 }),
            )]))
            .await;
        let [slow, quick] = world.devices().await;
        let [first, second] = world.assign([&slow, &quick]).await;
        let body = delta_file(&first, &delta(1));
        let half = Half::send(&world, &slow, &first, &body, body.len() - 1).await;
        let sum = sum(&world, job.head.id, 1);
        let empty = Accumulator::new(PARAMETERS, sum.accumulator().caps()).unwrap();
        until(|| *sum.accumulator() != empty).await;
        quick.put_digested(second.id, &delta_file(&second, &delta(2))).await.value();
        world.drive().await;
        let answer = half.answer().await;
        assert!(answer.starts_with("HTTP/1.1 410"), "{answer}");
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
        let base = world.weights(job.head.id, 0).await;
        fold(&empty, &delta(2), 10);
        assert_eq!(world.weights(job.head.id, 1).await, averaged(&base, &empty));
        assert_eq!(left(&world).await, (0, 0));
        world.check_books(job.head.id).await;
    }
}

/// A base model that cannot be read to its end, or has another bit than was stored: what was written of the next one
/// goes too.
#[tokio::test]
async fn a_model_that_cannot_be_made_abandons_its_round_and_leaves_no_parts() {
    let truncate: fn(&mut Vec<u8>) = |data| data.truncate(1000);
    for damage in [truncate, |data| data[1000] ^= 1] {
        damaged(damage).await;
    }
}

async fn damaged(damage: fn(&mut Vec<u8>)) {
    let world = World::start_on_sqlite().await;
    let job = world.job(goal(1)).await;
    let [device] = world.devices().await;
    let [assignment] = world.assign([&device]).await;
    device.put_update(assignment.id, &figures(10), delta_file(&assignment, &delta(1))).await.value();
    let mut tx = world.app().db.begin().await.unwrap();
    let Tx::Sqlite(inner) = &mut tx else { panic!("this is SQLite") };
    let body = "(select id from staged_bodies where blob like 'model/%')";
    let sql = format!("select data from blob_chunks where chunk = 3 and blob in {body}");
    let (mut data,): (Vec<u8>,) = sqlx::query_as(AssertSqlSafe(sql)).fetch_one(&mut ***inner).await.unwrap();
    damage(&mut data);
    let sql = format!("update blob_chunks set data = $1 where chunk = 3 and blob in {body}");
    assert_eq!(sqlx::query(AssertSqlSafe(sql)).bind(data).execute(&mut ***inner).await.unwrap().rows_affected(), 1);
    tx.commit().await.unwrap();
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reason), (Phase::Abandoned, Some(AbandonReason::Fault)));
    assert_eq!(left(&world).await, (0, 0));
}

/// Goal: a file beside the database in which a disk changed a bit makes no model, and no client gets it.
#[tokio::test]
async fn a_model_file_with_another_bit_than_was_stored_is_not_used() {
    let world = World::start_with_files().await;
    let job = world.job(goal(1)).await;
    let [device] = world.devices().await;
    let [assignment] = world.assign([&device]).await;
    device.put_update(assignment.id, &figures(10), delta_file(&assignment, &delta(1))).await.value();
    let mut tx = world.app().db.read().await.unwrap();
    let Tx::Sqlite(inner) = &mut tx else { panic!("this is SQLite") };
    let sql = "select object from objects where blob in \
               (select id || '/3' from staged_bodies where blob like 'model/%')";
    let (object,): (String,) = sqlx::query_as(sql).fetch_one(&mut ***inner).await.unwrap();
    let (deployment,): (String,) = sqlx::query_as("select id from deployment").fetch_one(&mut ***inner).await.unwrap();
    drop(tx);
    let file = std::path::PathBuf::from(format!("{}.bodies", world.database())).join(deployment).join(object);
    let mut data = std::fs::read(&file).unwrap();
    data[1000] ^= 1;
    std::fs::write(&file, data).unwrap();
    world.drive().await;
    let round = world.round(job.head.id, 1).await;
    assert_eq!((round.phase, round.reason), (Phase::Abandoned, Some(AbandonReason::Fault)));
    assert_eq!(left(&world).await, (0, 0));
}
