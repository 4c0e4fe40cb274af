//! What the dashboard shows of jobs and rounds.

use reqwest::Method;
use serde_json::{Value, json};
use tributary_protocol::operator::{Assignment, Curve, Job, Outlook, Overview, Page, Round, RoundDetail};
use tributary_protocol::problem::ProblemType;
use tributary_protocol::state::{AbandonReason, AssignmentState, Phase};

use crate::support::{NOW_MS, WEIGHTS, World, delta_file, evaluated_job, figures};

const STEP: [f32; WEIGHTS] = [0.5; WEIGHTS];

#[tokio::test]
async fn the_overview_shows_an_open_round_as_it_moves() {
    let world = World::start().await;
    let empty: Overview = world.look("/overview").await.ok();
    assert_eq!((empty.jobs.len(), empty.populations.len(), empty.now_at_ms), (0, 1, NOW_MS));
    let job = world.job(json!({ "round": { "updates_goal": 2 }, "stop": { "rounds": 9 } })).await;
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    world.hand.advance_ms(400);
    a.contribute(&first, &STEP, 10).await;

    let shown: Overview = world.look("/overview").await.ok();
    let seen = &shown.jobs[0];
    assert_eq!((seen.job.head.id, seen.job.name.as_str(), seen.job.stop.rounds), (job.head.id, "steps", Some(9)));
    let open = &seen.open_rounds[0];
    assert_eq!((open.round.phase, open.round.reported, open.round.assigned), (Phase::Training, 1, 1));
    assert_eq!(open.round.clients_ms, 12, "what the device said it worked");
    let cells: Vec<_> = open.cells.iter().map(|cell| (cell.number, cell.state)).collect();
    assert_eq!(cells, [(1, AssignmentState::Reported), (2, AssignmentState::Assigned)]);
    assert!(seen.last_round.is_none() && seen.spark.is_empty());

    b.contribute(&second, &STEP, 10).await;
    world.drive().await;
    let shown: Overview = world.look("/overview").await.ok();
    let seen = &shown.jobs[0];
    let last = seen.last_round.as_ref().unwrap();
    assert_eq!((last.number, last.phase, last.closed_at_ms), (1, Phase::Committed, Some(NOW_MS + 400)));
    assert_eq!((last.clients_ms, last.assigned, last.traffic.bytes_up), (24, 0, seen.bytes_up));
    assert_eq!(seen.open_rounds[0].round.phase, Phase::Selecting);
    assert_eq!(seen.spark, [(1, None, Some(0.5))]);
    let stored: Round = world.round(job.head.id, 1).await;
    assert_eq!(*last, stored, "the same round everywhere");
}

#[tokio::test]
async fn accuracies_are_in_the_overview_and_on_the_curve() {
    let world = World::start().await;
    let job: Job = world.create_job(&evaluated_job(&json!({ "stop": { "accuracy": 0.85 } }))).await.ok();
    let trainer = world.device().await;
    let evaluator = world.device().await.with("evaluator", "yes");
    for (number, accuracy) in [(1, 0.55), (2, 0.8)] {
        let [work] = world.assign([&trainer]).await;
        world.hand.advance_ms(1_000);
        trainer.contribute(&work, &STEP, 10).await;
        world.drive().await;
        let [measure] = world.assign([&evaluator]).await;
        assert_eq!(measure.round, number);
        let report = json!({ "examples": 50, "loss": 1.0 - accuracy, "accuracy": accuracy, "evaluate_ms": 3 });
        assert_eq!(evaluator.evaluate(measure.id, &report).await.status, 200);
        world.drive().await;
    }
    let shown: Overview = world.look("/overview").await.ok();
    let seen = &shown.jobs[0];
    assert_eq!((seen.best_accuracy, seen.accuracy), (Some(0.8), Some(0.8)));
    assert_eq!(seen.spark.iter().map(|point| point.1).collect::<Vec<_>>(), [Some(0.55), Some(0.8)]);

    let curve: Curve = world.look(&format!("/jobs/{}/curve", job.head.id)).await.ok();
    let told: Vec<_> = curve.points.iter().map(|point| (point.round, point.wall_ms, point.accuracy)).collect();
    assert_eq!(told, [(1, 1_000, Some(0.55)), (2, 2_000, Some(0.8))]);
    let reached: Vec<_> = curve.targets.iter().map(|target| (target.accuracy, target.round)).collect();
    assert_eq!(reached, [(0.5, 2), (0.6, 2)], "40 of 50 make sure of 67 %, and 27.5 of 50 of 41 %");
    let on = seen.measured_on.unwrap();
    assert_eq!((on.examples, on.clients, on.worst), (50, 1, None));
    assert_eq!((curve.points[1].measured_on, seen.best_measured_on), (Some(on), Some(on)));
    for points in ["1", "0", "5001", "many"] {
        let path = format!("/jobs/{}/curve?points={points}", job.head.id);
        world.look(&path).await.refused(ProblemType::Malformed);
    }
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/1", job.head.id)).await.ok();
    assert_eq!(detail.evaluation.unwrap().accuracy, Some(0.55));
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/1?task=evaluate", job.head.id)).await.ok();
    assert!(detail.explanation.starts_with("The evaluation of round 1 took"), "{}", detail.explanation);
}

#[tokio::test]
async fn a_round_explains_itself_from_its_opening_to_its_end() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 2, "updates_min": 1 } })).await;
    world.drive().await;
    let look = async || -> RoundDetail { world.look(&format!("/jobs/{}/rounds/1", job.head.id)).await.ok() };
    let detail = look().await;
    assert_eq!(
        detail.explanation,
        "Round 1 waits for clients: 0 of the 2 it needs are checked in and eligible; in 1 min it starts with the clients \
         that wait, or is abandoned with fewer than 1 client."
    );
    assert_eq!((detail.phases.len(), detail.what_if.len()), (1, 0));
    let [a, b] = world.devices().await;
    let waiting = a.wait();
    world.until_waiting(1).await;
    assert!(look().await.explanation.contains("1 of the 2 it needs is checked in"));
    world.app().fleet.lobby.call([a.id]);
    waiting.await.unwrap();

    let [first, _second] = world.assign([&a, &b]).await;
    world.hand.advance_ms(2_500);
    a.contribute(&first, &STEP, 10).await;
    let explanation = look().await.explanation;
    assert_eq!(explanation, "Round 1 waits for 1 more of 2 updates (1 client still works, the deadline is in 7.5 s).");
    world.pass_ms(7_500).await;
    let detail = look().await;
    let expected = "Round 1 took 10 s: its whole deadline, because only 1 of 2 updates came; 1 did not report in time.";
    assert_eq!(detail.explanation, expected);
    let phases: Vec<_> = detail.phases.iter().map(|span| (span.phase, span.began_at_ms - NOW_MS)).collect();
    assert_eq!(phases, [(Phase::Selecting, 0), (Phase::Training, 0), (Phase::Aggregating, 10_000)]);
    let dropped: Vec<_> = detail.what_if.iter().map(|case| (case.deadline_ms, case.dropped)).take(3).collect();
    assert_eq!(dropped, [(1_000, 2), (2_000, 2), (3_000, 1)]);
    world.look(&format!("/jobs/{}/rounds/9", job.head.id)).await.refused(ProblemType::NotFound);
}

#[tokio::test]
async fn rounds_are_filtered_by_phase_and_reason_from_both_ends() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    let [work] = world.assign([&device]).await;
    device.contribute(&work, &STEP, 10).await;
    world.drive().await;
    world.pass_ms(60_000).await;
    let numbers = async |query: &str| -> Vec<u32> {
        let page: Page<Round> = world.look(&format!("/jobs/{}/rounds?{query}", job.head.id)).await.ok();
        page.items.iter().map(|round| round.number).collect()
    };
    assert_eq!(numbers("phase=committed").await, [1]);
    assert_eq!(numbers("phase=abandoned&reason=selection_timeout").await, [2]);
    assert_eq!(numbers("phase=abandoned&reason=fault").await, [0; 0]);
    assert_eq!(numbers("order=desc").await, [2, 1]);
    assert_eq!(numbers("order=desc&after=2").await, [1]);
    for query in ["phase=sleeping", "reason=none", "order=sideways"] {
        world.look(&format!("/jobs/{}/rounds?{query}", job.head.id)).await.refused(ProblemType::Malformed);
    }
    let detail: RoundDetail = world.look(&format!("/jobs/{}/rounds/2", job.head.id)).await.ok();
    assert_eq!(detail.round.reason, Some(AbandonReason::SelectionTimeout));
    assert_eq!(detail.explanation, "Round 2 was abandoned: fewer than 1 eligible client checked in within 1 min.");
}

#[tokio::test]
async fn rounds_are_sorted_by_a_figure_page_after_page() {
    let world = World::start().await;
    let job = world.job(json!({})).await;
    let device = world.device().await;
    for took_ms in [3_000, 9_000, 1_000] {
        let [work] = world.assign([&device]).await;
        world.hand.advance_ms(took_ms);
        device.contribute(&work, &STEP, 10).await;
        world.drive().await;
    }
    let pages = async |query: &str| -> Vec<u32> {
        let (mut numbers, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("/jobs/{}/rounds?limit=1&phase=committed&{query}{after}", job.head.id);
            let page: Page<Round> = world.look(&path).await.ok();
            numbers.extend(page.items.iter().map(|round| round.number));
            match page.next {
                Some(next) => after = format!("&after={next}"),
                None => return numbers,
            }
        }
    };
    assert_eq!(pages("sort=took&order=desc").await, [2, 1, 3]);
    assert_eq!(pages("sort=took").await, [3, 1, 2]);
    assert_eq!(pages("sort=accuracy&order=desc").await, [1, 2, 3], "none was measured");
    for query in ["sort=beauty", "sort=took&after=5", "sort=took&after=x:1"] {
        world.look(&format!("/jobs/{}/rounds?{query}", job.head.id)).await.refused(ProblemType::Malformed);
    }
}

/// Goal: the last rounds are played again with other deadlines, late reports and clients that never came included.
#[tokio::test]
async fn an_abandoned_round_says_how_much_longer_it_would_have_needed() {
    let world = World::start().await;
    let round = json!({ "updates_goal": 2, "updates_min": 2, "deadline_ms": 10_000 });
    let job = world.job(json!({ "round": round })).await;
    let path = format!("/jobs/{}/outlook", job.head.id);
    let empty: Outlook = world.look(&path).await.ok();
    assert_eq!((empty.rounds, empty.points.len(), empty.suggested_ms), (0, 0, None));
    let [a, b] = world.devices().await;
    let [first, second] = world.assign([&a, &b]).await;
    world.hand.advance_ms(2_000);
    a.contribute(&first, &STEP, 10).await;
    world.pass_ms(8_000).await;
    world.pass_ms(4_000).await;
    let late = b.put_update(second.id, &figures(10), delta_file(&second, &STEP)).await;
    late.refused(ProblemType::AssignmentClosed);
    let outlook: Outlook = world.look(&path).await.ok();
    assert_eq!((outlook.rounds, outlook.abandoned, outlook.deadline_ms), (1, 1, 10_000));
    assert_eq!((outlook.longest_ms, outlook.censored), (14_000, 0));
    let at = |deadline_ms| outlook.points.iter().rfind(|point| point.deadline_ms <= deadline_ms).unwrap();
    assert_eq!((at(10_000).reports, at(10_000).abandoned), (1.0, 1));
    assert_eq!((at(16_000).reports, at(16_000).abandoned), (2.0, 0));
    assert!((14_000..=16_000).contains(&outlook.suggested_ms.unwrap()), "{:?}", outlook.suggested_ms);
}

#[tokio::test]
async fn assignments_tell_the_course_of_each_session() {
    let world = World::start().await;
    let job = world.job(json!({ "round": { "updates_goal": 4, "updates_min": 1 } })).await;
    let [a, b, c, d] = world.devices().await;
    let a = a.with("ram_class", "8");
    let [first, second, third, fourth] = world.assign([&a, &b, &c, &d]).await;
    let model = format!("/jobs/{}/models/0", job.head.id);
    assert_eq!(crate::support::Answer::to(a.request(Method::GET, &model)).await.status, 200);
    a.contribute(&first, &STEP, 10).await;
    b.fail(second.id, "interrupted").await.value();
    c.put_update(third.id, &crate::support::figures(10), b"nonsense".to_vec())
        .await
        .refused(ProblemType::UpdateRejected);
    world.pass_ms(10_000).await;
    d.status(fourth.id).await.refused(ProblemType::AssignmentClosed);
    let all = world.assignments(job.head.id, 1).await;
    let shapes: Vec<_> = all.iter().map(|assignment| assignment.shape.as_str()).collect();
    assert_eq!(shapes, ["cadtu+", "cai", "cadtu!", "ca.s"]);
    assert_eq!(all[0].attributes.as_map()["ram_class"], "8");
    let path = format!("/jobs/{}/rounds/1/assignments?state=expired", job.head.id);
    let expired: Page<Assignment> = world.look(&path).await.ok();
    assert_eq!(expired.items, all[3..]);
    let funnel: Value = world.look(&format!("/jobs/{}/shapes?attribute=ram_class", job.head.id)).await.value();
    let counted = funnel.as_array().unwrap().iter().find(|shape| shape["shape"] == "cadtu+").unwrap();
    assert_eq!(counted["by_class"], json!({ "8": 1 }));
    world.look(&format!("/jobs/{}/shapes?rounds=0", job.head.id)).await.refused(ProblemType::Malformed);
}
