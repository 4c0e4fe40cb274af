//! The client's half of FedAvg, FedProx and FedNova, which sends the delta as it is.
//!
//! The coordinator's half is the optimiser that the job names, in `tributary_engine::aggregate`; the weights of FedNova
//! are its `Reports::Normalised`. The trainer adds FedProx's pull by itself.

use super::contract::{Algorithm, Reached};
use crate::trainer::TrainError;

#[derive(Debug)]
pub(super) struct Plain;

impl Algorithm for Plain {
    fn values(
        &mut self,
        reached: Reached<'_>,
        _: &mut dyn FnMut() -> Result<Vec<f32>, TrainError>,
    ) -> Result<Vec<f32>, TrainError> {
        Ok(reached.delta())
    }
}
