//! Example sets of an app with several models.

use std::sync::{Arc, Mutex};

use tributary_client::{Locked, Name};

use crate::errors::TributaryError;
use crate::examples::Examples;
use crate::trainer::{AppTrainer, Trainer};

/// Example sets by the names that jobs give in `data`: for each its examples, or a trainer of the app. A session gives
/// the work of a job to the set that the job names.
#[derive(Debug, Default, uniffi::Object)]
pub struct Sets(Mutex<Vec<(Option<Name>, Set)>>);

/// What learns from a set.
#[derive(Clone)]
enum Set {
    Examples(Arc<Examples>),
    Trainer(Arc<dyn Trainer>),
}

impl std::fmt::Debug for Set {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Examples(_) => "examples",
            Self::Trainer(_) => "a trainer",
        })
    }
}

#[uniffi::export]
impl Sets {
    /// No sets yet.
    #[uniffi::constructor]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds examples under a name; without one, those of jobs that name no set.
    ///
    /// # Errors
    /// [`TributaryError::BadInput`] for a text that is no name.
    pub fn add_examples(&self, name: Option<String>, examples: Arc<Examples>) -> Result<(), TributaryError> {
        self.add(name, Set::Examples(examples))
    }

    /// Adds a trainer of the app under a name; without one, that of jobs that name no set.
    ///
    /// # Errors
    /// [`TributaryError::BadInput`] for a text that is no name.
    pub fn add_trainer(&self, name: Option<String>, trainer: Arc<dyn Trainer>) -> Result<(), TributaryError> {
        self.add(name, Set::Trainer(trainer))
    }
}

impl Sets {
    fn add(&self, name: Option<String>, set: Set) -> Result<(), TributaryError> {
        let name = name.map(|name| name.parse()).transpose();
        let name =
            name.map_err(|error: tributary_protocol::id::IdError| TributaryError::bad_input(error.to_string()))?;
        self.0.locked().push((name, set));
        Ok(())
    }

    /// The SDK's trainers of these sets.
    ///
    /// # Errors
    /// [`TributaryError::BadInput`] for too many sets, and what `examples()` of a trainer throws.
    pub(crate) fn trainers(&self) -> Result<tributary_client::Sets, TributaryError> {
        let mut sets = tributary_client::Sets::new();
        let members = self.0.locked().clone();
        for (name, set) in members {
            let trainer: Box<dyn tributary_client::Trainer> = match set {
                Set::Examples(examples) => Box::new(examples.trainer()),
                Set::Trainer(trainer) => Box::new(AppTrainer::new(trainer)?),
            };
            match name {
                Some(name) => {
                    sets.add(name, trainer).map_err(|error| TributaryError::bad_input(error.to_string()))?;
                }
                None => sets.set_unnamed(trainer),
            }
        }
        Ok(sets)
    }
}
