//! Rounds of a synchronous job without fleet and clock: the caller says which clients train and which updates count.
//!
//! Openings, combinations and versions are those of the engine, as in a simulation with a clock.

use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_engine::round::{Lookback, Opening, opening};
use tributary_protocol::model::Model;
use tributary_protocol::state::Task;

use crate::error::SimulationError;
use crate::learner::{Learner, Trained, Training};
use crate::past::{Past, PastRound};
use crate::updates::{Update, Updates};
use crate::version::Version;

/// The rounds of a job.
pub struct Rounds {
    spec: Arc<JobSpec>,
    version: Version,
    past: Past,
    /// Of the round that is next.
    number: u32,
    abandoned_in_a_row: u32,
}

impl Rounds {
    /// # Errors
    /// [`SimulationError::Unsupported`] for a rule that looks at earlier rounds; else of the first model.
    pub fn new(spec: JobSpec) -> Result<Self, SimulationError> {
        if spec.optimizer(0, 0).survey().is_some() || spec.gathering(0).centre().is_some() {
            return Err(SimulationError::Unsupported("a rule that looks at earlier rounds"));
        }
        let version = Version::first(&spec)?;
        Ok(Self { spec: Arc::new(spec), version, past: Past::default(), number: 1, abandoned_in_a_row: 0 })
    }

    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// The newest model.
    pub fn model(&self) -> &Model {
        &self.version.model
    }

    /// Number of the newest model.
    pub fn version(&self) -> u32 {
        self.version.number
    }

    /// Number of the round that is next.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What the next round is opened with.
    pub fn opening(&self) -> Opening {
        let file = &self.spec.file;
        let history = self.past.history(&Lookback::of(file, Task::Train, self.number), self.abandoned_in_a_row);
        opening(file, Task::Train, self.number, &history).expect("every job trains")
    }

    /// What a client trains in the round with this opening.
    ///
    /// # Errors
    /// [`SimulationError::Train`].
    pub fn train(&self, learner: &mut Learner, opening: &Opening, client: usize) -> Result<Trained, SimulationError> {
        let (base, version) = (&*self.version.model, self.version.number);
        let seed = opening.seed.derive("client", client as u64);
        learner.train(&self.spec, &Training { client, base, version, policy: &opening.policy, seed })
    }

    /// Ends the round: makes the next version of these updates, or none without any. `clip_share` is the share of them
    /// within the clip, in a job that hides updates.
    ///
    /// # Errors
    /// Of the combination or the version.
    pub fn end(
        &mut self,
        opening: &Opening,
        updates: Vec<Update>,
        clip_share: Option<f64>,
    ) -> Result<(), SimulationError> {
        let (number, policy) = (self.number, opening.policy);
        self.number += 1;
        let mut of_round = Updates::new(&self.spec)?;
        for (place, update) in updates.into_iter().enumerate() {
            let norm = update.norm();
            of_round.add(&self.spec, update, norm, 0, place as u64)?;
        }
        let norms = of_round.norms();
        if norms.is_empty() {
            self.abandoned_in_a_row += 1;
            self.past.round(PastRound { number, policy, training_loss: None, norms, clip_share: None, diverse: None });
            return Ok(());
        }
        let combined = of_round.combined(&self.spec, &policy, self.version.number);
        let made = self.version.advance(&self.spec, combined, of_round.count())?;
        self.abandoned_in_a_row = 0;
        let (training_loss, diverse) = (of_round.loss(), of_round.diverse(made.mean));
        self.past.round(PastRound { number, policy, training_loss, norms, clip_share, diverse });
        Ok(())
    }

    /// Share of the held-out examples that the newest model classifies rightly.
    ///
    /// # Errors
    /// [`SimulationError::Train`].
    pub fn accuracy(&self, learner: &mut Learner) -> Result<f64, SimulationError> {
        learner.accuracy(&self.spec, &self.version.model)
    }
}
