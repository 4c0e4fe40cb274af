//! What accuracies were measured on.

use tributary_engine::round::interval;
use tributary_protocol::operator::MeasuredOn;

/// The columns of rounds that say what the accuracy was measured on, with the accuracy. Without one, none has a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, sqlx::FromRow)]
pub(super) struct MeasuredRow {
    pub(super) accuracy: Option<f64>,
    accuracy_examples: Option<i64>,
    accuracy_clients: Option<i64>,
    accuracy_low: Option<f64>,
    accuracy_worst: Option<f64>,
    accuracy_p10: Option<f64>,
}

/// The columns of a [`MeasuredRow`] of the rounds `r`.
macro_rules! measured_columns {
    () => {
        "r.accuracy, r.accuracy_examples, r.accuracy_clients, r.accuracy_low, r.accuracy_worst, r.accuracy_p10"
    };
}
pub(super) use measured_columns;

impl MeasuredRow {
    pub(super) fn on(&self) -> Option<MeasuredOn> {
        let examples = u64::try_from(self.accuracy_examples?).ok()?;
        let (low, high) = interval(self.accuracy?, examples);
        Some(MeasuredOn {
            examples,
            clients: u32::try_from(self.accuracy_clients?).ok()?,
            low: self.accuracy_low.unwrap_or(low),
            high,
            worst: self.accuracy_worst,
            p10: self.accuracy_p10,
        })
    }
}
