//! What a round measured beside loss and accuracy, as text: named scalars and counts by class.

use tributary_protocol::classes::ClassCounts;
use tributary_protocol::inputs::Inputs;
use tributary_protocol::operator::{MeasuredOn, RoundDetail, ScalarSummary};

use crate::format::{or_dash, percent};
use crate::job::scalars::figure;
use crate::output;

/// Classes of a confusion matrix that fit a terminal. `--json` has all of them.
const SHOWN_CLASSES_MAX: usize = 20;

/// Tables of a round's metrics and classes, each with a heading; empty without any. `inputs` name the classes.
pub(super) fn tables(detail: &RoundDetail, inputs: Option<&Inputs>, width: Option<u16>) -> String {
    let name = |class: usize| {
        inputs.and_then(|inputs| inputs.class_name(class)).map_or_else(|| class.to_string(), ToString::to_string)
    };
    let mut parts = Vec::new();
    let lists = [("metrics", &detail.round.metrics), ("metrics of the evaluation", &detail.round.evaluation_metrics)];
    for (heading, metrics) in lists.into_iter().filter(|(_, metrics)| !metrics.is_empty()) {
        let header = ["metric", "mean", "min", "p10", "p50", "p90", "max", "reports"];
        parts.push(format!("{heading}\n{}", output::table(&header, metrics.iter().map(row), width)));
    }
    if let Some(classes) = &detail.classes {
        let names: Vec<String> = (0..classes.classes()).map(name).collect();
        let tables = class_tables(classes, &names, width);
        parts.push(format!("classes{}\n{tables}", of_whom(detail.classes_measured_on)));
    }
    parts.into_iter().map(|part| format!("\n\n{part}")).collect()
}

fn row(metric: &ScalarSummary) -> Vec<String> {
    let ScalarSummary { name, reports, mean, min, p10, p50, p90, max } = metric;
    let figures = [mean, min, p10, p50, p90, max].map(|value| figure(*value));
    [vec![name.to_string()], figures.to_vec(), vec![reports.to_string()]].concat()
}

fn class_tables(counts: &ClassCounts, names: &[String], width: Option<u16>) -> String {
    let totals = counts.totals();
    let classes = totals.examples.iter().zip(&totals.right).zip(names);
    let rows = classes.map(|((examples, right), name)| {
        let accuracy = (*examples > 0).then(|| *right as f64 / *examples as f64);
        vec![name.clone(), examples.to_string(), right.to_string(), or_dash(accuracy, percent)]
    });
    let accuracy = output::table(&["class", "examples", "right", "accuracy"], rows, width);
    let matrix = match counts {
        ClassCounts::Confusion { classes, counts } if (*classes as usize) <= SHOWN_CLASSES_MAX => {
            format!("\n\nconfusion (a row per true class)\n{}", matrix(names, counts, width))
        }
        ClassCounts::Confusion { classes, .. } => format!("\n\nthe confusion matrix of {classes} classes is in --json"),
        ClassCounts::PerClass { .. } => String::new(),
    };
    accuracy + &matrix
}

/// As ` of 266 examples of 14 clients`; empty while the evaluation is open.
fn of_whom(on: Option<MeasuredOn>) -> String {
    match on {
        Some(MeasuredOn { examples, clients: 0, .. }) => format!(" of {examples} examples of the test set"),
        Some(MeasuredOn { examples, clients: 1, .. }) => format!(" of {examples} examples of 1 client"),
        Some(MeasuredOn { examples, clients, .. }) => format!(" of {examples} examples of {clients} clients"),
        None => String::new(),
    }
}

fn matrix(names: &[String], counts: &[u64], width: Option<u16>) -> String {
    let header: Vec<&str> = std::iter::once("true").chain(names.iter().map(String::as_str)).collect();
    let rows = counts
        .chunks(names.len().max(1))
        .zip(names)
        .map(|(row, name)| std::iter::once(name.clone()).chain(row.iter().map(ToString::to_string)).collect());
    output::table(&header, rows, width)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::round;
    use tributary_protocol::state::{Phase, Task};

    fn detail(classes: Option<ClassCounts>) -> RoundDetail {
        let mut round = round(Task::Evaluate, 1, Phase::Committed);
        round.metrics = vec![ScalarSummary {
            name: "auc".parse().unwrap(),
            reports: 2,
            mean: 0.8,
            min: 0.7,
            p10: 0.7,
            p50: 0.7,
            p90: 0.9,
            max: 0.9,
        }];
        RoundDetail {
            round,
            phases: vec![],
            explanation: String::new(),
            evaluation: None,
            classes,
            classes_measured_on: Some(MeasuredOn {
                examples: 3,
                clients: 2,
                low: 0.2,
                high: 0.9,
                worst: Some(0.5),
                p10: Some(0.5),
            }),
            what_if: vec![],
            staleness: vec![],
            clocks: vec![],
            groups: vec![],
            ring: None,
            waiting_for_group: 0,
        }
    }

    #[test]
    fn classes_have_an_accuracy_each_and_a_matrix_while_it_fits() {
        let mut counts = ClassCounts::of_classes(3).unwrap();
        [(0, 0), (0, 1), (1, 1)].iter().for_each(|(truth, predicted)| counts.count(*truth, *predicted));
        let text = tables(&detail(Some(counts.clone())), None, None);
        assert!(text.contains("auc     0.8   0.7  0.7  0.7  0.9  0.9  2"), "{text}");
        assert!(
            text.contains("0      2         1      50.00 %") && text.contains("2      0         0      -"),
            "{text}"
        );
        assert!(text.contains("classes of 3 examples of 2 clients"), "{text}");
        assert!(text.contains("confusion (a row per true class)") && text.contains("\n0     1  1  0"), "{text}");
        let inputs = json!({ "target": { "name": "kind", "classes": ["oak", "elm", "fir"] } });
        let named = tables(&detail(Some(counts)), Some(&serde_json::from_value(inputs).unwrap()), None);
        assert!(named.contains("\noak    2 ") && named.contains("\noak   1    1    0"), "{named}");
        let many = tables(&detail(ClassCounts::of_classes(50)), None, None);
        assert!(many.contains("the confusion matrix of 50 classes is in --json"), "{many}");
        assert!(!tables(&detail(ClassCounts::of_classes(200)), None, None).contains("confusion"));
    }

    #[test]
    fn a_round_without_them_has_no_tables() {
        let mut plain = detail(None);
        plain.round.metrics.clear();
        assert_eq!(tables(&plain, None, None), "");
    }
}
