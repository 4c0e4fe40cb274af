//! The local trainings behind an update, each from the values that the one before reached.

use std::borrow::Cow;
use std::sync::Arc;

use tributary_protocol::device::Assignment;
use tributary_protocol::model::Model;
use tributary_protocol::plan::{self, Optimizer, Training};
use tributary_protocol::sharing::{Part, Parts};

use super::algorithm::{Algorithm, Reached};
use super::checkpoints::Periodic;
use super::given::Given;
use super::personal;
use crate::store::suspended::Suspended;
use crate::trainer::{Budget, Checkpoint, Checkpoints, TrainError, TrainTask, Trained, Trainer};

/// What the trainings of an assignment begin with.
pub(super) struct Trainings<'a> {
    given: Given<'a>,
    /// The plan's, at the version of the model.
    training: Training,
    model: Cow<'a, Model>,
    constant: Option<Vec<f32>>,
    /// A checkpoint is one of a single training.
    may_suspend: bool,
    suspended: Option<Suspended>,
}

impl<'a> Trainings<'a> {
    pub(super) fn begin(given: &Given<'a>, training: Training, algorithm: &dyn Algorithm) -> Self {
        let Given { assignment, base, state, .. } = *given;
        let own = personal::own(&base.parts, || state.kept(assignment));
        // A training that goes on with the values of others goes on in this session alone. A checkpoint does not say of
        // which part of the data it is.
        let may_suspend = !assignment.plan.coded
            && given.exchange.is_none()
            && assignment.plan.cadence.push_every == 1
            && training.personal_epochs.is_none();
        Self {
            given: *given,
            model: algorithm.start(personal::with_own(&base.model, &base.parts, own.as_deref())),
            constant: algorithm.constant().map(|constant| spread(constant, &base.parts)),
            may_suspend,
            suspended: if may_suspend { state.suspended(assignment) } else { None },
            training,
        }
    }

    /// Trains as often as the plan's cadence says. Where the time for partial work is over, less often.
    ///
    /// # Errors
    /// The trainer's [`TrainError`], or one for a result that no update can hold. What a later session needs to go on
    /// is stored.
    pub(super) fn run<T: Trainer + ?Sized>(
        &self,
        trainer: &mut T,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Trained, TrainError> {
        let Given { assignment, clock, deadline_ms, .. } = self.given;
        let ends_ms = self.training.partial_work.map(|share| partial_until_ms(assignment, deadline_ms, share));
        let is_over = || ends_ms.is_some_and(|ends_ms| clock.now_ms() >= ends_ms);
        let earlier_ms = self.suspended.as_ref().map_or(0, |suspended| suspended.train_ms);
        let checkpoints = Periodic::begin(&self.given, earlier_ms).filter(|_| self.may_suspend);
        let task = TrainTask {
            constant: self.constant.as_deref(),
            budget: ends_ms.is_some().then_some(Budget(&is_over)),
            resume: match self.given.exchange {
                Some(exchange) => exchange.resume,
                None => self.suspended.as_ref().map(|suspended| &suspended.checkpoint),
            },
            pause_every: self.given.exchange.and_then(|exchange| exchange.every),
            may_suspend: self.may_suspend,
            checkpoints: checkpoints.as_ref().map(|periodic| periodic as &dyn Checkpoints),
            ..self.task(&self.training)
        };
        let trained = self.each(trainer, &task, should_stop).map_err(|error| self.suspend(error))?;
        self.checked(trained)
    }

    fn each<T: Trainer + ?Sized>(
        &self,
        trainer: &mut T,
        task: &TrainTask<'_>,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Trained, TrainError> {
        let Given { assignment, base, .. } = self.given;
        let mut trained = personal::train(trainer, task, &base.parts, should_stop)?;
        for training in 1..assignment.plan.cadence.push_every {
            if task.is_over() {
                break;
            }
            let parameters = Arc::clone(task.model.parameters());
            let model = Model::new(parameters, trained.values).map_err(|_| TrainError::Diverged)?;
            let task = TrainTask { model: &model, seed: task.seed.derive("push", training.into()), ..*task };
            let next = personal::train(trainer, &task, &base.parts, should_stop)?;
            let steps = trained.steps.saturating_add(next.steps);
            let share = next.steps as f64 / steps.max(1) as f64;
            let loss = trained.loss + share * (next.loss - trained.loss);
            trained = Trained { steps, loss, examples: trained.examples.max(next.examples), ..next };
        }
        Ok(trained)
    }

    /// The gradient of all examples where the trainings begin, by the shared parameters: what one step of rate 1
    /// subtracts.
    pub(super) fn gradient<T: Trainer + ?Sized>(
        &self,
        trainer: &mut T,
        should_stop: &dyn Fn() -> bool,
    ) -> Result<Vec<f32>, TrainError> {
        let weight_decay = match self.training.optimizer {
            Optimizer::Sgd { weight_decay, .. } => weight_decay,
            _ => 0.0,
        };
        let training = Training {
            epochs: None,
            steps: Some(1),
            work_schedule: Vec::new(),
            batch_size: None,
            optimizer: Optimizer::Sgd { learning_rate: 1.0, momentum: 0.0, weight_decay, nesterov: false },
            algorithm: plan::Algorithm::Plain,
            personal_epochs: None,
            ..self.training.clone()
        };
        let task = self.task(&training);
        let task = TrainTask { seed: task.seed.derive("control", 0), ..task };
        let trained = self.checked(personal::train(trainer, &task, &self.given.base.parts, should_stop)?)?;
        let mut gradient = self.reached(trained.values, trained.steps).delta();
        gradient.iter_mut().for_each(|value| *value = -*value);
        Ok(gradient)
    }

    /// The end of the trainings, after so many steps.
    pub(super) fn reached(&self, values: Vec<f32>, steps: u64) -> Reached<'_> {
        let learning_rate = self.training.optimizer.learning_rate();
        Reached { start: &self.model, values, parts: &self.given.base.parts, steps, learning_rate }
    }

    /// How long they have taken, earlier sessions included.
    pub(super) fn train_ms(&self) -> u64 {
        let earlier_ms = self.suspended.as_ref().map_or(0, |suspended| suspended.train_ms);
        self.given.elapsed_ms().saturating_add(earlier_ms)
    }

    /// A single training with these settings.
    fn task<'t>(&'t self, training: &'t Training) -> TrainTask<'t> {
        let Assignment { plan, seed, job_name, data, .. } = self.given.assignment;
        let task = TrainTask::new(&self.model, &plan.model.spec, training, *seed);
        TrainTask { job: job_name.as_ref(), data: data.as_ref(), inputs: plan.model.inputs.as_ref(), ..task }
    }

    /// Refuses a training without examples or with a number that is not finite.
    fn checked(&self, trained: Trained) -> Result<Trained, TrainError> {
        if trained.examples == 0 {
            return Err(TrainError::NoExamples);
        }
        let mut changes = trained.values.iter().zip(self.model.values()).map(|(value, start)| value - start);
        match trained.loss.is_finite() && changes.all(f32::is_finite) {
            true => Ok(trained),
            false => Err(TrainError::Diverged),
        }
    }

    /// Stores where a training was suspended, and takes vectors and bytes, which have the size of models. Where that
    /// fails (the disk is full), the training is interrupted.
    fn suspend(&self, error: TrainError) -> TrainError {
        let TrainError::Suspended(mut checkpoint) = error else { return error };
        let taken = Checkpoint { steps: checkpoint.steps, losses: checkpoint.losses, ..Checkpoint::default() };
        let whole = std::mem::replace(&mut *checkpoint, taken);
        let suspended = Suspended { checkpoint: whole, train_ms: self.train_ms() };
        match self.given.state.save_suspended(self.given.assignment, suspended) {
            Ok(()) => TrainError::Suspended(checkpoint),
            Err(failed) => {
                tracing::warn!(error = %failed, "a training cannot be suspended");
                TrainError::Interrupted
            }
        }
    }
}

/// When a client stops training whose job lets partial work count: this share of the time that its assignment left it,
/// the download included.
fn partial_until_ms(assignment: &Assignment, deadline_ms: u64, share: f64) -> u64 {
    let left_ms = (1.0 - share) * assignment.deadline_in_ms as f64;
    deadline_ms.saturating_sub(left_ms as u64)
}

/// Values of shared parameters as those of the model, with zeros for the others.
fn spread(shared: Vec<f32>, parts: &Parts) -> Vec<f32> {
    if parts.is_all_shared() {
        return shared;
    }
    let mut values = vec![0.0; parts.model().total()];
    parts.put(Part::Shared, &shared, &mut values);
    values
}
