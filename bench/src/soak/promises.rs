//! What must hold at the end of a soak, and the figures that are only reported: growth per simulated day.

use std::collections::BTreeSet;

use serde::Serialize;
use tributary_protocol::id::{AssignmentId, JobId};
use tributary_protocol::operator::Round;
use tributary_protocol::state::{AssignmentState, Phase, Straggler, Task};

use super::sample::Sample;
use super::tally::Sent;
use tributary::api::{Api, collect};
use tributary::error::CliError;

/// What the coordinator stored of one round.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    round: Round,
    reported: BTreeSet<AssignmentId>,
    late: u32,
}

/// The ledger of updates. Programs rely on the names of its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Ledger {
    pub(super) rounds: u32,
    pub(super) committed: u32,
    pub(super) abandoned: u32,
    /// Reasons of abandoned rounds with their numbers.
    pub(super) reasons: std::collections::BTreeMap<String, u32>,
    pub(super) acknowledged: u64,
    /// Acknowledged updates in committed rounds.
    pub(super) counted: u64,
    /// Acknowledged updates in abandoned rounds.
    pub(super) in_abandoned: u64,
    /// Updates that the coordinator stored, and whose devices never had an answer.
    pub(super) stored_unanswered: u64,
    pub(super) assigned: u64,
    pub(super) late: u64,
    pub(super) lost: u64,
    pub(super) spare: u64,
    pub(super) failed: u64,
    pub(super) rejected: u64,
    /// Sentences about promises that were broken.
    pub(super) broken: Vec<String>,
}

/// Reads all rounds and their assignments.
pub(super) async fn stored(api: &Api, job: JobId) -> Result<Vec<Stored>, CliError> {
    let rounds = collect(None, async |page| api.rounds(job, Task::Train, page).await).await?.items;
    let mut all = Vec::with_capacity(rounds.len());
    for round in rounds {
        let number = round.number;
        let listed = collect(None, async |page| api.assignments(job, number, Task::Train, page).await).await?;
        let of = |state| listed.items.iter().filter(move |assignment| assignment.state == state);
        let reported = of(AssignmentState::Reported).map(|assignment| assignment.id).collect();
        let late = of(AssignmentState::Expired).filter(|late| late.straggler == Some(Straggler::FinishedLate));
        let late = late.count() as u32;
        all.push(Stored { round, reported, late });
    }
    Ok(all)
}

/// Compares what devices were told with what is stored.
pub(super) fn judge(stored: &[Stored], sent: &Sent) -> Ledger {
    let mut ledger = Ledger { acknowledged: sent.acknowledged.len() as u64, ..Ledger::default() };
    let mut seen: BTreeSet<AssignmentId> = BTreeSet::new();
    for (place, Stored { round, reported, late }) in stored.iter().enumerate() {
        add(&mut ledger, round, *late);
        let number = round.number;
        if number as usize != place + 1 {
            ledger.broken.push(format!("round {number} follows round {place}"));
        }
        if round.ended_at_ms.is_none() {
            ledger.broken.push(format!("round {number} did not end: it is {}", round.phase));
        }
        let listed = reported.len() as u64;
        if u64::from(round.reported) != listed || round.weight != listed {
            let (counts, weight) = (round.reported, round.weight);
            ledger.broken.push(format!("round {number} has {listed} updates, counts {counts}, with weight {weight}"));
        }
        let acknowledged = reported.intersection(&sent.acknowledged).count() as u64;
        match round.phase {
            Phase::Committed => ledger.counted += acknowledged,
            _ => ledger.in_abandoned += acknowledged,
        }
        for update in reported {
            if !seen.insert(*update) {
                ledger.broken.push(format!("the update of {update} is in two rounds"));
            }
            match (sent.acknowledged.contains(update), sent.unanswered.contains(update)) {
                (true, _) => {}
                (false, true) => ledger.stored_unanswered += 1,
                (false, false) => ledger.broken.push(format!("nobody sent the update of {update}")),
            }
        }
    }
    for lost in sent.acknowledged.difference(&seen) {
        ledger.broken.push(format!("the update of {lost} was acknowledged and is not stored"));
    }
    ledger
}

fn add(ledger: &mut Ledger, round: &Round, late: u32) {
    ledger.rounds += 1;
    match (round.phase, round.reason) {
        (Phase::Committed, _) => ledger.committed += 1,
        (Phase::Abandoned, Some(reason)) => {
            ledger.abandoned += 1;
            *ledger.reasons.entry(reason.to_string()).or_default() += 1;
        }
        (Phase::Abandoned, None) => {
            ledger.abandoned += 1;
            ledger.broken.push(format!("round {} was abandoned without a reason", round.number));
        }
        _ => {}
    }
    ledger.assigned += u64::from(round.cohort);
    ledger.late += u64::from(late);
    ledger.lost += u64::from(round.expired.saturating_sub(round.spare));
    ledger.spare += u64::from(round.spare);
    ledger.failed += u64::from(round.failed);
    ledger.rejected += u64::from(round.rejected);
}

/// A figure at the start, in the middle and at the end, and how it grows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Growth {
    pub(super) start: f64,
    pub(super) middle: f64,
    pub(super) end: f64,
    /// The slope of the line of least squares through all samples but those of the first half day, in which caches
    /// fill.
    pub(super) per_day: f64,
}

/// How a figure of the samples grows; `None` with fewer than two samples that have it.
pub(super) fn growth(samples: &[Sample], figure: impl Fn(&Sample) -> Option<f64>) -> Option<Growth> {
    let points: Vec<(f64, f64)> = samples.iter().filter_map(|sample| Some((sample.day, figure(sample)?))).collect();
    let (first, last) = (points.first()?, points.last()?);
    let warm: Vec<_> = points.iter().copied().filter(|(day, _)| *day >= 0.5).collect();
    let fitted = if warm.len() < 2 { &points } else { &warm };
    let per_day = slope(fitted)?;
    Some(Growth { start: first.1, middle: points[points.len() / 2].1, end: last.1, per_day })
}

/// The slope of the line of least squares.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let squares: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    (squares > 0.0).then(|| points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> AssignmentId {
        AssignmentId::from_random([number; 16])
    }

    /// A round with as many updates as ids.
    fn round(number: u32, phase: Phase, updates: &[u8]) -> Stored {
        let count = updates.len() as u32;
        let round = serde_json::json!({
            "number": number, "task": "train", "phase": phase, "base_version": 0, "seed": 1, "goal": 2, "minimum": 1,
            "cohort": 4, "reported": count, "rejected": 0, "failed": 0, "expired": 2, "spare": 1, "opened_at_ms": 0,
            "ended_at_ms": 9, "weight": count, "bytes_up": 0, "bytes_down": 0,
        });
        let round = serde_json::from_value(round).unwrap();
        Stored { round, reported: updates.iter().map(|number| id(*number)).collect(), late: 1 }
    }

    fn sent(acknowledged: &[u8], unanswered: &[u8]) -> Sent {
        let ids = |numbers: &[u8]| numbers.iter().map(|number| id(*number)).collect();
        Sent { acknowledged: ids(acknowledged), unanswered: ids(unanswered) }
    }

    #[test]
    fn updates_that_are_stored_once_break_no_promise() {
        let rounds = [round(1, Phase::Committed, &[1, 2]), round(2, Phase::Committed, &[3])];
        let ledger = judge(&rounds, &sent(&[1, 2], &[3]));
        assert_eq!(ledger.broken, Vec::<String>::new());
        assert_eq!((ledger.counted, ledger.acknowledged, ledger.stored_unanswered), (2, 2, 1));
        assert_eq!((ledger.lost, ledger.spare, ledger.late), (2, 2, 2));
    }

    #[test]
    fn every_broken_promise_is_named() {
        let cases = [
            (vec![round(1, Phase::Committed, &[1])], sent(&[1, 2], &[]), "was acknowledged and is not stored"),
            (vec![round(1, Phase::Committed, &[1])], sent(&[], &[]), "nobody sent"),
            (
                vec![round(1, Phase::Committed, &[1]), round(2, Phase::Committed, &[1])],
                sent(&[1], &[]),
                "in two rounds",
            ),
            (vec![round(2, Phase::Committed, &[])], sent(&[], &[]), "round 2 follows round 0"),
            (vec![round(1, Phase::Abandoned, &[])], sent(&[], &[]), "without a reason"),
        ];
        for (rounds, sent, expected) in cases {
            let broken = judge(&rounds, &sent).broken;
            assert!(broken.len() == 1 && broken[0].contains(expected), "{expected}: {broken:?}");
        }
        let mut miscounted = round(1, Phase::Committed, &[1]);
        miscounted.round.weight = 2;
        assert_eq!(judge(&[miscounted], &sent(&[1], &[])).broken.len(), 1);
        let mut open = round(1, Phase::Committed, &[1]);
        open.round.ended_at_ms = None;
        assert_eq!(judge(&[open], &sent(&[1], &[])).broken.len(), 1);
    }

    #[test]
    fn a_slope_is_that_of_the_line_through_the_points() {
        let line: Vec<(f64, f64)> = (0..10).map(|day| (f64::from(day), 3.0 + 2.0 * f64::from(day))).collect();
        assert!((slope(&line).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(slope(&line[..1]), None);
    }
}
