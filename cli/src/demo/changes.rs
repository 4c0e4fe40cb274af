//! What a benchmark changes in the demo's job and its clients.

use tributary_protocol::job_file::Aggregation;
use tributary_protocol::plan::Algorithm;

use super::attack::Attack;
use super::stragglers::Stragglers;

#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub algorithm: Algorithm,
    pub aggregation: Aggregation,
    /// Whether clients take one step over all their examples, so that an update is a gradient.
    pub sends_gradient: bool,
    /// Clients of a round; the demo's if absent.
    pub cohort: Option<u32>,
    /// Of the clients' optimiser; the demo's if absent.
    pub learning_rate: Option<f64>,
    /// What some clients send instead of their updates, and how many of them.
    pub attack: Option<(Attack, u32)>,
    /// Clients that have time for a part of their epochs.
    pub stragglers: Option<Stragglers>,
}
