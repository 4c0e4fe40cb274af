use tributary_protocol::id::ClientId;

use super::*;

fn running() -> HealthFacts<'static> {
    HealthFacts {
        state: JobState::Running,
        undriven: None,
        selecting: None,
        ended: Vec::new(),
        evaluation: None,
        lost: Lost::default(),
        unmeasured: None,
        shut_out: None,
        buffer: None,
        group: None,
        unable: None,
        listeners: None,
        other_tables: None,
        losses: Vec::new(),
        disk_full_in_ms: None,
        next_round_in_ms: None,
    }
}

fn selecting(available: u32) -> SelectingRound<'static> {
    SelectingRound { number: 4, available, needed: 13, minimum: 5, ends_in_ms: 213_000, wanted: None, lacking: None }
}

fn abandoned(number: u32) -> EndedRound<'static> {
    let explanation = "Round 3 was abandoned: fewer than 5 eligible clients checked in within 5 min.";
    EndedRound { number, abandoned: Some(AbandonReason::SelectionTimeout), explanation, failed: 0, drawn: 0 }
}

fn committed(number: u32) -> EndedRound<'static> {
    EndedRound { number, abandoned: None, explanation: "", failed: 0, drawn: 0 }
}

#[test]
fn a_round_whose_clients_gave_up_needs_no_longer_deadline() {
    let lost = |failed| EndedRound { abandoned: Some(AbandonReason::TooFewReports), failed, drawn: 10, ..abandoned(3) };
    for (failed, remedy) in [(5, "deadline_ms"), (6, "why the clients gave up")] {
        let lines = health(&HealthFacts { ended: vec![lost(failed); 3], ..running() }, 0);
        assert!(lines[0].remedy.as_ref().is_some_and(|text| text.contains(remedy)), "{lines:?}");
    }
}

/// The most severe line.
fn first(facts: &HealthFacts<'_>, now_ms: i64) -> Health {
    health(facts, now_ms).swap_remove(0)
}

#[track_caller]
fn is(facts: &HealthFacts<'_>, severity: Severity, kind: HealthKind, text: &str) {
    let health = first(facts, 48_000);
    assert_eq!((health.severity, health.kind, health.text.as_str()), (severity, kind, text));
    let acts = matches!(severity, Severity::Warning | Severity::Trouble);
    assert!(health.remedy.is_some() || !acts, "a finding has a remedy: {health:?}");
}

#[test]
fn tables_of_other_jobs_matter_to_a_round_that_lacks_clients() {
    let other_tables = Some(OtherTables { clients: vec![ClientId::from_random([1; 16])], of: 8 });
    let told = |available| {
        let other_tables = other_tables.clone();
        let facts = HealthFacts { other_tables, selecting: Some(selecting(available)), ..running() };
        health(&facts, 0).iter().any(|line| line.kind == HealthKind::OtherTables)
    };
    assert!(told(4) && !told(5));
    let facts = HealthFacts { other_tables: other_tables.clone(), ..running() };
    assert_eq!(health(&facts, 0)[0].kind, HealthKind::Fine);
}

#[test]
fn a_job_that_waits_says_for_how_many_clients() {
    let facts = HealthFacts { selecting: Some(selecting(1)), ..running() };
    is(
        &facts,
        Severity::Waiting,
        HealthKind::WaitingForClients,
        "round 4 waits for clients: 1 of 13 are here; in 3 min 33 s it starts with those, or is abandoned with fewer \
         than 5",
    );
    let lacking = Some("part east is held by 1 of 2 clients");
    let coded = HealthFacts { selecting: Some(SelectingRound { lacking, ..selecting(13) }), ..running() };
    is(
        &coded,
        Severity::Waiting,
        HealthKind::WaitingForClients,
        "round 4 waits for clients: 13 of 13 are here; part east is held by 1 of 2 clients; in 3 min 33 s it is \
         abandoned",
    );
    let wanted = Some(Wanted { attributes: "", matching: 2, enrolled: 2, present: "" });
    let few = HealthFacts { selecting: Some(SelectingRound { wanted, ..selecting(1) }), ..running() };
    let text = first(&few, 0);
    assert!(
        text.severity == Severity::Warning && text.text.ends_with("; 2 of 2 enrolled clients can join"),
        "{text:?}"
    );
    let enough = wanted.map(|wanted| Wanted { matching: 5, ..wanted });
    let few = HealthFacts { selecting: Some(SelectingRound { wanted: enough, ..selecting(1) }), ..running() };
    assert_eq!(first(&few, 0).severity, Severity::Waiting, "enough are enrolled");
    let over = HealthFacts { selecting: Some(SelectingRound { ends_in_ms: 0, ..selecting(1) }), ..running() };
    assert!(first(&over, 0).text.ends_with("1 of 13 are here; fewer than 5 are too few"));
}

#[test]
fn abandoned_rounds_say_how_many_and_why() {
    let ended = vec![abandoned(3), abandoned(2), committed(1), abandoned(1)];
    let facts = HealthFacts { ended, selecting: Some(selecting(1)), ..running() };
    is(
        &facts,
        Severity::Trouble,
        HealthKind::RoundsAbandoned,
        "3 of the last 4 rounds were abandoned. Round 3 was abandoned: fewer than 5 eligible clients checked in within \
         5 min.",
    );
    let kinds: Vec<_> = health(&facts, 0).into_iter().map(|line| line.kind).collect();
    assert_eq!(kinds, [HealthKind::RoundsAbandoned, HealthKind::WaitingForClients], "both lines are shown");
    let ended = vec![committed(6), abandoned(5), abandoned(4), abandoned(3), committed(2), abandoned(1)];
    let recovers = first(&HealthFacts { ended, ..running() }, 0);
    assert_eq!((recovers.severity, recovers.kind), (Severity::Warning, HealthKind::RoundsAbandoned));
    let ended = vec![abandoned(3), abandoned(2), committed(1)];
    assert_eq!(first(&HealthFacts { ended, ..running() }, 0).kind, HealthKind::Fine);
}

#[test]
fn the_most_urgent_finding_is_told() {
    let facts = HealthFacts {
        undriven: Some(Undriven { node: "south", seen_at_ms: 36_000, expires_at_ms: 46_000 }),
        ended: vec![abandoned(3), abandoned(2), abandoned(1)],
        ..running()
    };
    is(
        &facts,
        Severity::Trouble,
        HealthKind::NoDriver,
        "no coordinator drives the job: south was last seen 12 s ago, and no other coordinator has taken over",
    );
    let facts = HealthFacts { disk_full_in_ms: Some(3 * 24 * 3600 * 1000), ..running() };
    is(
        &facts,
        Severity::Warning,
        HealthKind::DiskFills,
        "the coordinator's disk is full in 3 d, if it fills as in the last 24 hours",
    );
    assert_eq!(first(&HealthFacts { disk_full_in_ms: Some(DISK_MS), ..running() }, 0).kind, HealthKind::Fine);
    let shut_out = ShutOut { attribute: "platform".into(), value: "pi".into(), clients: 4, assigned: 251 };
    is(
        &HealthFacts { shut_out: Some(shut_out), ..running() },
        Severity::Warning,
        HealthKind::ClassShutOut,
        "4 clients of platform=pi were drawn 251 times, and no update of theirs counted",
    );
}

#[test]
fn a_rising_loss_is_no_wobble() {
    let kind = |losses: &[f64]| first(&HealthFacts { losses: losses.to_vec(), ..running() }, 0).kind;
    assert_eq!(kind(&[0.9, 0.8, 0.7, 0.5, 0.45, 0.5]), HealthKind::LossRises);
    assert_eq!(kind(&[0.5, 0.9, 0.7, 0.6, 0.45, 0.5]), HealthKind::Fine, "the newest is as low as before");
    assert_eq!(kind(&[0.9, 0.8, 0.5, 0.5, 0.45, 0.5]), HealthKind::Fine, "the third is no higher than before");
    assert_eq!(kind(&[0.51, 0.52, 0.51, 0.5, 0.5, 0.5]), HealthKind::Fine, "too little to tell");
    assert_eq!(kind(&[0.9, 0.8, 0.7, 0.5, 0.45]), HealthKind::Fine, "too few to tell");
}

#[test]
fn an_evaluation_that_nobody_can_make_says_whom_it_wants() {
    let wanted = Some(Wanted { attributes: "role=nobody", matching: 0, enrolled: 18, present: "phone 18" });
    let round =
        SelectingRound { number: 8, available: 0, needed: 1, minimum: 1, ends_in_ms: 100_000, wanted, lacking: None };
    is(
        &HealthFacts { evaluation: Some(EvaluatorsWanted { round, is_last: true }), ..running() },
        Severity::Warning,
        HealthKind::WaitingForEvaluators,
        "trained; waits for its last evaluation: the evaluation of round 8 has 0 of the 1 evaluator it needs, and 0 of \
         18 enrolled clients have role=nobody (phone 18)",
    );
    let round = SelectingRound { wanted: None, ..round };
    let between = HealthFacts { evaluation: Some(EvaluatorsWanted { round, is_last: false }), ..running() };
    assert_eq!(first(&between, 0).kind, HealthKind::Fine, "they may come");
}

#[test]
fn an_evaluation_on_the_coordinator_asks_for_its_test_set() {
    let round = SelectingRound {
        number: 8,
        available: 0,
        needed: 1,
        minimum: 0,
        ends_in_ms: 100_000,
        wanted: None,
        lacking: None,
    };
    let facts = HealthFacts { evaluation: Some(EvaluatorsWanted { round, is_last: false }), ..running() };
    let health = first(&facts, 0);
    assert_eq!((health.severity, health.kind), (Severity::Warning, HealthKind::WaitingForEvaluators));
    assert!(health.remedy.is_some_and(|remedy| remedy.contains("test-set upload")), "{}", health.text);
    let facts = HealthFacts { evaluation: Some(EvaluatorsWanted { round, is_last: true }), ..running() };
    let text = first(&facts, 0).text;
    let expected =
        "trained; only the evaluation of round 8 waits for the test set of the job, and the job ends with it";
    assert_eq!(text, expected);
}

#[test]
fn an_ended_job_keeps_its_warnings() {
    let shut_out = ShutOut { attribute: "platform".into(), value: "pi".into(), clients: 4, assigned: 251 };
    let facts = HealthFacts {
        state: JobState::Completed,
        ended: [vec![committed(9); 6], vec![abandoned(3)]].concat(),
        lost: Lost { rounds: 7, of: 16 },
        unmeasured: Some("The evaluation of round 9 was abandoned: nobody came."),
        shut_out: Some(shut_out),
        disk_full_in_ms: Some(0),
        ..running()
    };
    let lines = health(&facts, 0);
    let kinds: Vec<_> = lines.iter().map(|line| (line.severity, line.kind)).collect();
    let expected = [
        (Severity::Warning, HealthKind::RoundsAbandoned),
        (Severity::Warning, HealthKind::NotMeasured),
        (Severity::Warning, HealthKind::ClassShutOut),
        (Severity::Ok, HealthKind::Ended),
    ];
    assert_eq!(kinds, expected);
    assert!(lines[0].text.starts_with("7 of 16 rounds were abandoned. Round 3 was abandoned"), "{lines:?}");
    assert!(lines[1].text.ends_with("nobody came."), "{lines:?}");
    let of = |rounds| health(&HealthFacts { lost: Lost { rounds, of: 16 }, ..facts.clone() }, 0)[0].kind;
    assert_eq!((of(3), of(2)), (HealthKind::RoundsAbandoned, HealthKind::NotMeasured));
    let stopped = EndedRound { abandoned: Some(AbandonReason::JobStopped), ..abandoned(4) };
    let facts = HealthFacts { state: JobState::Stopped, ended: vec![stopped; 5], ..running() };
    assert_eq!(health(&facts, 0).len(), 1, "a round that was stopped with its job is not lost");
    assert_eq!(health(&HealthFacts { unmeasured: Some(""), ..running() }, 0)[0].kind, HealthKind::Fine, "it runs");
}

#[test]
fn a_job_at_rest_says_so() {
    let at_rest = |state| first(&HealthFacts { state, ended: vec![committed(1); 5], ..running() }, 0);
    assert_eq!(at_rest(JobState::Completed).text, "completed");
    assert_eq!(
        (at_rest(JobState::Paused).severity, at_rest(JobState::Paused).kind),
        (Severity::Waiting, HealthKind::Paused)
    );
    assert!(at_rest(JobState::AwaitingModel).remedy.is_some());
    let waits = HealthFacts { next_round_in_ms: Some(6_000), ..running() };
    assert_eq!(first(&waits, 0).text, "the next round opens in 6 s");
}
