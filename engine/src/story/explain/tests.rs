use serde_json::json;
use tributary_protocol::operator::{MemberClock, Round};

use super::*;

/// A round with a goal of 10, a minimum of 5 and a cohort of 13, in which time passes in seconds, with these
/// changes.
pub(in crate::story) fn round(changes: serde_json::Value) -> Round {
    let mut round = json!({
        "number": 7, "task": "train", "phase": "training", "base_version": 6, "seed": 1, "goal": 10, "minimum": 5,
        "cohort": 13, "reported": 0, "assigned": 0, "rejected": 0, "failed": 0, "expired": 0, "opened_at_ms": 0,
        "selected_at_ms": 3_000, "deadline_at_ms": 603_000, "weight": 0, "bytes_up": 0, "bytes_down": 0,
    });
    for (key, value) in changes.as_object().unwrap() {
        round[key] = value.clone();
    }
    serde_json::from_value(round).unwrap()
}

fn story(round: &Round) -> RoundStory<'_> {
    RoundStory::of(round)
}

#[test]
fn a_buffer_says_what_it_waits_for_and_who_is_at_work() {
    let told = |changes: serde_json::Value| {
        let mut buffer = json!({
            "goal": 3, "minimum": 3, "deadline_at_ms": null,
            "buffer": { "concurrency": 4, "staleness_max": 8, "lost_weight": 0.0 },
        });
        buffer.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let round = round(buffer);
        explain(&story(&round), 10_000)
    };
    let waits = "Round 7 waits for 2 more of 3 updates;";
    let open = told(json!({ "reported": 1, "assigned": 1 }));
    assert_eq!(open, format!("{waits} 1 client is at work, and there are places for 3 more."));
    let nearly = told(json!({ "reported": 1, "assigned": 3 }));
    assert_eq!(nearly, format!("{waits} 3 clients are at work, and there is a place for another one."));
    let full = told(json!({ "reported": 1, "assigned": 4 }));
    assert_eq!(full, format!("{waits} 4 clients are at work, as many as the job allows."));
    let ended = told(json!({ "phase": "abandoned", "reason": "superseded", "ended_at_ms": 9_000 }));
    assert_eq!(ended, "Round 7 was abandoned: the job reached its result while the buffer was open.");
}

#[test]
fn an_evaluation_on_the_coordinator_is_about_its_test_set() {
    let told = |changes: serde_json::Value| {
        let mut own = json!({ "task": "evaluate", "goal": 0, "minimum": 0, "cohort": 0 });
        own.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let round = round(own);
        explain(&RoundStory { selection_ends_at_ms: Some(5_000), ..story(&round) }, 2_000)
    };
    let waits = told(json!({ "phase": "selecting" }));
    assert!(waits.ends_with("waits for the test set of the job: `tributary job test-set upload JOB FILE`."), "{waits}");
    assert!(told(json!({ "phase": "aggregating" })).contains("computed on the coordinator"));
    let done = told(json!({ "phase": "committed", "ended_at_ms": 1_500, "weight": 40 }));
    assert_eq!(done, "The evaluation of round 7 took 1.5 s on the coordinator, with 40 examples.");
    let late = json!({ "phase": "abandoned", "reason": "selection_timeout", "ended_at_ms": 60_000 });
    assert!(told(late).ends_with("no test set was uploaded within 1 min."));
}

#[test]
fn an_open_round_says_what_it_waits_for() {
    let selecting = round(json!({ "phase": "selecting", "cohort": 0, "selected_at_ms": null }));
    let waits = RoundStory { available: Some((4, 13)), selection_ends_at_ms: Some(300_000), ..story(&selecting) };
    assert_eq!(
        explain(&waits, 100_000),
        "Round 7 waits for clients: 4 of the 13 it needs are checked in and eligible; in 3 min 20 s it starts with \
         the clients that wait, or is abandoned with fewer than 5 clients."
    );
    let lacking = Some("part east is held by 1 of 2 clients");
    assert_eq!(
        explain(&RoundStory { lacking, ..waits }, 100_000),
        "Round 7 waits for clients: 4 of the 13 it needs are checked in and eligible; part east is held by 1 of 2 \
         clients; in 3 min 20 s it is abandoned."
    );
    assert_eq!(
        explain(&RoundStory { available: Some((1, 13)), ..waits }, 300_000),
        "Round 7 waits for clients: 1 of the 13 it needs is checked in and eligible."
    );
    assert_eq!(
        explain(&RoundStory { available: Some((4, 1)), ..waits }, 300_000),
        "Round 7 waits for clients: 4 clients are checked in and eligible, and it needs 1."
    );
    let cases = [
        (
            json!({ "reported": 7, "assigned": 5 }),
            "Round 7 waits for 3 more of 10 updates (5 clients still work, the deadline is in 9 min 50 s).",
        ),
        (
            json!({ "reported": 2, "assigned": 1, "task": "evaluate" }),
            "The evaluation of round 7 waits for 8 more of 10 reports (1 client still works, the deadline is in \
             9 min 50 s; with fewer than 5 it is abandoned then).",
        ),
        (
            json!({ "reported": 7, "assigned": 5, "deadline_at_ms": 13_000 }),
            "Round 7 waits for 3 more of 10 updates (5 clients still work, the deadline has come).",
        ),
        (json!({ "phase": "aggregating", "reported": 10 }), "Round 7 has its 10 updates and makes the next version."),
        (
            json!({ "phase": "aggregating", "reported": 1, "task": "evaluate" }),
            "The evaluation of round 7 has its 1 report and adds them up.",
        ),
    ];
    for (changes, expected) in cases {
        assert_eq!(explain(&story(&round(changes)), 13_000), expected);
    }
}

#[test]
fn a_committed_round_says_where_its_time_went() {
    let committed = |changes: serde_json::Value| {
        let mut all = json!({ "phase": "committed", "reported": 10, "closed_at_ms": 45_000, "ended_at_ms": 46_000 });
        for (key, value) in changes.as_object().unwrap() {
            all[key] = value.clone();
        }
        round(all)
    };
    let cases = [
        (
            json!({ "expired": 3, "spare": 3 }),
            "Round 7 took 46 s: until 10 updates were in, the last from client 4 after 42 s; 3 spares were not needed.",
        ),
        (
            json!({ "goal": 1, "minimum": 1, "reported": 1 }),
            "Round 7 took 46 s: until 1 update was in, the last from client 4 after 42 s.",
        ),
        (
            json!({ "reported": 8, "expired": 1, "failed": 2, "rejected": 2, "closed_at_ms": 603_000, "ended_at_ms": 604_500 }),
            "Round 7 took 10 min 4 s: its whole deadline, because only 8 of 10 updates came; 1 did not report in \
             time, 2 gave up, \
             2 were rejected.",
        ),
        (
            json!({ "reported": 9, "failed": 4 }),
            "Round 7 took 46 s: until no client was still working, with 9 of 10 updates; 4 gave up.",
        ),
        (
            json!({ "task": "evaluate", "goal": 14, "minimum": 1, "reported": 13, "expired": 1 }),
            "The evaluation of round 7 took 46 s: with 13 of 14 reports; 1 did not report in time.",
        ),
        (
            json!({ "selected_at_ms": 40_000, "expired": 1, "spare": 1 }),
            "Round 7 took 46 s: 40 s of it waiting for enough eligible clients; 1 spare was not \
             needed.",
        ),
        (json!({ "ended_at_ms": 100_400 }), "Round 7 took 1 min 40 s: 55.4 s of it making the new version."),
        // Of two equal times neither is the reason.
        (
            json!({ "selected_at_ms": 22_500 }),
            "Round 7 took 46 s: until 10 updates were in, the last from client 4 after 42 s.",
        ),
        (
            json!({ "selected_at_ms": 5_000, "closed_at_ms": 6_000, "ended_at_ms": 11_000 }),
            "Round 7 took 11 s: 5 s of it making the new version.",
        ),
        (
            json!({ "ended_at_ms": 87_000 }),
            "Round 7 took 1 min 27 s: until 10 updates were in, the last from client 4 after 42 s.",
        ),
    ];
    for (changes, expected) in cases {
        let round = committed(changes);
        assert_eq!(explain(&RoundStory { slowest: Some((4, 42_000)), ..story(&round) }, 0), expected);
    }
}

#[test]
fn a_dead_coordinator_is_named_while_it_is_missing_and_afterwards() {
    let open = round(json!({ "phase": "aggregating", "reported": 10, "closed_at_ms": 45_000 }));
    let undriven = Undriven { node: "south", seen_at_ms: 44_000, expires_at_ms: 54_000 };
    let waits = RoundStory { undriven: Some(undriven), ..story(&open) };
    assert_eq!(
        explain(&waits, 48_000),
        "Round 7 waits for a coordinator: south was last seen 4 s ago, and another coordinator takes over in 6 s."
    );
    assert!(explain(&waits, 54_000).ends_with("10 s ago, and no other coordinator has taken over."));
    let ended = json!({
        "phase": "committed", "selected_at_ms": 100, "reported": 10, "closed_at_ms": 1_700, "ended_at_ms": 10_600,
    });
    let ended = round(ended);
    let takeover = Takeover { from: "south", to: "north", seen_at_ms: 1_900, at_ms: 10_500 };
    let told = RoundStory { takeover: Some(takeover), undriven: Some(undriven), ..story(&ended) };
    assert_eq!(
        explain(&told, 0),
        "Round 7 took 10.6 s: 8.6 s of it without a coordinator, until north took over from south."
    );
    // As long as the new version took, and half of the round.
    for (ended_at_ms, made) in [(9_000, "9 s: 4 s"), (8_000, "8 s: 3 s")] {
        let ended = round(json!({
            "phase": "committed", "selected_at_ms": 100, "reported": 10, "closed_at_ms": 1_000,
            "ended_at_ms": ended_at_ms,
        }));
        let takeover = Takeover { from: "south", to: "north", seen_at_ms: 1_000, at_ms: 5_000 };
        let told = explain(&RoundStory { takeover: Some(takeover), ..story(&ended) }, 0);
        assert_eq!(told, format!("Round 7 took {made} of it making the new version."));
    }
}

#[test]
fn a_round_that_nobody_can_join_says_whom_it_wants() {
    let selecting = round(json!({
        "task": "evaluate", "phase": "selecting", "cohort": 0, "selected_at_ms": null, "minimum": 1,
    }));
    let wanted = Some(Wanted { attributes: "role=nobody", matching: 0, enrolled: 18, present: "phone 17, none 1" });
    let waits = RoundStory { available: Some((0, 2)), wanted, ..story(&selecting) };
    assert_eq!(
        explain(&waits, 0),
        "The evaluation of round 7 waits for clients: 0 of the 2 it needs are checked in and eligible, and 0 of 18 \
         enrolled clients have role=nobody (phone 17, none 1)."
    );
    let some = RoundStory { wanted: wanted.map(|wanted| Wanted { matching: 1, ..wanted }), ..waits };
    assert!(!explain(&some, 0).contains("role"), "enough are enrolled: they are only not here");
    let ended = json!({
        "phase": "abandoned", "reason": "selection_timeout", "ended_at_ms": 300_000, "selected_at_ms": null,
    });
    let ended = round(ended);
    let wanted = Wanted { attributes: "platform=watch", matching: 0, enrolled: 14, present: "android 8, ios 4, pi 2" };
    assert_eq!(
        explain(&RoundStory { wanted: Some(wanted), ..story(&ended) }, 0),
        "Round 7 was abandoned: fewer than 5 eligible clients checked in within 5 min; 0 of 14 enrolled clients have \
         platform=watch (android 8, ios 4, pi 2)."
    );
}

#[test]
fn an_abandoned_round_says_why() {
    let cases = [
        (
            json!({ "reason": "selection_timeout", "ended_at_ms": 300_000, "selected_at_ms": null, "deadline_at_ms": null }),
            "fewer than 5 eligible clients checked in within 5 min",
        ),
        (
            json!({ "reason": "too_few_reports", "ended_at_ms": 603_000, "reported": 3, "expired": 9, "failed": 1 }),
            "at the deadline 3 of the 5 updates it needs had come (9 did not report in time, 1 gave up)",
        ),
        (
            json!({ "reason": "too_few_reports", "ended_at_ms": 90_000, "reported": 1, "failed": 12 }),
            "too few clients were left to reach 5 updates: 1 came (12 gave up)",
        ),
        (json!({ "reason": "job_stopped", "ended_at_ms": 5_000 }), "an operator stopped the job"),
        (
            json!({ "reason": "not_finite", "ended_at_ms": 5_000 }),
            "the new model was not finite; a lower learning rate or magnitude_max may help",
        ),
        (
            json!({ "reason": "fault", "ended_at_ms": 5_000 }),
            "its stored data could not be read; the coordinator's log says more",
        ),
    ];
    for (mut changes, why) in cases {
        changes["phase"] = "abandoned".into();
        assert_eq!(explain(&story(&round(changes)), 0), format!("Round 7 was abandoned: {why}."));
    }
}

#[test]
fn members_say_whom_they_wait_for() {
    let round = round(json!({
        "goal": 3, "minimum": 1, "deadline_at_ms": null, "reported": 1,
        "buffer": { "concurrency": 3, "staleness_max": 9, "slack": 1, "lost_weight": 0.0 },
    }));
    let member =
        |client_number, clock, is_working| MemberClock { client_number, clock, is_working, missed_at_ms: None };
    let told = |clocks: &[MemberClock]| explain(&RoundStory { clocks, ..story(&round) }, 0);
    assert_eq!(
        told(&[member(4, 7, false), member(5, 5, true), member(6, 6, true)]),
        "Round 7 waits for 2 more of 3 updates, one for each member; 2 at work, and 1 waits for client 5, which has the \
         slowest clock."
    );
    assert_eq!(
        told(&[member(4, 6, true), member(5, 5, true)]),
        "Round 7 waits for 1 more of 2 updates, one for each member; 2 at work."
    );
    assert_eq!(
        told(&[member(4, 6, false), member(5, 5, true)]),
        "Round 7 waits for 1 more of 2 updates, one for each member; 1 at work.",
        "a member may be ahead by the slack"
    );
    assert_eq!(told(&[]), "Round 7 waits for clients: nobody is a member.");
}
