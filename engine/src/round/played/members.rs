//! Stale-synchronous jobs under random events.

use proptest::prelude::*;

use super::*;

const LENGTH_MS: i64 = 100;

fn job(members: u32, slack: u32, clients: usize) -> Job {
    let mode = format!("{{ kind = 'stale_synchronous', members = {members}, slack = {slack} }}");
    let times = format!("deadline_ms = {LENGTH_MS}, selection_timeout_ms = {LENGTH_MS}, backoff_ms = 1");
    Job::new(&format!("round = {{ mode = {mode}, {times} }}"), clients)
}

/// Events that may occur between two steps.
#[derive(Clone, Debug)]
enum World {
    Wait(i64),
    Report(usize),
    /// A client reports and does not come back for a while.
    ReportAndGo(usize),
    /// A client that waited goes away.
    Go(usize),
    /// A client that was away waits again.
    Return(usize),
}

fn world() -> impl Strategy<Value = World> {
    let client = 0usize..8;
    prop_oneof![
        2 => (1i64..60).prop_map(World::Wait),
        8 => client.clone().prop_map(World::Report),
        1 => client.clone().prop_map(World::ReportAndGo),
        1 => client.clone().prop_map(World::Go),
        2 => client.prop_map(World::Return),
    ]
}

proptest! {
    /// Goal: nobody is more than `slack + 1` ahead at any instant, nobody counts twice, a slack of 0 gives each version
    /// one update of each client, a silent member holds up the others for no longer than its time, and a stopped job
    /// ends.
    /// Method: random events; then all clients but the silent ones work on.
    #[test]
    fn a_stale_synchronous_job_keeps_its_bounds(
        events in prop::collection::vec(world(), 0..160),
        places in 1u32..6, slack in 0u32..4, clients in 1usize..8, silent in 0usize..8,
    ) {
        let mut job = job(places, slack, clients);
        job.drive();
        for event in events {
            match event {
                World::Wait(ms) => job.now_ms += ms,
                World::Report(number) => {
                    job.report(number % clients, Presence::Waiting);
                }
                World::ReportAndGo(number) => {
                    job.report(number % clients, Presence::Away);
                }
                World::Go(number) if job.clients[number % clients] == Presence::Waiting => {
                    job.clients[number % clients] = Presence::Away;
                }
                World::Return(number) if job.clients[number % clients] == Presence::Away => {
                    job.clients[number % clients] = Presence::Waiting;
                }
                World::Go(_) | World::Return(_) => {}
            }
            job.drive();
            prop_assert!(job.spread_max <= slack + 1, "{job:?}");
            prop_assert!(job.members.len() as u32 <= places && job.work.len() as u32 <= places);
            prop_assert!(job.counted.len() as u32 + job.work.len() as u32 <= job.draws, "each work counts once");
            for round in job.ended.iter().filter(|round| round.phase == Phase::Committed) {
                prop_assert!(round.reported >= 1 && round.reported <= places);
                let mut clients = round.clients.clone();
                clients.sort_unstable();
                clients.dedup();
                prop_assert!(slack > 0 || clients.len() == round.clients.len(), "a slack of 0: {round:?}");
            }
            prop_assert!(slack > 0 || job.counted.iter().all(|staleness| *staleness == 0));
        }
        let version = job.version;
        for _ in 0..40 {
            job.now_ms += LENGTH_MS / 4;
            for number in 0..clients {
                if number != silent || clients == 1 {
                    if job.clients[number] == Presence::Away {
                        job.clients[number] = Presence::Waiting;
                    }
                    job.report(number, Presence::Waiting);
                    job.drive();
                }
            }
            job.drive();
        }
        prop_assert!(job.version >= version + 2, "the others go on: {job:?}");
        job.facts.state = JobState::Stopped;
        job.drive();
        prop_assert!(job.rounds.is_empty() && job.work.is_empty());
    }
}

/// Goal: a fast member runs ahead by the slack, waits, and is released by the very update that lifts the bound.
#[test]
fn a_blocked_member_begins_with_the_update_that_lifts_the_bound() {
    let mut job = job(2, 2, 2);
    job.drive();
    for _ in 0..3 {
        job.report(0, Presence::Waiting);
        job.drive();
    }
    assert_eq!((job.clients[0], job.spread_max, job.version), (Presence::Waiting, 3, 1));
    job.report(1, Presence::Waiting);
    assert_eq!(job.clients[0], Presence::Waiting);
    job.drive();
    assert!(job.work.iter().any(|work| (work.client, work.base) == (0, 2)), "{job:?}");
    assert_eq!((job.spread_max, job.version), (3, 2));
}

/// Goal: a member that stays away is noted, and leaves after the time of a work; then the others go on.
#[test]
fn a_member_that_stays_away_leaves_after_the_time_of_a_work() {
    let mut job = job(2, 0, 2);
    job.drive();
    job.report(0, Presence::Waiting);
    job.report(1, Presence::Away);
    assert_eq!(job.drive(), Some(LENGTH_MS), "the work of the other, and the patience with the one that is away");
    assert_eq!((job.version, job.members[&client(1)].missed_at_ms), (1, Some(0)));
    job.report(0, Presence::Waiting);
    job.drive();
    assert_eq!(job.version, 1, "the sum waits for both members");
    job.now_ms = LENGTH_MS;
    job.drive();
    assert_eq!((job.version, job.members.len()), (2, 1));
}
