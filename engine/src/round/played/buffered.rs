//! Buffered jobs under random events, and the staleness that their papers report.

use proptest::prelude::*;
use tributary_protocol::seed::Seed;

use super::*;

fn job(buffer: u32, concurrency: u32, staleness_max: u32, clients: usize) -> Job {
    let mode = format!(
        "{{ kind = 'buffered', buffer = {buffer}, concurrency = {concurrency}, staleness_max = {staleness_max} }}"
    );
    Job::new(&format!("round = {{ mode = {mode}, deadline_ms = 100 }}"), clients)
}

/// Events that may occur between two steps.
#[derive(Clone, Debug)]
enum World {
    Wait(i64),
    Report(usize),
    /// A client dies, and returns once the time of its assignment is over.
    Die(usize),
}

fn world() -> impl Strategy<Value = World> {
    prop_oneof![
        1 => (1i64..60).prop_map(World::Wait),
        4 => (0usize..20).prop_map(World::Report),
        1 => (0usize..20).prop_map(World::Die),
    ]
}

proptest! {
    /// Goal: staleness is never above its maximum, concurrency is never exceeded, no draw counts twice, every version
    /// has a full buffer, and a stopped job ends.
    #[test]
    fn a_buffered_job_keeps_its_bounds(
        events in prop::collection::vec(world(), 0..120),
        buffer in 1u32..6, concurrency in 1u32..8, staleness_max in 0u32..5, clients in 1usize..12,
    ) {
        let mut job = job(buffer, concurrency, staleness_max, clients);
        job.drive();
        let mut dead = vec![false; clients];
        for event in events {
            match event {
                World::Wait(ms) => job.now_ms += ms,
                World::Report(place) if !job.work.is_empty() => {
                    let number = job.work[place % job.work.len()].client;
                    if !dead[number] {
                        job.report(number, Presence::Waiting);
                    }
                }
                World::Die(place) if !job.work.is_empty() => dead[job.work[place % job.work.len()].client] = true,
                World::Report(_) | World::Die(_) => {}
            }
            job.drive();
            for (number, presence) in job.clients.iter().enumerate() {
                dead[number] &= *presence != Presence::Away;
            }
            job.all_return();
            job.drive();
            let reported = job.training().map_or(0, |round| round.reported);
            prop_assert!(job.work.len() as u32 <= concurrency);
            prop_assert!(job.counted.iter().all(|staleness| *staleness <= staleness_max));
            prop_assert!(job.ended.iter().all(|round| round.reported == buffer));
            prop_assert_eq!(job.counted.len() as u32, job.version * buffer + reported);
            prop_assert!(job.counted.len() as u32 + job.work.len() as u32 <= job.draws);
            prop_assert!(reported < buffer, "a full buffer has committed");
        }
        job.facts.state = JobState::Stopped;
        job.drive();
        prop_assert!(job.rounds.is_empty() && job.work.is_empty());
        prop_assert_eq!(job.decision(), Decision::Ended);
    }
}

#[test]
fn clients_that_take_turns_are_as_stale_as_there_are_others() {
    for clients in [1, 2, 5, 17] {
        let mut job = job(1, clients, 100, clients as usize);
        job.drive();
        for _ in 0..10 * clients {
            let first = job.work[0].client;
            job.report(first, Presence::Waiting);
            job.drive();
        }
        let steady = &job.counted[clients as usize..];
        assert!(steady.iter().all(|staleness| *staleness == clients - 1), "{clients}: {steady:?}");
    }
}

/// n-softsync (Zhang et al. 2016): of `learners`, each version takes `learners / n` gradients. While a learner computes
/// one, the others send one each, so its staleness is `n (learners - 1) / learners` in the mean. The paper reports
/// about n, and hardly any above 2 n.
#[test]
fn softsync_has_the_staleness_of_its_paper() {
    for (learners, n) in [(8, 2), (8, 4), (8, 8), (16, 4), (16, 16), (30, 2), (30, 15), (30, 30)] {
        let mut job = job(learners / n, learners, 1_000, learners as usize);
        job.drive();
        let mut stream = Seed(5).derive("softsync", u64::from(learners * 100 + n)).stream();
        // Learners take 0.8 to 1.2 units of time for a gradient.
        let mut duration = || 0.8 + 0.4 * stream.unit();
        let mut ends: Vec<f64> = (0..learners).map(|_| duration()).collect();
        for _ in 0..40_000 {
            let first = (0..ends.len()).min_by(|one, other| ends[*one].total_cmp(&ends[*other])).unwrap();
            job.report(first, Presence::Waiting);
            job.drive();
            ends[first] += duration();
        }
        let steady = &job.counted[1_000..];
        let mean = steady.iter().map(|staleness| f64::from(*staleness)).sum::<f64>() / steady.len() as f64;
        let expected = f64::from(n) * f64::from(learners - 1) / f64::from(learners);
        assert!((mean / expected - 1.0).abs() < 0.02, "{learners}, {n}: {mean} is not {expected}");
        assert!(learners < 16 || (mean / f64::from(n) - 1.0).abs() < 0.1, "{learners}, {n}: {mean}");
        let above = steady.iter().filter(|staleness| **staleness > 2 * n).count();
        assert!((above as f64) < 1e-3 * steady.len() as f64, "{learners}, {n}: {above} above 2 n");
    }
}

/// Goal: a buffer opens in a paused job for the updates that are on their way, and draws nobody.
#[test]
fn a_paused_job_takes_what_is_on_its_way_and_draws_nobody() {
    let mut job = job(1, 2, 100, 3);
    job.drive();
    job.facts.state = JobState::Paused;
    for _ in 0..2 {
        let first = job.work[0].client;
        assert!(job.report(first, Presence::Waiting));
        job.drive();
    }
    assert_eq!((job.version, job.work.len(), job.draws), (2, 0, 2));
    assert_eq!(job.training().map(|round| round.phase), Some(Phase::Training));
    job.facts.state = JobState::Running;
    job.drive();
    assert_eq!((job.work.len(), job.draws), (2, 4));
}

/// Goal: work that can count in no further buffer ends at once.
#[test]
fn a_job_that_has_trained_lets_its_clients_go() {
    let mut job = job(1, 3, 100, 3);
    job.file.stop.rounds = Some(2);
    job.drive();
    for _ in 0..2 {
        let first = job.work[0].client;
        job.report(first, Presence::Away);
        job.drive();
    }
    assert_eq!((job.version, job.work.len(), job.facts.state), (2, 0, JobState::Completed));
    assert_eq!(job.decision(), Decision::Ended);
}
