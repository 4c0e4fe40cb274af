//! Personal and frozen parameters: those that a client keeps to itself, and those that nobody changes.

use std::borrow::Cow;
use std::sync::Arc;

use tributary_protocol::model::Model;
use tributary_protocol::plan::{Algorithm, Training};
use tributary_protocol::sharing::{Part, Parts};

use super::compute::computing;
use crate::store::client_state::ClientState;
use crate::store::kept::Kept;
use crate::trainer::{TrainError, TrainTask, Trained, Trainer};

/// The kept vector of the client's own personal parameters.
const PERSONAL: &str = "personal";

/// The client's own personal values; `None` if it has not trained any, or if the model has none. A round that was
/// abandoned takes none back: they are the client's alone.
pub(super) fn own(parts: &Parts, kept: impl FnOnce() -> Option<Kept>) -> Option<Vec<f32>> {
    let total = parts.total(Part::Personal);
    if total == 0 {
        return None;
    }
    kept()?.take_last(PERSONAL).filter(|own| own.len() == total)
}

/// The same, outside of an assignment.
pub(crate) fn kept_values(parts: &Parts, state: Option<ClientState>) -> Option<Vec<f32>> {
    let total = parts.total(Part::Personal);
    state?.vectors.remove(PERSONAL).filter(|own| total > 0 && own.len() == total)
}

/// Keeps those of the values that a training has reached.
pub(super) fn keep(reached: &[f32], parts: &Parts, kept: &mut Kept) {
    kept.put(PERSONAL, parts.has(Part::Personal).then(|| parts.take(Part::Personal, reached)), None);
}

/// The global model with the client's own personal values. Without any, those of the model's version.
pub(crate) fn with_own<'a>(model: &'a Model, parts: &Parts, own: Option<&[f32]>) -> Cow<'a, Model> {
    let Some(own) = own else { return Cow::Borrowed(model) };
    let mut values = model.values().to_vec();
    parts.put(Part::Personal, own, &mut values);
    Cow::Owned(Model::new(Arc::clone(model.parameters()), values).expect("both are finite"))
}

/// For each parameter, whether it belongs to one of these parts; empty if none does.
pub(super) fn frozen(parts: &Parts, frozen: &[Part]) -> Vec<bool> {
    let frozen: Vec<bool> = parts.each().iter().map(|part| frozen.contains(part)).collect();
    if frozen.contains(&true) { frozen } else { Vec::new() }
}

/// Trains all parameters together, or, where the plan has `personal_epochs`, the personal ones and then the shared ones
/// (FedRep, Collins et al. 2021, <https://arxiv.org/abs/2102.07078>, algorithm 1).
///
/// # Errors
/// The trainer's [`TrainError`], or one for a trainer that changes frozen parameters.
pub(super) fn train<T: Trainer + ?Sized>(
    trainer: &mut T,
    task: &TrainTask<'_>,
    parts: &Parts,
    should_stop: &dyn Fn() -> bool,
) -> Result<Trained, TrainError> {
    let Some(epochs) = task.training.personal_epochs else {
        return unfrozen(trainer, &TrainTask { frozen: &frozen(parts, &[Part::Frozen]), ..*task }, should_stop);
    };
    let training = Training { epochs: Some(epochs), steps: None, algorithm: Algorithm::Plain, ..task.training.clone() };
    let head = TrainTask {
        training: &training,
        seed: task.seed.derive("personal", 0),
        constant: None,
        frozen: &frozen(parts, &[Part::Frozen, Part::Shared]),
        ..*task
    };
    let Trained { values, .. } = unfrozen(trainer, &head, should_stop)?;
    let model = Model::new(Arc::clone(task.model.parameters()), values).map_err(|_| TrainError::Diverged)?;
    let body = TrainTask { model: &model, frozen: &frozen(parts, &[Part::Frozen, Part::Personal]), ..*task };
    unfrozen(trainer, &body, should_stop)
}

/// Trains, and checks that the frozen parameters are what they were.
fn unfrozen<T: Trainer + ?Sized>(
    trainer: &mut T,
    task: &TrainTask<'_>,
    should_stop: &dyn Fn() -> bool,
) -> Result<Trained, TrainError> {
    let trained = computing(|| trainer.train(task, should_stop))?;
    let parameters = task.model.parameters();
    if trained.values.len() != parameters.total() {
        let (got, expected) = (trained.values.len(), parameters.total());
        return Err(TrainError::DoesNotFit(format!("the trainer gave {got} values for {expected} parameters")));
    }
    for (index, _) in task.frozen.iter().enumerate().filter(|(_, is_frozen)| **is_frozen) {
        if trained.values[parameters.range(index)] != *task.model.tensor(index) {
            let name = &parameters.specs()[index].name;
            return Err(TrainError::DoesNotFit(format!("the app's trainer changed the frozen parameter {name:?}")));
        }
    }
    Ok(trained)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tributary_protocol::job_model::JobModel;
    use tributary_protocol::scalars::Scalars;
    use tributary_protocol::seed::Seed;

    use super::*;
    use crate::fixtures;
    use crate::trainer::{EvaluateTask, Evaluated};

    fn model() -> JobModel {
        let parameter = |name: &str| json!({ "name": name, "shape": [1] });
        let parameters = json!([parameter("base"), parameter("body"), parameter("head")]);
        serde_json::from_value(json!({ "parameters": parameters, "frozen": ["base"], "personal": ["head"] })).unwrap()
    }

    fn training(personal_epochs: Option<u32>) -> Training {
        serde_json::from_value(json!({
            "epochs": 2, "optimizer": { "kind": "sgd", "learning_rate": 0.1 }, "personal_epochs": personal_epochs,
        }))
        .unwrap()
    }

    /// Adds the number of epochs to each parameter that it may train.
    #[derive(Default)]
    struct Adds {
        ignores_frozen: bool,
        calls: Vec<(Option<u32>, Vec<bool>)>,
    }

    impl Trainer for Adds {
        fn examples(&self) -> u64 {
            1
        }

        fn train(&mut self, task: &TrainTask<'_>, _: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
            self.calls.push((task.training.epochs, task.frozen.to_vec()));
            let is_frozen = |index: usize| !self.ignores_frozen && task.frozen.get(index) == Some(&true);
            let add = task.training.epochs.unwrap() as f32;
            let values = task.model.values().iter().enumerate();
            let values = values.map(|(index, value)| if is_frozen(index) { *value } else { value + add }).collect();
            Ok(Trained { values, examples: 1, steps: 1, loss: 0.5, metrics: Scalars::new() })
        }

        fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
            Err(TrainError::NoExamples)
        }
    }

    fn trained(trainer: &mut Adds, personal_epochs: Option<u32>) -> Result<Vec<f32>, TrainError> {
        let (model, training) = (model(), training(personal_epochs));
        let parts = model.parts().unwrap();
        let start = Model::new(Arc::clone(parts.model()), vec![1.0, 2.0, 3.0]).unwrap();
        let task = TrainTask::new(&start, &model.spec, &training, Seed(1));
        train(trainer, &task, &parts, &|| false).map(|trained| trained.values)
    }

    #[test]
    fn personal_and_shared_parameters_are_trained_together_or_one_after_the_other() {
        let mut together = Adds::default();
        assert_eq!(trained(&mut together, None).unwrap(), [1.0, 4.0, 5.0]);
        assert_eq!(together.calls, [(Some(2), vec![true, false, false])]);
        let mut alternating = Adds::default();
        assert_eq!(trained(&mut alternating, Some(5)).unwrap(), [1.0, 4.0, 8.0]);
        assert_eq!(alternating.calls, [(Some(5), vec![true, true, false]), (Some(2), vec![true, false, true])]);
    }

    #[test]
    fn a_trainer_that_changes_frozen_parameters_is_refused() {
        let mut trainer = Adds { ignores_frozen: true, ..Adds::default() };
        let refused = trained(&mut trainer, None).unwrap_err().to_string();
        assert_eq!(refused, "the app's trainer changed the frozen parameter \"base\"");
    }

    #[test]
    fn a_client_goes_on_with_its_own_values_and_begins_with_those_of_the_version() {
        let parts = model().parts().unwrap();
        let kept = |values: &[f32]| Some(fixtures::kept([("personal", values)], Some(3)));
        let global = Model::new(Arc::clone(parts.model()), vec![1.0, 2.0, 3.0]).unwrap();
        let values = |own: Option<Vec<f32>>| with_own(&global, &parts, own.as_deref()).values().to_vec();
        assert_eq!(values(own(&parts, || kept(&[9.0]))), [1.0, 2.0, 9.0]);
        assert_eq!(values(own(&parts, || None)), [1.0, 2.0, 3.0]);
        assert_eq!(own(&parts, || kept(&[9.0, 9.0])), None, "of another model");
    }
}
