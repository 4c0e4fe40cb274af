//! The metrics of a round as points of curves, whose names are the same in every tool.

use std::borrow::Cow;

use tributary_protocol::classes::CONFUSION_CLASSES_MAX;
use tributary_protocol::operator::Round;
use tributary_protocol::state::{Phase, Task};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// The curve's name. A slash makes groups in TensorBoard and MLflow.
    pub(super) name: Cow<'static, str>,
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
            ("bytes/up", Some(round.traffic.bytes_up as f64)),
            ("bytes/down", Some(round.traffic.bytes_down as f64)),
        ],
        Task::Evaluate => vec![
            ("evaluation/loss", round.loss),
            ("evaluation/accuracy", round.accuracy),
            ("evaluation/examples", Some(round.weight as f64)),
        ],
        Task::Describe => Vec::new(),
    };
    let step = round.number;
    let known =
        values.into_iter().filter_map(|(name, value)| Some((name.into(), value.filter(|value| value.is_finite())?)));
    let more = named(round).into_iter().map(|(name, value)| (Cow::Owned(name), value));
    known.chain(more).map(|(name, value)| Point { name, step, at_ms, value }).collect()
}

/// Named scalars, and the accuracy of each class.
fn named(round: &Round) -> Vec<(String, f64)> {
    let task = if round.task == Task::Train { "training" } else { "evaluation" };
    let mut values = Vec::new();
    for metric in &round.metrics {
        values.push((format!("{task}/{}", metric.name), metric.mean));
        let quantiles = [("p10", metric.p10), ("p50", metric.p50), ("p90", metric.p90)];
        values.extend(quantiles.map(|(quantile, value)| (format!("{task}/{}/{quantile}", metric.name), value)));
    }
    let classes = round.classes.iter().filter(|classes| classes.examples.len() <= CONFUSION_CLASSES_MAX);
    for (class, (examples, right)) in
        classes.flat_map(|classes| classes.examples.iter().zip(&classes.right)).enumerate()
    {
        if *examples > 0 {
            values.push((format!("{task}/class_accuracy/{class}"), *right as f64 / *examples as f64));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::round;
    use tributary_protocol::classes::ClassTotals;
    use tributary_protocol::operator::ScalarSummary;

    #[test]
    fn a_training_round_and_its_evaluation_have_curves_of_their_own() {
        let mut train = round(Task::Train, 3, Phase::Committed);
        (train.training_loss, train.accuracy, train.traffic.bytes_up) = (Some(0.5), Some(0.9), 7);
        let points_of = points(&train);
        assert_eq!(points_of[0], Point { name: "training/loss".into(), step: 3, at_ms: 30, value: 0.5 });
        assert!(points_of.iter().all(|point| !point.name.starts_with("evaluation")));
        let mut evaluation = round(Task::Evaluate, 3, Phase::Committed);
        evaluation.accuracy = Some(0.9);
        let names: Vec<_> = points(&evaluation).into_iter().map(|point| point.name).collect();
        assert_eq!(names, ["evaluation/accuracy", "evaluation/examples"]);
    }

    #[test]
    fn an_open_round_has_no_points_and_an_abandoned_one_no_loss() {
        assert!(points(&round(Task::Train, 1, Phase::Training)).is_empty());
        let abandoned = points(&round(Task::Train, 1, Phase::Abandoned));
        assert!(abandoned.iter().all(|point| point.name != "training/loss"));
        assert!(abandoned.iter().any(|point| (&*point.name, point.value) == ("round/committed", 0.0)));
    }

    #[test]
    fn metrics_and_classes_have_curves_of_their_own() {
        let mut evaluation = round(Task::Evaluate, 3, Phase::Committed);
        let name = "auc".parse().unwrap();
        let auc = ScalarSummary { name, reports: 2, mean: 0.8, min: 0.1, p10: 0.2, p50: 0.7, p90: 0.9, max: 1.0 };
        evaluation.metrics = vec![auc];
        evaluation.classes = Some(ClassTotals { examples: vec![4, 0, 2], right: vec![3, 0, 2] });
        let points = points(&evaluation);
        let value = |name: &str| points.iter().find(|point| point.name == name).map(|point| point.value);
        assert_eq!((value("evaluation/auc"), value("evaluation/auc/p90")), (Some(0.8), Some(0.9)));
        let classes = [0, 1, 2].map(|class| value(&format!("evaluation/class_accuracy/{class}")));
        assert_eq!(classes, [Some(0.75), None, Some(1.0)], "nothing is known of class 1");
    }
}
