//! Learning curves: costs added up round by round, reduced to the points that a screen can show, and the cost of
//! reaching accuracies.

use tributary_protocol::operator::{Curve, CurvePoint, MeasuredOn, ScalarCurve, ScalarPoint, Target};
use tributary_protocol::state::Task;

/// Accuracies whose cost a curve states, besides the one at which the job ends.
const TARGETS: [f64; 9] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99];

/// An ended training round with the columns of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurveRow {
    pub round: u32,
    pub abandoned: bool,
    pub ended_at_ms: i64,
    /// Number of clients selected.
    pub cohort: u32,
    /// Number of accepted reports.
    pub reported: u32,
    /// Time that the clients worked for their accepted reports, in milliseconds.
    pub clients_ms: u64,
    /// Bytes that the clients sent.
    pub bytes_up: u64,
    /// Bytes that the clients fetched.
    pub bytes_down: u64,
    /// Mean training loss.
    pub training_loss: Option<f64>,
    /// Loss of the model that the round produced, once it is evaluated.
    pub loss: Option<f64>,
    /// Accuracy of the model that the round produced, once it is evaluated.
    pub accuracy: Option<f64>,
    /// What that accuracy was measured on.
    pub measured_on: Option<MeasuredOn>,
}

/// The curve of a job that was created at `created_at_ms`, from its ended training rounds in order, with at most
/// `points_max` points (at least 2).
///
/// Between the first and the last round, each stretch of equal length contributes its lowest and its highest point, by
/// the lower bound of the accuracy where it is known, else by loss. So a spike of a single round among 60,000 stays
/// visible. Costs are added up over all rounds, shown or not.
pub fn curve(created_at_ms: i64, rows: &[CurveRow], points_max: usize, stop_accuracy: Option<f64>) -> Curve {
    let mut sum = CurvePoint {
        round: 0,
        at_ms: 0,
        wall_ms: 0,
        clients_ms: 0,
        bytes_up: 0,
        bytes_down: 0,
        training_loss: None,
        loss: None,
        accuracy: None,
        measured_on: None,
        reported: 0,
        cohort: 0,
        abandoned: false,
    };
    let mut wanted: Vec<f64> = TARGETS.into_iter().chain(stop_accuracy).collect();
    wanted.sort_by(f64::total_cmp);
    wanted.dedup();
    let mut wanted = wanted.into_iter().peekable();
    let mut targets = Vec::new();
    let mut thinner = Thinner::new(rows.len(), points_max, height);
    for row in rows {
        sum = CurvePoint {
            round: row.round,
            at_ms: row.ended_at_ms,
            wall_ms: row.ended_at_ms.saturating_sub(created_at_ms),
            clients_ms: sum.clients_ms.saturating_add(row.clients_ms),
            bytes_up: sum.bytes_up.saturating_add(row.bytes_up),
            bytes_down: sum.bytes_down.saturating_add(row.bytes_down),
            training_loss: row.training_loss,
            loss: row.loss,
            accuracy: row.accuracy,
            measured_on: row.measured_on,
            reported: row.reported,
            cohort: row.cohort,
            abandoned: row.abandoned,
        };
        let reached = sure(row.accuracy, row.measured_on);
        while let Some(accuracy) = wanted.next_if(|wanted| reached.is_some_and(|reached| reached >= *wanted)) {
            let CurvePoint { round, at_ms, clients_ms, bytes_up, .. } = sum;
            targets.push(Target { accuracy, round, at_ms, clients_ms, bytes_up });
        }
        thinner.take(sum);
    }
    Curve { points: thinner.finish(), rounds: rows.len() as u64, targets, marks: Vec::new() }
}

/// The accuracy of which a measurement makes sure.
fn sure(accuracy: Option<f64>, measured_on: Option<MeasuredOn>) -> Option<f64> {
    measured_on.map(|on| on.low).or(accuracy)
}

/// The course of a named scalar over the rounds that have it, in order, with at most `points_max` points (at least 2):
/// the first, the last, and of each stretch in between the largest and the smallest mean. None without rounds.
pub fn scalar_curve(task: Task, points: Vec<ScalarPoint>, points_max: usize) -> Option<ScalarCurve> {
    let name = points.first()?.summary.name.clone();
    let rounds = points.len() as u64;
    let mut thinner = Thinner::new(points.len(), points_max, |point: &ScalarPoint| (0, point.summary.mean));
    points.into_iter().for_each(|point| thinner.take(point));
    Some(ScalarCurve { name, task, rounds, points: thinner.finish() })
}

/// Keeps the first point, the last point, and of each bucket in between the lowest and the highest.
struct Thinner<P> {
    count: usize,
    seen: usize,
    /// Number of buckets between first and last; none where every point is kept.
    buckets: Option<usize>,
    bucket: usize,
    ends: Option<Ends<P>>,
    /// The rank of a point's known measure, and its value; only points of equal rank are compared.
    height: fn(&P) -> (u8, f64),
    kept: Vec<P>,
}

/// The lowest and the highest point of a bucket, among the points with the best known measure.
struct Ends<P> {
    kind: u8,
    low: End<P>,
    high: End<P>,
}

#[derive(Clone)]
struct End<P> {
    height: f64,
    /// Place among all points.
    index: usize,
    point: P,
}

impl<P: Clone> Thinner<P> {
    fn new(count: usize, points_max: usize, height: fn(&P) -> (u8, f64)) -> Self {
        let points_max = points_max.max(2);
        let buckets = (count > points_max).then_some((points_max - 2) / 2);
        Self { count, seen: 0, buckets, bucket: 0, ends: None, height, kept: Vec::with_capacity(count.min(points_max)) }
    }

    fn take(&mut self, point: P) {
        let index = self.seen;
        self.seen += 1;
        match self.buckets {
            Some(buckets) if index > 0 && index + 1 < self.count => {
                let bucket = (index - 1) * buckets / (self.count - 2);
                if bucket != self.bucket {
                    self.close();
                    self.bucket = bucket;
                }
                if buckets > 0 {
                    self.widen(index, point);
                }
            }
            _ => {
                self.close();
                self.kept.push(point);
            }
        }
    }

    fn widen(&mut self, index: usize, point: P) {
        let (kind, height) = (self.height)(&point);
        let alone = End { height, index, point };
        match &mut self.ends {
            Some(ends) if ends.kind > kind => {}
            Some(ends) if ends.kind == kind => {
                if height > ends.high.height {
                    ends.high = alone.clone();
                }
                if height < ends.low.height {
                    ends.low = alone;
                }
            }
            ends => *ends = Some(Ends { kind, low: alone.clone(), high: alone }),
        }
    }

    /// Emits the points of the bucket in their order.
    fn close(&mut self) {
        let Some(Ends { low, high, .. }) = self.ends.take() else { return };
        let (first, second) = if low.index < high.index { (low, high) } else { (high, low) };
        let is_one = first.index == second.index;
        self.kept.push(first.point);
        if !is_one {
            self.kept.push(second.point);
        }
    }

    fn finish(mut self) -> Vec<P> {
        self.close();
        self.kept
    }
}

/// The rank of the known measure (accuracy before loss before training loss), and its value.
fn height(point: &CurvePoint) -> (u8, f64) {
    match (sure(point.accuracy, point.measured_on), point.loss, point.training_loss) {
        (Some(accuracy), ..) => (3, accuracy),
        (None, Some(loss), _) => (2, -loss),
        (None, None, Some(loss)) => (1, -loss),
        (None, None, None) => (0, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_protocol::operator::ScalarSummary;

    use super::*;

    fn row(round: u32, accuracy: Option<f64>) -> CurveRow {
        CurveRow {
            round,
            abandoned: accuracy.is_none(),
            ended_at_ms: 1_000 + i64::from(round) * 10,
            cohort: 3,
            reported: 2,
            clients_ms: 5,
            bytes_up: 7,
            bytes_down: 11,
            training_loss: None,
            loss: None,
            accuracy,
            measured_on: None,
        }
    }

    #[test]
    fn costs_add_up_and_time_counts_from_the_jobs_creation() {
        let rows = [row(1, Some(0.2)), row(2, None), row(3, Some(0.4))];
        let curve = curve(1_000, &rows, 10, None);
        assert_eq!((curve.points.len(), curve.rounds), (3, 3));
        let last = curve.points[2];
        assert_eq!((last.round, last.at_ms, last.wall_ms), (3, 1_030, 30));
        assert_eq!((last.clients_ms, last.bytes_up, last.bytes_down), (15, 21, 33));
        assert!(curve.points[1].abandoned && curve.targets.is_empty());
    }

    #[test]
    fn a_target_is_the_first_round_that_reached_it() {
        let rows = [row(1, Some(0.3)), row(2, Some(0.72)), row(3, Some(0.55)), row(4, Some(0.91))];
        let reached: Vec<_> =
            curve(0, &rows, 10, Some(0.75)).targets.iter().map(|target| (target.accuracy, target.round)).collect();
        assert_eq!(reached, [(0.5, 2), (0.6, 2), (0.7, 2), (0.75, 4), (0.8, 4), (0.9, 4)]);
        assert_eq!(curve(0, &rows, 10, Some(0.5)).targets.len(), 5, "a target is listed once");
    }

    #[test]
    fn nothing_is_a_curve_too() {
        assert_eq!(curve(0, &[], 400, None), Curve { points: vec![], rounds: 0, targets: vec![], marks: vec![] });
        assert_eq!(curve(0, &[row(1, None)], 2, None).points.len(), 1);
    }

    #[test]
    fn the_course_of_a_metric_keeps_its_ends_and_its_extremes() {
        let point = |round: u32| {
            let value = if round == 70 { 9.0 } else { f64::from(round % 7) };
            let name = "auc".parse().unwrap();
            let summary = ScalarSummary {
                name,
                reports: 1,
                mean: value,
                min: value,
                p10: value,
                p50: value,
                p90: value,
                max: value,
            };
            ScalarPoint { round, at_ms: 0, summary }
        };
        let curve = scalar_curve(Task::Evaluate, (1..=100).map(point).collect(), 10).unwrap();
        let rounds: Vec<u32> = curve.points.iter().map(|point| point.round).collect();
        assert_eq!((curve.rounds, rounds[0], rounds[rounds.len() - 1]), (100, 1, 100));
        assert!(rounds.len() <= 10 && rounds.contains(&70) && rounds.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(scalar_curve(Task::Train, Vec::new(), 10), None);
    }

    #[test]
    fn a_spike_of_one_round_among_many_is_seen() {
        let mut rows: Vec<_> = (1..=60_000).map(|round| row(round, Some(0.8))).collect();
        rows[40_321].accuracy = Some(0.1);
        rows[12_345].accuracy = Some(0.99);
        let curve = curve(0, &rows, 400, None);
        assert!(curve.points.len() <= 400);
        for spike in [40_322, 12_346] {
            assert!(curve.points.iter().any(|point| point.round == spike), "round {spike}");
        }
    }

    proptest! {
        #[test]
        fn a_curve_keeps_its_ends_its_order_and_its_size(
            accuracies in prop::collection::vec(prop::option::of(0.0..1.0f64), 1..300), points_max in 0usize..50,
        ) {
            let rows: Vec<_> = (1..).zip(&accuracies).map(|(round, accuracy)| row(round, *accuracy)).collect();
            let curve = curve(0, &rows, points_max, None);
            let rounds: Vec<_> = curve.points.iter().map(|point| point.round).collect();
            prop_assert_eq!((rounds[0], rounds[rounds.len() - 1]), (1, accuracies.len() as u32));
            prop_assert!(rounds.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(rounds.len() <= points_max.max(2));
            prop_assert!(accuracies.len() > points_max || rounds.len() == accuracies.len());
            for point in &curve.points {
                prop_assert_eq!(point.bytes_up, 7 * u64::from(point.round), "costs of hidden rounds count too");
            }
            let best = accuracies.iter().flatten().copied().fold(f64::MIN, f64::max);
            let shown = curve.points.iter().filter_map(|point| point.accuracy).fold(f64::MIN, f64::max);
            prop_assert!(points_max < 4 || shown == best, "the best round is shown");
        }
    }
}
