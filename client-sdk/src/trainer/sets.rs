//! Several trainers as one: that of each example set, for an app with several models.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::BoxFuture;
use tributary_protocol::abilities::Abilities;
use tributary_protocol::example_sets::{EXAMPLE_SETS_MAX, ExampleSet, ExampleSets, ExampleSetsError};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{IdError, Name};
use tributary_protocol::inputs::Description;
use tributary_protocol::plan::Algorithm;

use super::contract::{DescribeTask, EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};

/// Trainers by the names of their example sets. A job names the set that it learns from (`data = "typing"`), and its
/// work goes to the trainer of that set; a job without a name goes to the trainer without one.
///
/// A check-in tells the sizes and schemas of all sets, and the abilities that all trainers have: a client gets no work
/// that one of them could not do.
///
/// ```
/// # use std::sync::Arc;
/// # use tributary_client::examples::{MemoryExamples, Targets};
/// use tributary_client::{LayerTrainer, Sets};
///
/// # let examples = || Arc::new(MemoryExamples::new(vec![1], vec![0.0], Targets::Classes(vec![0])).unwrap());
/// # let (typing, photos) = (examples(), examples());
/// let sets = Sets::new().with("typing", LayerTrainer::new(typing))?.with("photos", LayerTrainer::new(photos))?;
/// # Ok::<(), tributary_client::SetsError>(())
/// ```
#[derive(Default)]
pub struct Sets {
    unnamed: Option<Box<dyn Trainer>>,
    named: BTreeMap<Name, Box<dyn Trainer>>,
    /// That of the last task, which may have to be waited for.
    last: Option<Name>,
}

/// Why an example set cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetsError {
    /// The text is no name.
    #[error(transparent)]
    Name(#[from] IdError),
    /// There are too many.
    #[error(transparent)]
    TooMany(#[from] ExampleSetsError),
}

impl Sets {
    /// No example sets yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with the trainer of an example set, in the place of an earlier one of that name.
    ///
    /// # Errors
    /// [`SetsError`] for a text that is no name, and for more than 32 sets.
    pub fn with(mut self, name: &str, trainer: impl Trainer + 'static) -> Result<Self, SetsError> {
        self.add(name.parse()?, Box::new(trainer))?;
        Ok(self)
    }

    /// The same with a trainer for jobs that name no set.
    #[must_use]
    pub fn with_unnamed(mut self, trainer: impl Trainer + 'static) -> Self {
        self.set_unnamed(Box::new(trainer));
        self
    }

    /// Sets the trainer for jobs that name no set, in the place of an earlier one.
    pub fn set_unnamed(&mut self, trainer: Box<dyn Trainer>) {
        self.unnamed = Some(trainer);
    }

    /// Adds the trainer of an example set, in the place of an earlier one of that name.
    ///
    /// # Errors
    /// [`SetsError::TooMany`] for more than 32 sets.
    pub fn add(&mut self, name: Name, trainer: Box<dyn Trainer>) -> Result<(), SetsError> {
        if self.named.len() >= EXAMPLE_SETS_MAX && !self.named.contains_key(&name) {
            return Err(ExampleSetsError.into());
        }
        self.named.insert(name, trainer);
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &dyn Trainer> {
        self.unnamed.iter().chain(self.named.values()).map(|trainer| &**trainer)
    }

    fn of(&mut self, data: Option<&Name>) -> Result<&mut Box<dyn Trainer>, TrainError> {
        self.last = data.cloned();
        let found = match data {
            Some(name) => self.named.get_mut(name),
            None => self.unnamed.as_mut(),
        };
        found.ok_or(TrainError::NoExamples)
    }
}

impl Trainer for Sets {
    fn examples(&self) -> u64 {
        self.unnamed.as_ref().map_or(0, |trainer| trainer.examples())
    }

    fn sets(&self) -> ExampleSets {
        let set = |trainer: &dyn Trainer| ExampleSet { examples: trainer.examples(), schema: trainer.schema() };
        let sets = self.named.iter().map(|(name, trainer)| (name.clone(), set(&**trainer)));
        sets.collect::<BTreeMap<_, _>>().try_into().expect("no more than the most were added")
    }

    fn schema(&self) -> Option<Sha256Hash> {
        self.unnamed.as_ref()?.schema()
    }

    fn follows(&self, algorithm: &Algorithm) -> bool {
        self.all().all(|trainer| trainer.follows(algorithm))
    }

    fn exchanges(&self) -> bool {
        self.all().all(Trainer::exchanges)
    }

    fn abilities(&self) -> Abilities {
        self.all().fold(Abilities::ALL, |abilities, trainer| abilities.both(trainer.abilities()))
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        self.of(task.data)?.train(task, should_stop)
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        let last = self.last.clone();
        match self.of(last.as_ref()) {
            Ok(trainer) => trainer.ready(),
            Err(_) => Box::pin(std::future::ready(())),
        }
    }

    fn evaluate(&mut self, task: &EvaluateTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        self.of(task.data)?.evaluate(task, should_stop)
    }

    fn describe(&mut self, task: &DescribeTask<'_>) -> Result<Description, TrainError> {
        self.of(task.data)?.describe(task)
    }
}

impl fmt::Debug for Sets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&Name> = self.named.keys().collect();
        formatter.debug_struct("Sets").field("named", &names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::abilities::Ability;
    use tributary_protocol::layers::ModelSpec;
    use tributary_protocol::model::Model;
    use tributary_protocol::plan::{Loss, Training};
    use tributary_protocol::seed::Seed;

    use super::*;

    /// Answers with its number of examples.
    struct Of(u64, Abilities);

    impl Trainer for Of {
        fn examples(&self) -> u64 {
            self.0
        }

        fn schema(&self) -> Option<Sha256Hash> {
            Some(Sha256Hash::of(&self.0.to_le_bytes()))
        }

        fn abilities(&self) -> Abilities {
            self.1
        }

        fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
            Ok(Trained::new(task.model.values().to_vec(), self.0, 1, 0.5))
        }

        fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
            Ok(Evaluated::new(self.0, 0.5))
        }
    }

    fn name(name: &str) -> Name {
        name.parse().unwrap()
    }

    #[test]
    fn each_task_goes_to_the_trainer_of_its_set() {
        let spec: ModelSpec = serde_json::from_str(r#"{"parameters":[{"name":"w","shape":[1]}]}"#).unwrap();
        let training: Training =
            serde_json::from_str(r#"{"epochs":1,"optimizer":{"kind":"sgd","learning_rate":0.1}}"#).unwrap();
        let model = Model::new(std::sync::Arc::new(spec.parameters().unwrap()), vec![0.0]).unwrap();
        let mut sets = Sets::new().with("typing", Of(7, Abilities::ALL)).unwrap();
        sets = sets.with("photos", Of(3, Abilities::ALL)).unwrap().with_unnamed(Of(1, Abilities::ALL));
        let told: Vec<_> = sets.sets().iter().map(|(name, set)| (name.to_string(), set.examples)).collect();
        assert_eq!((sets.examples(), told), (1, vec![("photos".into(), 3), ("typing".into(), 7)]));
        assert_eq!(sets.sets().get(&name("typing")).unwrap().schema, Of(7, Abilities::ALL).schema());
        for (data, examples) in [(None, Ok(1)), (Some("typing"), Ok(7)), (Some("walks"), Err(TrainError::NoExamples))] {
            let data = data.map(name);
            let task = TrainTask { data: data.as_ref(), ..TrainTask::new(&model, &spec, &training, Seed(1)) };
            assert_eq!(sets.train(&task, &|| false).map(|trained| trained.examples), examples);
            let task = EvaluateTask { data: data.as_ref(), ..EvaluateTask::new(&model, &spec, Loss::Mse) };
            assert_eq!(sets.evaluate(&task, &|| false).map(|evaluated| evaluated.examples), examples);
        }
    }

    #[test]
    fn a_client_can_do_what_all_of_its_trainers_can() {
        let without = |ability| Of(1, Abilities::ALL.without(ability));
        let sets = Sets::new().with("a", without(Ability::Gru)).unwrap().with("b", without(Ability::Adam)).unwrap();
        assert_eq!(sets.abilities(), Abilities::ALL.without(Ability::Gru).without(Ability::Adam));
        assert_eq!((sets.examples(), sets.schema()), (0, None));
    }

    #[test]
    fn wrong_names_and_too_many_sets_are_refused() {
        let of = || Of(1, Abilities::ALL);
        assert!(matches!(Sets::new().with("not a name", of()), Err(SetsError::Name(_))));
        let full = (0..EXAMPLE_SETS_MAX).try_fold(Sets::new(), |sets, set| sets.with(&format!("set{set}"), of()));
        let full = full.unwrap().with("set0", of()).unwrap();
        assert!(matches!(full.with("one", of()), Err(SetsError::TooMany(_))));
    }
}
