//! Rounds as lines of a CSV file: one set of columns for all exports.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Round;
use crate::scalars::ScalarName;

/// The columns of every table, in order: the members of a [`Round`], and its times in ISO 8601 (UTC) beside those in
/// milliseconds.
const COLUMNS: [&str; 43] = [
    "number",
    "task",
    "phase",
    "reason",
    "opened_at",
    "ended_at",
    "accuracy",
    "loss",
    "training_loss",
    "cohort",
    "goal",
    "minimum",
    "reported",
    "spare",
    "expired",
    "failed",
    "rejected",
    "assigned",
    "weight",
    "bytes_up",
    "bytes_down",
    "raw_bytes_up",
    "raw_bytes_down",
    "clients_ms",
    "saved_ms",
    "step_norm",
    "norm_max",
    "clip_norm",
    "mu",
    "diversity",
    "base_version",
    "seed",
    "opened_at_ms",
    "selected_at_ms",
    "deadline_at_ms",
    "closed_at_ms",
    "ended_at_ms",
    "measured_on.examples",
    "measured_on.clients",
    "measured_on.low",
    "measured_on.high",
    "measured_on.worst",
    "measured_on.p10",
];

/// Members of a round that are no columns: named scalars have columns of their own, and counts by class are in JSON.
#[cfg(test)]
const LISTS: [&str; 3] = ["metrics", "evaluation_metrics", "classes"];
/// The member of a round whose figures are columns.
#[cfg(test)]
const MEASURED_ON: &str = "measured_on";

/// The columns of a named scalar.
const SCALAR_FIGURES: [&str; 7] = ["mean", "reports", "min", "p10", "p50", "p90", "max"];

/// The member of a round that has a named scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScalarsOf {
    /// The round's own reports: `metrics`.
    Round,
    /// The evaluation of the model of a training round: `evaluation_metrics`.
    Evaluation,
}

impl ScalarsOf {
    fn member(self) -> &'static str {
        match self {
            Self::Round => "metrics",
            Self::Evaluation => "evaluation_metrics",
        }
    }
}

/// A table of rounds.
#[derive(Clone, Debug, Default)]
pub struct RoundTable {
    metrics: BTreeSet<(ScalarsOf, ScalarName)>,
}

impl RoundTable {
    /// A table with columns for these named scalars.
    pub fn new(metrics: impl IntoIterator<Item = (ScalarsOf, ScalarName)>) -> Self {
        Self { metrics: metrics.into_iter().collect() }
    }

    /// A table with columns for the named scalars of these rounds.
    pub fn of(rounds: &[&Round]) -> Self {
        Self::new(rounds.iter().flat_map(|round| {
            let own = round.metrics.iter().map(|metric| (ScalarsOf::Round, metric.name.clone()));
            let evaluated = round.evaluation_metrics.iter();
            own.chain(evaluated.map(|metric| (ScalarsOf::Evaluation, metric.name.clone())))
        }))
    }

    /// The names of the columns as the first line, without its end.
    pub fn columns(&self) -> String {
        let figures = |(of, name): &(ScalarsOf, ScalarName)| {
            SCALAR_FIGURES.map(|figure| format!("{}.{name}.{figure}", of.member()))
        };
        let columns = COLUMNS.map(str::to_owned).into_iter();
        columns.chain(self.metrics.iter().flat_map(figures)).collect::<Vec<_>>().join(",")
    }

    /// A round as a line (RFC 4180), without its end. An absent value is an empty field.
    ///
    /// # Errors
    /// None in practice: a round has no value that JSON lacks.
    pub fn line(&self, round: &Round) -> Result<String, serde_json::Error> {
        let members = serde_json::to_value(round)?;
        let fixed = COLUMNS.map(|column| match column {
            "opened_at" => iso(round.opened_at_ms),
            "ended_at" => round.ended_at_ms.map(iso).unwrap_or_default(),
            member => match member.split_once('.') {
                Some((member, figure)) => field(&members[member][figure]),
                None => field(&members[member]),
            },
        });
        let figures = |(of, name): &(ScalarsOf, ScalarName)| {
            let metrics = members[of.member()].as_array().map(Vec::as_slice).unwrap_or_default();
            let metric = metrics.iter().find(|metric| metric["name"] == name.as_str());
            SCALAR_FIGURES.map(|figure| metric.map_or_else(String::new, |metric| field(&metric[figure])))
        };
        Ok(fixed.into_iter().chain(self.metrics.iter().flat_map(figures)).collect::<Vec<_>>().join(","))
    }
}

fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        // Words of enumerations, which need no quotes.
        Value::String(word) => word.clone(),
        number => number.to_string(),
    }
}

/// A time in ISO 8601, in UTC, to the millisecond: `2026-11-20T21:54:11.999Z`.
fn iso(at_ms: i64) -> String {
    let (days, ms) = (at_ms.div_euclid(86_400_000), at_ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute, second, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The date of a day since 1970 (Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_are_iso_8601() {
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(1_795_211_651_999), "2026-11-20T21:54:11.999Z");
        assert_eq!(iso(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn every_column_is_a_member_of_a_round_and_none_is_missing() {
        let full = json!({
            "number": 7, "task": "train", "phase": "abandoned", "base_version": 6, "seed": 1, "goal": 10, "minimum": 5,
            "cohort": 13, "reported": 0, "rejected": 0, "failed": 0, "expired": 0, "opened_at_ms": 0, "weight": 0,
            "bytes_up": 0, "bytes_down": 0, "reason": "fault", "folded": 3, "selected_at_ms": 1, "deadline_at_ms": 2,
            "closed_at_ms": 3, "ended_at_ms": 4, "training_loss": 0.5, "loss": 0.25, "accuracy": 1.0, "step_norm": 0.1,
            "diversity": 0.3, "norm_max": 2.0, "clip_norm": 1.5, "mu": 0.01,
            "measured_on": { "examples": 19, "clients": 2, "low": 0.83, "high": 1.0, "worst": 0.9, "p10": 0.9 },
        });
        let round: Round = serde_json::from_value(full).unwrap();
        let mut members = serde_json::to_value(&round).unwrap();
        // A figure of the coordinator that answers, while the round is open.
        members.as_object_mut().unwrap().remove("folded");
        let measured_on = members.as_object_mut().unwrap().remove(MEASURED_ON).unwrap();
        for figure in measured_on.as_object().unwrap().keys() {
            assert!(COLUMNS.contains(&format!("{MEASURED_ON}.{figure}").as_str()), "{figure}");
        }
        for member in members.as_object().unwrap().keys().filter(|member| !LISTS.contains(&member.as_str())) {
            assert!(COLUMNS.contains(&member.as_str()), "{member}");
        }
        let line = "7,train,abandoned,fault,1970-01-01T00:00:00.000Z,1970-01-01T00:00:00.004Z,1.0,0.25,0.5,13,10,5,0,0,\
                    0,0,0,0,0,0,0,0,0,0,0,0.1,2.0,1.5,0.01,0.3,6,1,0,1,2,3,4,19,2,0.83,1.0,0.9,0.9";
        let table = RoundTable::default();
        assert_eq!(table.line(&round).unwrap(), line);
        assert_eq!(table.columns().matches(',').count(), line.matches(',').count());
    }

    #[test]
    fn a_named_scalar_has_a_column_for_each_of_its_figures() {
        let auc = json!({ "name": "auc", "mean": 0.5, "reports": 3, "min": 0, "p10": 1, "p50": 2, "p90": 3, "max": 4 });
        let round: Round = serde_json::from_value(json!({
            "number": 7, "task": "train", "phase": "committed", "base_version": 6, "seed": 1, "goal": 1, "minimum": 1,
            "cohort": 1, "reported": 1, "rejected": 0, "failed": 0, "expired": 0, "opened_at_ms": 0, "weight": 0,
            "bytes_up": 0, "bytes_down": 0, "evaluation_metrics": [auc],
        }))
        .unwrap();
        let table = RoundTable::new([
            (ScalarsOf::Evaluation, "auc".parse().unwrap()),
            (ScalarsOf::Round, "f1".parse().unwrap()),
        ]);
        let (columns, line) = (table.columns(), table.line(&round).unwrap());
        assert!(columns.contains(",metrics.f1.p90,metrics.f1.max,evaluation_metrics.auc.mean,"), "{columns}");
        assert!(line.ends_with(",,,,,,,0.5,3,0.0,1.0,2.0,3.0,4.0"), "{line}");
        assert_eq!(line.matches(',').count(), columns.matches(',').count());
        assert_eq!(RoundTable::of(&[&round]).columns().matches("auc").count(), 7);
    }
}
