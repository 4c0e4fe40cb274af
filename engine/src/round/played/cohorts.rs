//! Jobs with cohorts under random events.

use proptest::prelude::*;

use super::*;

/// Events that may occur between two steps.
#[derive(Clone, Debug)]
enum World {
    Wait(i64),
    Arrive(usize),
    Leave(usize),
    Report(usize),
    Fail(usize),
    Pause,
    Stop,
}

fn world() -> impl Strategy<Value = World> {
    let client = 0usize..9;
    prop_oneof![
        4 => (1i64..400).prop_map(World::Wait),
        4 => client.clone().prop_map(World::Arrive),
        2 => client.clone().prop_map(World::Leave),
        8 => client.clone().prop_map(World::Report),
        2 => client.prop_map(World::Fail),
        1 => Just(World::Pause),
        1 => Just(World::Stop),
    ]
}

fn play(job: &mut Job, event: World) {
    match event {
        World::Wait(ms) => job.now_ms += ms,
        World::Arrive(number) if job.clients[number] == Presence::Away => job.clients[number] = Presence::Waiting,
        World::Leave(number) if job.clients[number] == Presence::Waiting => job.clients[number] = Presence::Away,
        World::Report(number) => {
            job.report(number, Presence::Away);
        }
        World::Fail(number) => job.fail(number),
        World::Pause if job.facts.state == JobState::Running => job.facts.state = JobState::Paused,
        World::Pause if job.facts.state == JobState::Paused => job.facts.state = JobState::Running,
        World::Stop if !job.facts.state.is_final() => job.facts.state = JobState::Stopped,
        World::Arrive(_) | World::Leave(_) | World::Pause | World::Stop => {}
    }
}

proptest! {
    /// Goal: under any events every round ends, its phases never go back, and it commits exactly when enough clients
    /// reported.
    /// Method: play random events, and let the job be driven after each; then stop it.
    #[test]
    fn every_round_ends_and_commits_exactly_when_enough_clients_reported(
        events in prop::collection::vec(world(), 0..80), goal in 1u32..6, minimum in 1u32..6, spare in 0u32..4,
        evaluates in any::<bool>(),
    ) {
        let minimum = minimum.min(goal);
        let over_selection = f64::from(goal + spare) / f64::from(goal);
        let evaluation = "evaluation = { reports_goal = 2, selection_timeout_ms = 100, deadline_ms = 1000 }";
        let tables = format!(
            "round = {{ updates_goal = {goal}, updates_min = {minimum}, over_selection = {over_selection}, \
             selection_timeout_ms = 100, deadline_ms = 1000, backoff_ms = 50 }}\n{}",
            if evaluates { evaluation } else { "" },
        );
        let mut job = Job::new(&tables, 9);
        job.drive();
        for event in events {
            play(&mut job, event);
            job.drive();
            let open = job.rounds.iter().filter(|round| round.task == Task::Train);
            prop_assert!(open.count() <= 1, "one training round at a time");
            for round in &job.rounds {
                prop_assert!(round.reported < round.policy.goal || round.phase == Phase::Selecting, "it has closed");
            }
        }
        if !job.facts.state.is_final() {
            job.facts.state = JobState::Stopped;
        }
        job.drive();
        prop_assert!(job.rounds.is_empty() && job.work.is_empty(), "{job:?}");
        prop_assert_eq!(job.decision(), Decision::Ended);
        for round in &job.ended {
            let mut clients = round.clients.clone();
            clients.sort_unstable();
            clients.dedup();
            prop_assert_eq!(clients.len() as u32, round.reported, "nobody counts twice");
            let enough = if round.task == Task::Train { minimum } else { 1 };
            match round.reason {
                None => prop_assert!(round.reported >= enough, "{round:?}"),
                Some(AbandonReason::JobStopped | AbandonReason::Superseded) => {}
                Some(_) => prop_assert!(round.reported < enough, "enough reports are never thrown away: {round:?}"),
            }
        }
    }
}

#[test]
fn a_job_makes_its_versions_evaluates_the_last_one_and_is_complete() {
    let round = "round = { updates_goal = 2, updates_min = 2, over_selection = 1.0 }";
    let mut job = Job::new(&format!("{round}\nevaluation = {{}}\nstop = {{ rounds = 3 }}"), 4);
    job.drive();
    for _ in 0..40 {
        for number in 0..4 {
            job.report(number, Presence::Waiting);
            job.drive();
        }
        job.all_return();
        job.drive();
    }
    assert_eq!((job.version, job.facts.state), (3, JobState::Completed));
    let evaluations = job.ended.iter().filter(|round| round.task == Task::Evaluate);
    assert!(evaluations.clone().all(|round| round.phase == Phase::Committed) && evaluations.count() >= 1);
    assert_eq!(job.decision(), Decision::Ended);
}

/// Goal: a round is told of the one client that leads to a step, and of no other before.
#[test]
fn no_act_is_due_before_the_missing_clients_have_come() {
    let mut job = Job::new("round = { updates_goal = 5, updates_min = 2, over_selection = 1.0 }", 8);
    job.clients.fill(Presence::Away);
    job.drive();
    for number in 0..5 {
        let Decision::Wait { missing, until_ms: Some(_) } = job.decision() else { panic!("it selects") };
        assert_eq!(missing, 5 - number as u32);
        job.clients[number] = Presence::Waiting;
    }
    job.drive();
    assert_eq!((job.training().unwrap().phase, job.work.len()), (Phase::Training, 5));
    let Decision::Wait { missing, .. } = job.decision() else { panic!("it trains") };
    assert_eq!(missing, 0, "no client leads to an act");
}
