//! `tributary job metrics`: the named scalars that a job's clients report.

use tributary_protocol::operator::ScalarCurve;

use super::args::JobArgs;
use super::find::find_job;
use crate::api::Api;
use crate::error::CliError;
use crate::output::{self, Output};

/// Points per curve of `--json`.
const POINTS: u32 = 1_000;

const HEADER: [&str; 11] =
    ["metric", "task", "round", "mean", "means so far", "min", "p10", "p50", "p90", "max", "reports"];

pub(super) async fn run(args: &JobArgs, api: &Api, output: &Output) -> Result<(), CliError> {
    let job = find_job(api, args).await?;
    let curves = api.scalar_curves(job.head.id, POINTS).await?;
    output.object(&curves, || match curves.as_slice() {
        [] => format!("no client of {} has reported a metric", job.file.name),
        curves => output::table(&HEADER, curves.iter().filter_map(row), output.width),
    })
}

/// The newest round of a metric, and the range of its means.
fn row(curve: &ScalarCurve) -> Option<Vec<String>> {
    let last = curve.points.last()?;
    let means = || curve.points.iter().map(|point| point.summary.mean);
    let (low, high) = (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max));
    let summary = &last.summary;
    let figures = [summary.min, summary.p10, summary.p50, summary.p90, summary.max].map(figure);
    let row = [
        vec![curve.name.to_string(), curve.task.to_string(), last.round.to_string(), figure(summary.mean)],
        vec![format!("{} to {}", figure(low), figure(high))],
        figures.to_vec(),
        vec![summary.reports.to_string()],
    ];
    Some(row.concat())
}

/// A value of unknown size, with at most six digits.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        1e-4..1e6 => {
            let places = if value.abs() < 1.0 { 4 } else { 3 };
            let text = format!("{value:.places$}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => format!("{value:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Fake, job, output};

    #[test]
    fn figures_are_short_whatever_their_size() {
        let cases = [(0.0, "0"), (0.91, "0.91"), (0.123_456, "0.1235"), (14.2, "14.2"), (1e9, "1.000e9"), (-3.0, "-3")];
        for (value, expected) in cases {
            assert_eq!(figure(value), expected);
        }
    }

    #[tokio::test]
    async fn each_metric_is_a_line_with_its_newest_distribution() {
        let point = |round: u32, mean: f64| {
            json!({ "round": round, "at_ms": 0, "name": "auc", "reports": 3, "mean": mean, "min": 0.5, "p10": 0.5,
                    "p50": 0.7, "p90": 0.9, "max": 0.9 })
        };
        let curve =
            json!({ "name": "auc", "task": "evaluate", "rounds": 2, "points": [point(1, 0.9), point(2, 0.75)] });
        let fake = Fake { jobs: vec![job(1, "demo", "digits")], scalar_curves: json!([curve]), ..Fake::default() };
        let api = fake.start().await;
        let (output, printed) = output(false);
        let args = JobArgs { job: "digits".into(), population: None };
        run(&args, &api, &output).await.unwrap();
        let text = printed.lock().unwrap().clone();
        assert!(text.contains("auc     evaluate  2      0.75  0.75 to 0.9   0.5  0.5  0.7  0.9  0.9  3"), "{text}");
    }
}
