//! Server optimisers: what the combined updates of a round do to the model.

mod adaptive;
mod drift;
#[cfg(test)]
mod fixture;
mod lbfgs;
mod sgd;
mod step;

use tributary_protocol::job_file::{Aggregation, ServerOptimizer};

use adaptive::{Adaptive, Moment, bias_correction};
pub use drift::{ControlStep, Dynamic, Elastic, share};
use lbfgs::Lbfgs;
pub use sgd::Sgd;
pub use step::{AggregateError, Optimizer, Survey, advance, means, rounded, step};

/// The optimiser that a job file names, for the round that starts from this model version and in which clients have
/// this learning rate.
pub fn optimizer_of(aggregation: &Aggregation, client_rate: f64, version: u32) -> Box<dyn Optimizer> {
    let factor = aggregation.schedule.factor(version);
    match aggregation.optimizer {
        ServerOptimizer::Sgd { learning_rate, momentum, nesterov } => {
            Box::new(Sgd { rate: learning_rate * factor, momentum, nesterov })
        }
        ServerOptimizer::Adagrad { learning_rate, beta1, tau, v0 } => {
            Box::new(Adaptive { rate: learning_rate * factor, beta1, moment: Moment::Sum, tau, v0: first(v0, tau) })
        }
        ServerOptimizer::Adam { learning_rate, beta1, beta2, tau, v0, bias_correction: correction } => {
            let corrected = bias_correction(correction, [beta1, beta2], version);
            let rate = learning_rate * factor * corrected;
            Box::new(Adaptive { rate, beta1, moment: Moment::Decaying { beta2 }, tau, v0: first(v0, tau) })
        }
        ServerOptimizer::Yogi { learning_rate, beta1, beta2, tau, v0 } => {
            let rate = learning_rate * factor;
            Box::new(Adaptive { rate, beta1, moment: Moment::Bounded { beta2 }, tau, v0: first(v0, tau) })
        }
        ServerOptimizer::Lbfgs { pairs } => Box::new(Lbfgs::new(client_rate, pairs as usize)),
    }
}

/// The first second moment: Reddi et al. 2021, theorem 1, ask for at least the square of tau.
fn first(v0: Option<f64>, tau: f64) -> f64 {
    v0.unwrap_or(tau * tau)
}
