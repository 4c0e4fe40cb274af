//! Why a simulation ends.

use tributary_client::TrainError;
use tributary_engine::aggregate::{AggregateError, CapsError, FoldError};
use tributary_protocol::layers::ModelSpecError;
use tributary_protocol::model::ModelError;
use tributary_protocol::update::{EncodeError, UpdateError};

#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The job keeps something on its devices, or surveys its rounds.
    #[error(
        "{0} cannot be simulated: it needs more than one training from the newest model, and one pass over a round"
    )]
    Unsupported(&'static str),
    #[error("training failed: {0}")]
    Train(#[from] TrainError),
    #[error("an update cannot be encoded: {0}")]
    Encode(#[from] EncodeError),
    #[error("an update cannot be read: {0}")]
    Update(#[from] UpdateError),
    #[error("no first model: {0}")]
    First(#[from] ModelSpecError),
    #[error("no model: {0}")]
    Model(#[from] ModelError),
    #[error("no sum: {0}")]
    Caps(#[from] CapsError),
    #[error("an update does not count: {0}")]
    Fold(#[from] FoldError),
    #[error("no version: {0}")]
    Aggregate(#[from] AggregateError),
    #[error("the job waits, and nothing will happen any more")]
    Stuck,
}
