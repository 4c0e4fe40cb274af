use std::collections::VecDeque;

use tributary_protocol::seed::Seed;

use super::*;

fn pace() -> Pace {
    Pace::below(CHECKINS_PER_SECOND_MAX)
}

#[test]
fn windows_are_spread_and_grow_with_the_fleet() {
    let mut stream = Seed(1).stream();
    let mut draw = |reason, clients| pace().retry_window_ms(reason, clients, 0, &mut stream);
    assert_eq!(draw(RetryReason::Reported, 1_000_000), 0);
    for (clients, centre_ms) in [(1, 1_000), (500, 10_000), (30_000, 600_000), (10_000_000, 200_000_000)] {
        let windows: Vec<_> = (0..1000).map(|_| draw(RetryReason::NothingCame, clients)).collect();
        assert!(windows.iter().all(|window| (centre_ms / 2..centre_ms * 3 / 2).contains(window)));
        let mean = windows.iter().sum::<u64>() / 1000;
        assert!(mean.abs_diff(centre_ms) < centre_ms / 20, "{mean} is not about {centre_ms}");
    }
    assert!(draw(RetryReason::NoJob, 1) >= 2500);
}

#[test]
fn a_small_fleet_whose_check_ins_are_held_is_always_there() {
    let mut stream = Seed(1).stream();
    let mut draw = |reason, clients| pace().retry_window_ms(reason, clients, 0, &mut stream);
    assert_eq!(draw(RetryReason::Held, u64::from(CHECKINS_PER_SECOND_MAX)), 0);
    assert!(draw(RetryReason::Held, u64::from(CHECKINS_PER_SECOND_MAX) + 1) >= 1_000 / 2);
    assert!(draw(RetryReason::NothingCame, 1) >= 1_000 / 2);
}

#[test]
fn a_large_fleet_checks_in_as_often_as_its_jobs_can_use() {
    const HOUR_MS: u64 = 3_600_000;
    for (clients, places, centre_ms) in [
        (30_000, 13, 600_000),
        // Four check-ins a minute for each place.
        (100_000, 130, 100_000 * 60_000 / 520),
        (1_000_000, 13, 24 * HOUR_MS),
        (1_000_000, 0, 24 * HOUR_MS),
        // At most 50 a second.
        (1_000_000, 10_000, 20_000_000),
        (40_000, 10_000, 800_000),
    ] {
        assert_eq!(pace().centre_ms(clients, places), centre_ms, "{clients} clients, {places} places");
    }
}

/// How long a check-in is held.
const HELD_S: usize = 60;

/// What a fleet did in virtual time.
#[derive(Debug)]
struct Played {
    /// Most check-ins of idle clients in a second.
    most_per_second: u32,
    mean_per_second: f64,
    rounds: u32,
    /// Longest time from the opening of a round to its cohort, in seconds.
    longest_s: usize,
}

/// A fleet whose windows follow a job, which opens a round every other minute and draws `cohort` clients. These report
/// within a minute and come back at once. One step is one second.
fn play(pace: Pace, clients: u64, cohort: usize, hours: usize, seed: Seed) -> Played {
    const ROUND_S: usize = 120;
    let mut stream = seed.stream();
    let seconds = hours * 3600;
    // Clients by the second of their next check-in. What is later than the end never comes.
    let mut arrivals: Vec<u32> = vec![0; seconds];
    let centre_s = pace.centre_ms(clients, cohort as u64) as f64 / 1000.0;
    for _ in 0..clients {
        // The rest of a window that is seen at any moment: a longer rest is as likely as a window longer than it.
        let rest_s = loop {
            let rest = 1.5 * stream.unit();
            if stream.unit() < 1.5 - rest {
                break rest * centre_s;
            }
        };
        if let Some(at) = arrivals.get_mut(rest_s as usize) {
            *at += 1;
        }
    }
    // Held clients by the second of their arrival, and those that report then.
    let mut held = VecDeque::new();
    let mut reports = vec![0u32; seconds + HELD_S];
    let (mut waiting, mut open_since, mut all) = (0usize, None, 0u64);
    let mut played = Played { most_per_second: 0, mean_per_second: 0.0, rounds: 0, longest_s: 0 };
    for second in 0..seconds {
        let came = arrivals[second] + reports[second];
        held.push_back(came);
        waiting += came as usize;
        played.most_per_second = played.most_per_second.max(arrivals[second]);
        all += u64::from(arrivals[second]);
        if second % ROUND_S == 0 && open_since.is_none() {
            open_since = Some(second);
        }
        if let Some(since) = open_since
            && waiting >= cohort
        {
            let mut wanted = cohort as u32;
            // The draw is uniform; which of them makes no difference here.
            for group in &mut held {
                let drawn = wanted.min(*group);
                (*group, wanted) = (*group - drawn, wanted - drawn);
            }
            waiting -= cohort;
            for _ in 0..cohort {
                reports[second + 1 + stream.below(HELD_S as u64 - 1) as usize] += 1;
            }
            played.rounds += 1;
            // The first rounds find an empty lobby.
            if second > 2 * HELD_S {
                played.longest_s = played.longest_s.max(second - since);
            }
            open_since = None;
        }
        if held.len() > HELD_S {
            let gone = held.pop_front().unwrap_or_default();
            waiting -= gone as usize;
            for _ in 0..gone {
                let wait_ms = pace.retry_window_ms(RetryReason::NothingCame, clients, cohort as u64, &mut stream);
                if let Some(at) = arrivals.get_mut(second + 1 + (wait_ms / 1000) as usize) {
                    *at += 1;
                }
            }
        }
    }
    played.mean_per_second = all as f64 / seconds as f64;
    played
}

fn check(clients: u64, cohort: usize, hours: usize) -> Played {
    let played = play(pace(), clients, cohort, hours, Seed(clients + cohort as u64));
    assert!(played.most_per_second <= CHECKINS_PER_SECOND_MAX, "{played:?}");
    assert!(played.rounds > 0 && played.longest_s <= 60, "{played:?}");
    played
}

#[test]
fn each_round_has_its_cohort_within_a_minute_and_no_second_has_too_many_check_ins() {
    check(2_000, 130, 2);
    check(60_000, 130, 4);
    check(200_000, 130, 4);
}

#[test]
fn the_most_check_ins_per_second_are_chosen() {
    for (most, per_second) in [(10, 1), (20, 4), (100, 50), (1_000, 801), (1, 1)] {
        assert_eq!(Pace::below(most), Pace { per_second, most_per_second: most.into() }, "{most}");
    }
    let played = play(Pace::below(20), 60_000, 20, 4, Seed(1));
    assert!(played.most_per_second <= 20 && played.mean_per_second > 1.0, "{played:?}");
}

/// Prints the table of docs/operations.md.
#[test]
#[ignore = "a million clients over two days take minutes"]
fn a_million_clients() {
    for (clients, cohort) in [(1_000, 130), (30_000, 130), (100_000, 130), (1_000_000, 130), (1_000_000, 1_300)] {
        let Played { most_per_second, mean_per_second, rounds, longest_s } = check(clients, cohort, 48);
        let window_s = pace().centre_ms(clients, cohort as u64) / 1000;
        println!(
            "| {clients} | {cohort} | {window_s} s | {mean_per_second:.1} | {most_per_second} | {rounds} | {longest_s} s |"
        );
    }
}
