//! What every algorithm's half on the client does.

use std::borrow::Cow;

use tributary_protocol::model::Model;
use tributary_protocol::sharing::{Part, Parts};

use crate::store::kept::Kept;
use crate::trainer::TrainError;

/// The client's half of an algorithm, for one update. Vectors have a value for each shared parameter.
pub(in crate::tasks) trait Algorithm {
    /// Where training begins instead of this model: the global one with the client's own personal values.
    fn start<'m>(&self, model: Cow<'m, Model>) -> Cow<'m, Model> {
        model
    }

    /// What is added to each gradient. `None` for zeros, with which training has the bits of training without them.
    fn constant(&self) -> Option<Vec<f32>> {
        None
    }

    /// What the update carries. `gradient` computes that of all examples where the training began, which costs one
    /// more pass over them.
    ///
    /// # Errors
    /// Those of `gradient`.
    fn values(
        &mut self,
        reached: Reached<'_>,
        gradient: &mut dyn FnMut() -> Result<Vec<f32>, TrainError>,
    ) -> Result<Vec<f32>, TrainError>;

    /// Keeps what the job needs on the device once the update is accepted. `sent` decodes its values as the coordinator
    /// does: what moves by them stays in step with it, whatever the codec rounds.
    fn keep(self: Box<Self>, _sent: &dyn Fn() -> Vec<f32>, _kept: &mut Kept) {}
}

/// The end of the training behind an update.
#[derive(Debug)]
pub(in crate::tasks) struct Reached<'a> {
    /// Where it began.
    pub(in crate::tasks) start: &'a Model,
    /// The values of all parameters, finite as their distances from the start.
    pub(in crate::tasks) values: Vec<f32>,
    pub(in crate::tasks) parts: &'a Parts,
    /// Optimiser steps in between.
    pub(in crate::tasks) steps: u64,
    pub(in crate::tasks) learning_rate: f64,
}

impl Reached<'_> {
    /// Local minus global values.
    pub(in crate::tasks) fn delta(self) -> Vec<f32> {
        let Self { start, mut values, parts, .. } = self;
        for (value, start) in values.iter_mut().zip(start.values()) {
            *value -= start;
        }
        if parts.is_all_shared() { values } else { parts.take(Part::Shared, &values) }
    }
}
