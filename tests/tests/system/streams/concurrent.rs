//! Two uploads of one update at once: the newer one wins, and their bytes never mix.

use tributary_engine::aggregate::Accumulator;
use tributary_protocol::problem::ProblemType;
use tributary_protocol::seed::Seed;
use tributary_protocol::state::Phase;

use super::{Half, PARAMETERS, averaged, delta, fold, goal, left, places, sum, until};
use crate::support::{World, delta_file};

#[tokio::test]
async fn a_newer_upload_ends_an_older_one_of_the_same_update() {
    for world in places().await {
        let job = world.job(goal(2)).await;
        let [device, _other] = world.devices().await;
        let [first, _] = world.assign([&device, &_other]).await;
        let (old, new) = (delta_file(&first, &delta(1)), delta_file(&first, &delta(2)));
        let half = Half::send(&world, &device, &first, &old, old.len() - 1).await;
        let sum = sum(&world, job.head.id, 1);
        let empty = Accumulator::new(PARAMETERS, sum.accumulator().caps()).unwrap();
        until(|| *sum.accumulator() != empty).await;
        device.put_digested(first.id, &new).await.value();
        let answer = half.answer().await;
        assert!(answer.starts_with("HTTP/1.1 409"), "{answer}");
        fold(&empty, &delta(2), 10);
        assert_eq!(*sum.accumulator(), empty, "the newer one and nothing else");
        device.put_digested(first.id, &old).await.refused(ProblemType::UpdateConflict);
        device.put_digested(first.id, &new).await.value();
        assert_eq!(*sum.accumulator(), empty);
        assert_eq!(left(&world).await, (0, 0));
        world.pass_ms(10_000).await;
        assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
        let base = world.weights(job.head.id, 0).await;
        assert_eq!(world.weights(job.head.id, 1).await, averaged(&base, &empty));
        world.check_books(job.head.id).await;
    }
}

/// Many requests for one update at the same time: one is taken, the sum has it once.
#[tokio::test]
async fn of_many_uploads_at_once_one_counts() {
    let world = World::start().await;
    let job = world.job(goal(2)).await;
    let [device, _other] = world.devices().await;
    let [first, _] = world.assign([&device, &_other]).await;
    let bodies = [delta_file(&first, &delta(1)), delta_file(&first, &delta(2))];
    let sent = (0..6).map(|number| device.put_digested(first.id, &bodies[number % 2]));
    let answers = futures_util::future::join_all(sent).await;
    let accepted: Vec<usize> = (0..6).filter(|number| answers[*number].status == 200).collect();
    assert!(!accepted.is_empty());
    assert!(accepted.iter().all(|number| number % 2 == accepted[0] % 2), "never both bodies");
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(answer.status, 409);
    }
    let sum = sum(&world, job.head.id, 1);
    assert!(!sum.is_invalid());
    let expected = Accumulator::new(PARAMETERS, sum.accumulator().caps()).unwrap();
    fold(&expected, &delta(1 + accepted[0] as u32 % 2), 10);
    assert_eq!(*sum.accumulator(), expected);
    assert_eq!(left(&world).await, (0, 0));
    world.check_books(job.head.id).await;
}

/// Two coordinators: the upload that one began goes on at the other, and the first can add nothing more.
#[tokio::test]
async fn an_upload_goes_on_at_another_coordinator() {
    let Some(database) = crate::support::postgres().await else { return };
    let world = World::start_on(database).await;
    let job = world.job(goal(1)).await;
    let [device] = world.devices().await;
    let [first] = world.assign([&device]).await;
    let body = delta_file(&first, &delta(1));
    let half = Half::send(&world, &device, &first, &body, 3_000_000).await;
    let sum = sum(&world, job.head.id, 1);
    let empty = Accumulator::new(PARAMETERS, sum.accumulator().caps()).unwrap();
    until(|| *sum.accumulator() != empty).await;
    let beside = world.beside().await;
    let elsewhere = crate::support::Device { server: beside.server(), ..device.clone() };
    // What the first coordinator has stored by now; the rest is in its memory.
    let mut offset = 0;
    while offset == 0 {
        offset = elsewhere.offset(first.id).await.header("upload-offset").parse().unwrap();
    }
    elsewhere.patch(first.id, offset, &body[offset..], &body).await.value();
    half.break_off().await;
    world.drive().await;
    assert_eq!(world.round(job.head.id, 1).await.phase, Phase::Committed);
    let base = world.weights(job.head.id, 0).await;
    let expected = Accumulator::new(PARAMETERS, empty.caps()).unwrap();
    fold(&expected, &delta(1), 10);
    assert_eq!(world.weights(job.head.id, 1).await, averaged(&base, &expected));
    world.check_books(job.head.id).await;
}

/// Goal: whatever is begun, broken off, asked for and gone on with, by several at once, one body counts, whole and
/// once. Method: drawn requests with two bodies for one assignment, one to three of them at the same time; in the end
/// one is sent until it is taken or conflicts.
#[tokio::test]
async fn whatever_is_sent_in_whatever_order_one_body_counts_whole() {
    for seed in 0..4 {
        let world = World::start().await;
        let job = world.job(goal(2)).await;
        let [device, _other] = world.devices().await;
        let [first, _] = world.assign([&device, &_other]).await;
        let bodies = [delta_file(&first, &delta(1)), delta_file(&first, &delta(2))];
        let mut stream = Seed(seed).stream();
        for _ in 0..5 {
            let draws: Vec<[u64; 3]> =
                (0..=stream.below(3)).map(|_| [stream.below(5), stream.below(2), stream.below(4_000_000)]).collect();
            let (world, device, first, bodies) = (&world, &device, &first, &bodies);
            let requests = draws.into_iter().map(|[what, which, bytes]| async move {
                let body = &bodies[which as usize];
                match what {
                    // Most break off: an update that is taken ends the story.
                    0..3 => Half::send(world, device, first, body, bytes as usize).await.break_off().await,
                    3 => {
                        let offset = device.offset(first.id).await.header("upload-offset").parse().unwrap_or(0);
                        let to = body.len().min(offset + bytes as usize);
                        device.patch_part(first.id, offset, &body[offset..to], body, "?0").await;
                    }
                    _ => {
                        let offset = device.offset(first.id).await.header("upload-offset").parse().unwrap_or(0);
                        device.patch(first.id, offset, &body[offset..], body).await;
                    }
                }
            });
            futures_util::future::join_all(requests).await;
        }
        let last = device.put_digested(first.id, &bodies[0]).await;
        let counts = if last.status == 200 { 1 } else { 2 };
        if counts == 2 {
            last.refused(ProblemType::UpdateConflict);
        }
        let sum = sum(&world, job.head.id, 1);
        assert!(!sum.is_invalid(), "seed {seed}");
        let expected = Accumulator::new(PARAMETERS, sum.accumulator().caps()).unwrap();
        fold(&expected, &delta(counts), 10);
        assert!(*sum.accumulator() == expected, "seed {seed}");
        assert_eq!(left(&world).await, (0, 0), "seed {seed}");
        world.check_books(job.head.id).await;
    }
}
