//! The optimiser of a round, once it has seen what it must see of the round before its first step.

use std::sync::Arc;

use tributary_engine::aggregate::{AggregateError, Combined, Facts, Optimizer, SharedCombined, Survey, mean_loss};
use tributary_engine::job::JobSpec;

use super::companion::{Companions, Followed, Former};
use super::error::CommitError;
use crate::db::RoundRow;
use crate::runtime::offload::Offload;
use crate::services::Services;

/// Values of a companion that are held while the optimiser looks at them: 256 KiB.
const VALUES: usize = 1 << 16;

/// The optimiser of a round with these combined updates, from their facts and their number. Optimisers that survey the
/// round read their companions once more for it.
pub(crate) async fn planned(
    services: &Services,
    spec: &Arc<JobSpec>,
    round: &RoundRow,
    combined: &SharedCombined,
    (facts, updates): (Vec<Facts>, u32),
) -> Result<Box<dyn Optimizer>, CommitError> {
    let mut optimizer = spec.optimizer(round.base_version, updates);
    if optimizer.survey().is_none() {
        return Ok(optimizer);
    }
    let loss = loss_of(facts);
    let followed = Followed::all(spec, &*optimizer);
    let mut companions = Companions::open(services, spec, round.base_version, &followed).await?;
    let notes = companions.notes().await?;
    let mut planning = Offload::new(Planning::new(optimizer, Arc::clone(combined), 0));
    planning.run(move |planning| planning.survey().begin(&notes, loss)).await?;
    let total = spec.shared().total();
    let block = (VALUES / companions.width_max()).max(1);
    for first in (0..total).step_by(block) {
        let count = block.min(total - first);
        let former = companions.take(count).await?;
        planning.run(move |planning| planning.look(count, former)).await?;
    }
    planning.run(|planning| planning.survey().decide()).await;
    Ok(planning.into_inner().optimizer)
}

/// The mean loss of a round's updates. The order in which numbers are added does not depend on ids.
pub(super) fn loss_of(mut facts: Vec<Facts>) -> f64 {
    facts.sort_by(Facts::order);
    mean_loss(&facts)
}

/// An optimiser while it looks at a round.
pub(super) struct Planning {
    optimizer: Box<dyn Optimizer>,
    combined: SharedCombined,
    /// The next parameter.
    parameters: usize,
}

impl Planning {
    /// Looks from this parameter on, with an optimiser that surveys.
    pub(super) fn new(optimizer: Box<dyn Optimizer>, combined: SharedCombined, parameters: usize) -> Self {
        Self { optimizer, combined, parameters }
    }

    pub(super) fn survey(&mut self) -> &mut dyn Survey {
        self.optimizer.survey().expect("an optimiser that plans goes on planning")
    }

    /// Looks at the next parameters.
    pub(super) fn look(&mut self, count: usize, mut former: Former) -> Result<(), CommitError> {
        let (model, updates) = (self.parameters + count, self.combined.parameters_total());
        if model > updates {
            return Err(AggregateError::WrongLength { model, updates }.into());
        }
        let block = self.combined.mean(self.parameters..model).ok_or(AggregateError::NoUpdates)?;
        let mut companions = former.block(count);
        companions.truncate(self.optimizer.companions().len());
        self.survey().look(&block, &companions);
        self.parameters = model;
        Ok(())
    }
}
