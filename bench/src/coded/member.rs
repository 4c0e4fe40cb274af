//! A member of a coded benchmark: its training takes a given time for each part, and computes next to nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tributary::stopwatch::Stopwatch;
use tributary_client::{EvaluateTask, Evaluated, TrainError, TrainTask, Trained, Trainer};
use tributary_protocol::example_sets::{ExampleSet, ExampleSets};
use tributary_protocol::id::Name;
use tributary_protocol::seed::Seed;

use super::args::CodedArgs;
use super::scheme::{Scheme, part_name};

/// How often a member that works asks whether it should stop.
const STEP: Duration = Duration::from_millis(10);
/// Largest absolute value of an update.
const MAGNITUDE: f32 = 0.01;
const SEED: Seed = Seed(7);

/// A client whose training takes a given time for each part.
pub(super) struct Member {
    /// Its part where a job names none.
    own: usize,
    /// The parts that it holds by name.
    named: BTreeMap<Name, usize>,
    /// The time of a part.
    work: Duration,
    /// What all updates are made of.
    noise: Arc<Vec<f32>>,
    /// Whether the benchmark needs it no more.
    ended: CancellationToken,
}

impl Member {
    pub(super) fn new(
        args: &CodedArgs,
        scheme: Scheme,
        place: u16,
        noise: Arc<Vec<f32>>,
        ended: CancellationToken,
    ) -> Self {
        let named = scheme.named_parts(args, place).into_iter().map(|part| (part_name(part), part)).collect();
        let times = if place < args.slow.members { args.slow.times } else { 1 };
        // All data is the same, in however many parts.
        let work_ms = args.compute_ms * u64::from(times) * u64::from(args.members) / scheme.parts(args) as u64;
        Self { own: place.into(), named, work: Duration::from_millis(work_ms), noise, ended }
    }

    /// The model after training on a part.
    fn learned(&self, model: &[f32], part: usize) -> Vec<f32> {
        model.iter().zip(changes(&self.noise, part)).map(|(value, change)| value + change).collect()
    }
}

/// What a part adds to the model: the same values as each part, in another order.
fn changes(noise: &[f32], part: usize) -> impl Iterator<Item = f32> {
    let (end, begin) = noise.split_at(part % noise.len());
    begin.iter().chain(end).copied()
}

/// What a round with so many parts adds to the model: their mean.
pub(super) fn mean_changes(noise: &[f32], parts: usize) -> Vec<f64> {
    let mut mean = vec![0.0; noise.len()];
    for part in 0..parts {
        mean.iter_mut().zip(changes(noise, part)).for_each(|(sum, change)| *sum += f64::from(change) / parts as f64);
    }
    mean
}

impl Trainer for Member {
    fn examples(&self) -> u64 {
        u64::from(self.named.is_empty())
    }

    fn sets(&self) -> ExampleSets {
        let sets: BTreeMap<_, _> = self.named.keys().map(|name| (name.clone(), ExampleSet::of(1))).collect();
        sets.try_into().expect("a member of a code holds at most 32 parts")
    }

    fn train(&mut self, task: &TrainTask<'_>, should_stop: &dyn Fn() -> bool) -> Result<Trained, TrainError> {
        let part = match task.data {
            Some(name) => *self.named.get(name).ok_or(TrainError::NoExamples)?,
            None => self.own,
        };
        let clock = Stopwatch::start();
        while let Some(left) = self.work.checked_sub(clock.elapsed()) {
            if self.ended.is_cancelled() || should_stop() {
                return Err(TrainError::Interrupted);
            }
            std::thread::sleep(left.min(STEP));
        }
        Ok(Trained::new(self.learned(task.model.values(), part), 1, 1, 0.5))
    }

    fn evaluate(&mut self, _: &EvaluateTask<'_>, _: &dyn Fn() -> bool) -> Result<Evaluated, TrainError> {
        Err(TrainError::NoExamples)
    }
}

/// What all updates are made of.
pub(super) fn noise(parameters: u32) -> Vec<f32> {
    let mut stream = SEED.stream();
    (0..parameters).map(|_| stream.uniform(-MAGNITUDE, MAGNITUDE)).collect()
}

#[cfg(test)]
mod tests {
    use tributary_protocol::layers::ModelSpec;
    use tributary_protocol::model::Model;

    use super::super::args::parsed;
    use super::super::scheme::job_file;
    use super::*;
    use crate::process::population_name;

    fn member(args: &CodedArgs, scheme: Scheme, place: u16) -> Member {
        Member::new(args, scheme, place, Arc::new(noise(args.parameters)), CancellationToken::new())
    }

    #[test]
    fn holders_of_a_block_have_its_parts_and_the_first_members_are_slow() {
        let args = parsed(&["--members", "6", "--stragglers", "2", "--slow", "2x10", "--compute-ms", "7"]);
        let parts = |place| member(&args, Scheme::Coded, place).named.into_values().collect::<Vec<_>>();
        assert_eq!(
            (parts(0), parts(2), parts(3), parts(5)),
            (vec![0, 1, 2], vec![0, 1, 2], vec![3, 4, 5], vec![3, 4, 5])
        );
        let work_ms: Vec<_> = (0..4).map(|place| member(&args, Scheme::Star, place).work.as_millis()).collect();
        assert_eq!(work_ms, [70, 70, 7, 7]);
    }

    /// Goal: a coded tree has the shares that its plan has, and its smaller parts take less time.
    #[test]
    fn members_of_a_tree_are_in_the_order_of_its_relays() {
        let args = parsed(&["--compute-ms", "1000", "--slow", "1x10"]);
        let member = |place| member(&args, Scheme::Tree, place);
        let parts = |place| member(place).named.into_values().collect::<Vec<_>>();
        assert_eq!([parts(0), parts(1), parts(2)], [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![6, 7, 8, 9]]);
        assert_eq!([0, 1].map(|place| member(place).work.as_millis()), [8000, 800]);
        let held = (0..12).flat_map(parts).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(held, (0..15).collect());
    }

    /// Goal: all holders of a part make the same update of it. A member stops when its round is closed.
    #[test]
    fn an_update_depends_on_the_part_alone() {
        let args = parsed(&["--parameters", "5", "--compute-ms", "1", "--slow", "1x1"]);
        let file = job_file(&args, Scheme::Coded, &population_name().unwrap()).unwrap();
        let ModelSpec::Parameters(_) = &file.model.spec else { panic!("{:?}", file.model.spec) };
        let model = Model::new(Arc::new(file.model.spec.parameters().unwrap()), vec![0.0; 5]).unwrap();
        let task = TrainTask::new(&model, &file.model.spec, &file.training, Seed(1));
        let (name, mut coded) = (part_name(1), task);
        coded.data = Some(&name);
        let star = member(&args, Scheme::Star, 1).train(&task, &|| false).unwrap();
        for place in [0, 1] {
            assert_eq!(member(&args, Scheme::Coded, place).train(&coded, &|| false).unwrap(), star);
        }
        assert_ne!(member(&args, Scheme::Star, 0).train(&task, &|| false).unwrap(), star);
        assert_eq!(member(&args, Scheme::Coded, 2).train(&coded, &|| false), Err(TrainError::NoExamples));
        let slow = CodedArgs { compute_ms: 600_000, ..args };
        assert_eq!(member(&slow, Scheme::Star, 0).train(&task, &|| true), Err(TrainError::Interrupted));
    }
}
