//! The members of a group fail in all ways that docs/groups.md names, as real processes.
//!
//! Goal: the round commits with those that are left, and nobody waits longer than a frame or the star allows. Method:
//! four `client run` processes, each behind two taps: one before its listener, which counts the frames of sums that its
//! left neighbour sends, and one before the coordinator. At a chosen frame or call a tap lets a member fail.

mod stage;
mod taps;

use std::time::Duration;

use serde_json::{Value, json};
use tributary_protocol::operator::{Round, RoundDetail, RoundRing};
use tributary_protocol::state::{AbandonReason, Phase, RingState, StarReason};

use crate::support;
use stage::{Fault, MEMBERS, Place, Row, Stage};

/// Steps of the schedule of four members.
const STEPS: u32 = 2 * (MEMBERS as u32 - 1);
const FRAME_MS: u64 = 1_000;
const DEADLINE_MS: u64 = 60_000;
/// That of a round which waits for it.
const SHORT_DEADLINE_MS: u64 = 10_000;
/// Share of the deadline after which groups form.
const FORM_BY: f64 = 0.1;
/// Share of the deadline after which the star begins.
const STAR_FROM: f64 = 0.5;
/// Only a failing test ever waits that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time that a loaded machine may add to a limit, in milliseconds.
const SLACK_MS: i64 = 5_000;

/// A round that is to be played.
#[derive(Clone, Copy, Debug)]
struct Plan {
    deadline_ms: u64,
    /// How it ends.
    phase: Phase,
    /// Of `[group]`.
    links: &'static str,
    attempts: u32,
}

const COMMITS: Plan = Plan { deadline_ms: DEADLINE_MS, phase: Phase::Committed, links: "direct", attempts: 2 };
const IS_ABANDONED: Plan = Plan { deadline_ms: SHORT_DEADLINE_MS, phase: Phase::Abandoned, ..COMMITS };
const RELAYS: Plan = Plan { links: "any", attempts: 8, ..COMMITS };

fn sections(plan: Plan) -> Value {
    let Plan { deadline_ms, links, attempts, .. } = plan;
    let group = json!({
        "topology": { "kind": "ring" }, "frame_ms": FRAME_MS, "form_by": FORM_BY, "star_from": STAR_FROM,
        "links": links, "attempts": attempts,
    });
    json!({
        "model": { "input": [stage::INPUTS], "layers": [{ "kind": "linear", "out_features": 2 }] },
        "training": { "epochs": 1, "batch_size": 8, "optimizer": { "kind": "sgd", "learning_rate": 0.1 } },
        "round": {
            "updates_goal": MEMBERS, "updates_min": MEMBERS - 1, "over_selection": 1.0, "available_min": MEMBERS,
            "selection_timeout_ms": 86_400_000, "deadline_ms": deadline_ms, "backoff_ms": 1, "backoff_max_ms": 1,
        },
        "group": group,
    })
}

fn row(victim: usize, place: Place) -> Row {
    Row { victim, place }
}

/// Lets members fail in a round of their own.
async fn play(stage: &Stage, plan: Plan, rows: &[Row]) -> (Round, RoundRing) {
    let Plan { deadline_ms, phase, .. } = plan;
    stage.arm(rows);
    let operator = stage.operator();
    let job = operator.create_job(1, &sections(plan), None).await;
    // A client that finds no job stays away for long.
    stage.begin();
    let ended = tokio::time::timeout(PATIENCE, operator.round_is(&job, 1, phase)).await;
    let RoundDetail { round, ring, .. } = operator.round(&job, 1).await;
    assert!(ended.is_ok() && !stage.is_armed(), "{rows:?}: {round:?}: {ring:?}");
    let ring = ring.expect("a job with groups");
    for failed in ring.attempts.iter().filter(|attempt| attempt.state == RingState::Failed) {
        // All have connected: one silence, and what the others need to come back.
        let took_ms = failed.since_ms - failed.formed_at_ms;
        assert!(took_ms <= FRAME_MS as i64 + SLACK_MS, "{rows:?}: {took_ms} ms: {failed:?}");
    }
    if let Some((closed, selected)) = round.closed_at_ms.zip(round.selected_at_ms) {
        let may_ms = (deadline_ms as f64 * STAR_FROM) as i64 + SLACK_MS;
        assert!(closed - selected <= may_ms, "{rows:?}: {round:?}");
    }
    stage.end();
    if phase == Phase::Abandoned {
        operator.stop_job(&job).await;
        operator.rounds_end(&job).await;
    }
    operator.delete_job(&job).await;
    (round, ring)
}

async fn commit(stage: &Stage, rows: &[Row]) -> (usize, RoundRing, Round) {
    let (round, ring) = play(stage, COMMITS, rows).await;
    (round.reported as usize, ring, round)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_killed_costs_its_update_at_most_wherever_it_dies() {
    let stage = Stage::start().await;
    for _ in 0..support::runs(2 * STEPS, 1) {
        for step in 0..STEPS {
            for place in [Place::Sum { step, fault: Fault::Killed }, Place::After { step }] {
                let (reported, ring, _) = commit(&stage, &[row(1, place)]).await;
                assert!((MEMBERS - 1..=MEMBERS).contains(&reported), "{place:?}: {ring:?}");
                assert_eq!(ring.star, None, "{place:?}: {ring:?}");
            }
        }
        let (reported, ring, _) = commit(&stage, &[row(3, Place::Ready)]).await;
        assert_eq!((reported, ring.attempts.len(), ring.star), (MEMBERS - 1, 1, None), "before: {ring:?}");
        let (reported, ring, _) = commit(&stage, &[row(1, Place::Joined)]).await;
        assert_eq!((reported, ring.star), (MEMBERS - 1, None), "ready: {ring:?}");
        let (reported, ring, _) = commit(&stage, &[row(1, Place::Outcome)]).await;
        assert_eq!((reported, ring.attempts.len(), ring.star), (MEMBERS, 1, None), "it has the sum: {ring:?}");
        let (reported, ring, _) = commit(&stage, &[row(0, Place::Upload)]).await;
        assert_eq!((reported, ring.star), (MEMBERS, None), "the uploader: {ring:?}");
        let asked = ring.attempts[0].members.iter().filter(|member| member.brings).count();
        assert_eq!(asked, 2, "another one brings the sum: {ring:?}");
        let rows = [row(1, Place::Sum { step: 1, fault: Fault::Killed }), row(2, Place::Ready)];
        let (round, ring) = play(&stage, IS_ABANDONED, &rows).await;
        assert_eq!(round.reason, Some(AbandonReason::TooFewReports), "{ring:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_stop_lie_come_back_or_are_cut_off_lose_no_round() {
    let stage = Stage::start().await;
    let sum = |victim, fault| row(victim, Place::Sum { step: 2, fault });
    let is_star = |ring: &RoundRing| matches!(ring.star, Some(StarReason::Attempts | StarReason::TooFew));
    for _ in 0..support::runs(2 * STEPS, 1) {
        let (reported, ring, _) = commit(&stage, &[sum(1, Fault::Stopped)]).await;
        assert_eq!((reported, ring.star), (MEMBERS - 1, None), "stopped: {ring:?}");
        let (reported, ring, _) = commit(&stage, &[sum(1, Fault::Restarted)]).await;
        assert!((MEMBERS - 1..=MEMBERS).contains(&reported) && ring.star.is_none(), "restarted: {ring:?}");
        for fault in [Fault::Cut, Fault::Slow] {
            let (reported, ring, _) = commit(&stage, &[sum(1, fault)]).await;
            assert!(reported >= MEMBERS - 1 && (ring.star.is_none() || is_star(&ring)), "{fault:?}: {ring:?}");
        }
        // Two halves, which both reach the coordinator.
        let (reported, ring, _) = commit(&stage, &[sum(1, Fault::Cut), sum(3, Fault::Cut)]).await;
        assert!(reported == MEMBERS && is_star(&ring), "halves: {ring:?}");
        let (reported, ring, round) = commit(&stage, &[row(2, Place::Lie('0'))]).await;
        assert_eq!((reported, round.rejected, ring.star), (MEMBERS - 1, 1, None), "a liar: {ring:?}");
        let lies = [row(1, Place::Lie('1')), row(2, Place::Lie('2'))];
        let (reported, ring, _) = commit(&stage, &lies).await;
        assert_eq!((reported, ring.star), (MEMBERS, Some(StarReason::Disagreement)), "two liars: {ring:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_cut_off_adds_up_through_the_coordinator() {
    for _ in 0..support::runs(2 * STEPS, 1) {
        let stage = Stage::start().await;
        let rows = [row(1, Place::Sum { step: 2, fault: Fault::Cut })];
        let (round, ring) = play(&stage, RELAYS, &rows).await;
        let relayed = ring.attempts.last().map(|attempt| attempt.members.iter().filter(|part| part.relayed).count());
        assert_eq!((round.reported as usize, ring.star, relayed), (MEMBERS, None, Some(1)), "{ring:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_member_is_left_out() {
    for _ in 0..support::runs(2 * STEPS, 1) {
        let stage = Stage::start().await;
        let place = Place::Sum { step: 2, fault: Fault::Revoked };
        let (reported, ring, _) = commit(&stage, &[row(1, place)]).await;
        assert_eq!((reported, ring.star), (MEMBERS - 1, None), "{ring:?}");
    }
}
