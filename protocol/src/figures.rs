//! What is known of an update beside its values: one shape from the request through the database to the rules.

use crate::fixed::Contribution;
use crate::scalars::Scalars;

/// The figures of an update, or of a sum of several updates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The examples behind it, and the number of updates in it.
    pub contribution: Contribution,
    /// Mean loss of the local training, as clients reported it; none where it is not told.
    pub loss: Option<f64>,
    /// L2 norm as the coordinator measured it; none where it was not measured.
    pub norm: Option<f64>,
    /// Steps of the local training; 0 for an evaluation.
    pub steps: u64,
    /// Named scalars.
    pub metrics: Scalars,
}
