//! Aggregation rules: the step that a round's combined updates make, one file per rule.

mod fedavg;
mod step;

use tributary_protocol::job_file::Aggregation;

pub use fedavg::FedAvg;
pub use step::{AggregateError, Rule, advance, rounded, step};

/// The rule that a job file names.
#[must_use]
pub fn rule_of(aggregation: &Aggregation) -> Box<dyn Rule> {
    match aggregation {
        Aggregation::FedAvg { server_learning_rate } => {
            Box::new(FedAvg { server_learning_rate: *server_learning_rate })
        }
    }
}
