//! The metrics of a round as points of curves, whose names are the same in every tool.

use tributary_protocol::operator::Round;
use tributary_protocol::state::{Phase, Task};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// The curve's name. A slash makes groups in TensorBoard and MLflow.
    pub(super) name: &'static str,
    /// The round's number.
    pub(super) step: u32,
    /// The end of the round, in milliseconds since 1970.
    pub(super) at_ms: i64,
    pub(super) value: f64,
}

/// The points of an ended round; an open round has none. An abandoned round has counts but no losses.
pub(super) fn points(round: &Round) -> Vec<Point> {
    let Some(at_ms) = round.ended_at_ms else { return Vec::new() };
    let count = |count: u32| Some(f64::from(count));
    let values = match round.task {
        Task::Train => vec![
            ("training/loss", round.training_loss),
            ("training/examples", Some(round.weight as f64)),
            ("round/committed", Some(f64::from(u8::from(round.phase == Phase::Committed)))),
            ("round/cohort", count(round.cohort)),
            ("round/reported", count(round.reported)),
            ("round/rejected", count(round.rejected)),
            ("round/failed", count(round.failed)),
            ("round/expired", count(round.expired)),
            ("round/seconds", Some((at_ms - round.opened_at_ms).max(0) as f64 / 1000.0)),
            ("bytes/up", Some(round.bytes_up as f64)),
            ("bytes/down", Some(round.bytes_down as f64)),
        ],
        Task::Evaluate => vec![
            ("evaluation/loss", round.loss),
            ("evaluation/accuracy", round.accuracy),
            ("evaluation/examples", Some(round.weight as f64)),
        ],
    };
    let step = round.number;
    let known = values.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| value.is_finite())?)));
    known.map(|(name, value)| Point { name, step, at_ms, value }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::round;

    #[test]
    fn a_training_round_and_its_evaluation_have_curves_of_their_own() {
        let mut train = round(Task::Train, 3, Phase::Committed);
        (train.training_loss, train.accuracy, train.bytes_up) = (Some(0.5), Some(0.9), 7);
        let points_of = points(&train);
        assert_eq!(points_of[0], Point { name: "training/loss", step: 3, at_ms: 30, value: 0.5 });
        assert!(points_of.iter().all(|point| !point.name.starts_with("evaluation")));
        let mut evaluation = round(Task::Evaluate, 3, Phase::Committed);
        evaluation.accuracy = Some(0.9);
        let names: Vec<_> = points(&evaluation).iter().map(|point| point.name).collect();
        assert_eq!(names, ["evaluation/accuracy", "evaluation/examples"]);
    }

    #[test]
    fn an_open_round_has_no_points_and_an_abandoned_one_no_loss() {
        assert!(points(&round(Task::Train, 1, Phase::Training)).is_empty());
        let abandoned = points(&round(Task::Train, 1, Phase::Abandoned));
        assert!(abandoned.iter().all(|point| point.name != "training/loss"));
        assert!(abandoned.iter().any(|point| (point.name, point.value) == ("round/committed", 0.0)));
    }
}
