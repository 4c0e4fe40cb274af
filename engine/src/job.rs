//! A job spec: everything that is derived from a job file.

use std::ops::Range;
use std::sync::Arc;

use tributary_protocol::device::Plan;
use tributary_protocol::fixed::Weight;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::inputs::Inputs;
use tributary_protocol::job_file::{Coded, JobFile, JobFileError, Mode};
use tributary_protocol::model::{Companion, ParameterList, ParameterListError, ParameterSpec};
use tributary_protocol::plan::{Algorithm, Masking};
use tributary_protocol::safetensors::{model_file_beginning, model_metadata};
use tributary_protocol::secure::quantise::Quantiser;
use tributary_protocol::secure::sizes::body_bytes;
use tributary_protocol::secure::slots::SLOTS;
use tributary_protocol::seed::Seed;
use tributary_protocol::sharing::Parts;
use tributary_protocol::sum::body_bytes_max;
use tributary_protocol::update::{Codec, Shard, UpdateDecoder, UpdateHeader, UpdateLimits, bytes_max};

use crate::aggregate::{
    Accumulator, CapsError, ControlStep, Discount, Dynamic, Elastic, Gathering, Optimizer, Reports, SumCaps, Weighing,
    gathering_of, optimizer_of, share,
};
use crate::coded::cyclic::WEIGHT_MAX;
use crate::coded::rows::Rows;
use crate::privacy::{BudgetError, Terms};
use crate::round::masking::{GroupParameters, MaskingPolicy, ParametersError};
use crate::round::{Calendar, CalendarError, Needs};

/// A job file with the values that are derived from it.
#[derive(Clone, Debug)]
pub struct JobSpec {
    pub id: JobId,
    pub file: JobFile,
    /// Names and shapes of the model.
    pub model: Arc<ParameterList>,
    /// Which of them are shared, frozen and personal.
    pub parts: Arc<Parts>,
    /// Names and shapes of what an update carries: those of the shared parameters, and of further vectors if the
    /// algorithm sends any.
    pub update: Arc<ParameterList>,
    /// The plan that clients receive with an assignment.
    pub plan: Plan,
    pub plan_hash: Sha256Hash,
    /// Limits of a round's sum.
    pub caps: SumCaps,
    /// Largest body of an update.
    pub update_bytes_max: u64,
    /// Bytes of an update as a plain f32 file, with which compressed updates are compared.
    pub plain_bytes: u64,
    /// What the tables of its clients have in common; none without columns. Each draw asks for it, so it is kept.
    pub schema: Option<Sha256Hash>,
    /// What the SDKs of its clients must be able to do.
    pub needs: Needs,
    /// The minutes in which training rounds may open; none if they may open at any time.
    pub calendar: Option<Calendar>,
    /// What `[privacy]` comes to.
    pub privacy: Option<Terms>,
    /// The code of `[coded]`. The best cyclic one is searched for, so it is kept.
    pub code: Option<Arc<Rows>>,
    /// The parts of each update; none where it is one body.
    pub shards: Arc<[Shard]>,
    /// The shard that this spec is of: its bodies and sums are those of the shard. None for whole updates.
    pub shard: Option<Shard>,
}

#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error(transparent)]
    File(#[from] JobFileError),
    #[error("[update] weight_max and magnitude_max and the cohort's size: {0}")]
    Caps(#[from] CapsError),
    #[error("[training] algorithm: {0}")]
    Update(ParameterListError),
    #[error("[aggregation.optimizer] pairs: {0}")]
    Companion(ParameterListError),
    #[error("[schedule] {0}")]
    Schedule(#[from] CalendarError),
    #[error("[privacy] {0}")]
    Budget(#[from] BudgetError),
    #[error("[secure_aggregation] {0}")]
    Groups(#[from] ParametersError),
    #[error(
        "[coded] code: with {parts} parts and {stragglers} stragglers it has no matrix whose weights are at most \
         {WEIGHT_MAX}: take a number of parts that is a multiple of {}, and \"fractional\"",
        stragglers + 1
    )]
    Code { parts: usize, stragglers: u16 },
}

impl JobSpec {
    /// Derives everything from a job file. Fails when the job cannot run.
    pub fn new(id: JobId, file: JobFile) -> Result<Self, SpecError> {
        file.check()?;
        let parts = Arc::new(file.model.parts().map_err(JobFileError::from)?);
        let model = Arc::clone(parts.model());
        let update = match file.training.algorithm.sends_control() {
            true => Arc::new(file.training.algorithm.update_parameters(parts.shared()).map_err(SpecError::Update)?),
            false => Arc::clone(parts.shared()),
        };
        let weight_max = match gathering_of(&file, 0).weighing() {
            Some(Weighing::Uniform) => 1,
            _ => file.update.weight_max,
        };
        let caps = SumCaps {
            weight_max: Weight::examples(weight_max),
            magnitude_max: file.update.magnitude_max,
            updates_max: file.updates_max(),
        };
        Accumulator::new(0, caps)?;
        let code = file.coded.as_ref().map(code_of).transpose()?;
        if let Some(policy) = MaskingPolicy::of(&file, file.round.goal()) {
            GroupParameters::check(&policy)?;
        }
        let calendar = calendar_of(&file)?;
        let shards = shards_of(&file).into();
        let plan = plan_of(&file);
        let update_bytes_max = bytes_max(&update, plan.codec).max(masked_bytes_max(&file, update.total()));
        let beginning = model_file_beginning(&update, &model_metadata()).len();
        let plain_bytes = beginning as u64 + 4 * update.total() as u64;
        let plan_hash = plan.hash();
        let schema = file.model.inputs.as_ref().map(Inputs::schema_hash);
        let spec = Self {
            needs: Needs::of_plan(&plan),
            id,
            model,
            parts,
            update,
            plan,
            plan_hash,
            caps,
            update_bytes_max,
            plain_bytes,
            schema,
            calendar,
            privacy: Terms::of(&file),
            code,
            shards,
            shard: None,
            file,
        };
        let optimizer = spec.optimizer(0, 0);
        for companion in optimizer.companions() {
            spec.companion(optimizer.width(*companion)).map_err(SpecError::Companion)?;
        }
        Ok(spec)
    }

    /// The spec for a round that was opened with this cohort size. An open round keeps its size when the job's policy
    /// changes, so every coordinator sums it under the same caps and gets the same bits.
    #[must_use]
    pub fn with_cohort(self: &Arc<Self>, cohort_size: u32) -> Arc<Self> {
        if self.caps.updates_max == cohort_size {
            return Arc::clone(self);
        }
        let caps = SumCaps { updates_max: cohort_size, ..self.caps };
        Arc::new(Self { caps, ..Self::clone(self) })
    }

    /// The spec for the sums of relays in a round of this size.
    #[must_use]
    pub fn of_sums(self: &Arc<Self>, cohort_size: u32) -> Arc<Self> {
        let values = u32::try_from(self.update.total()).unwrap_or(u32::MAX);
        Arc::new(Self { update_bytes_max: body_bytes_max(values), ..Self::clone(&self.with_cohort(cohort_size)) })
    }

    /// The spec of one shard, if the job has it.
    #[must_use]
    pub fn of_shard(self: &Arc<Self>, number: u16) -> Option<Arc<Self>> {
        let shard = self.shards.get(usize::from(number))?.clone();
        let update_bytes_max = shard.bytes_max(&self.update, self.plan.codec);
        Some(Arc::new(Self { shard: Some(shard), update_bytes_max, ..Self::clone(self) }))
    }

    /// The number of the shard that this spec is of.
    #[must_use]
    pub fn shard_number(&self) -> Option<u16> {
        self.shard.as_ref().map(|shard| shard.number)
    }

    /// Values of an update, or of the part that is this shard's.
    #[must_use]
    pub fn values(&self) -> usize {
        self.shard.as_ref().map_or(self.update.total(), Shard::values)
    }

    /// The decoder of an update on this base version, or of the part that is this shard's.
    #[must_use]
    pub fn decoder(&self, base_version: u32, limits: UpdateLimits) -> UpdateDecoder {
        let (parameters, header) = (Arc::clone(&self.update), self.update_header(base_version));
        match &self.shard {
            Some(shard) => UpdateDecoder::of_shard(parameters, shard, header, limits),
            None => UpdateDecoder::new(parameters, header, limits),
        }
    }

    #[must_use]
    pub fn seed(&self) -> Seed {
        self.file.seed.expect("a stored job has a seed")
    }

    /// The parameters that clients train together. The companions of a version have the same ones.
    #[must_use]
    pub fn shared(&self) -> &Arc<ParameterList> {
        self.parts.shared()
    }

    /// The header that every update on this base version must carry.
    #[must_use]
    pub fn update_header(&self, base_version: u32) -> UpdateHeader {
        UpdateHeader { codec: self.plan.codec, job: self.id.to_string(), base_version: base_version.into() }
    }

    /// The limits of an update's values. Those of its round may be narrower, which no longer matters once the update
    /// was accepted.
    #[must_use]
    pub fn update_limits(&self) -> UpdateLimits {
        let limits = UpdateLimits::of_magnitude(self.file.update.magnitude_max);
        UpdateLimits { norm_values: self.shared().total(), ..limits }
    }

    /// What the job's rule needs of the updates of a round that starts from this model version.
    #[must_use]
    pub fn gathering(&self, base_version: u32) -> Gathering {
        gathering_of(&self.file, base_version)
    }

    /// The same in a round that clips to this norm. Where updates are hidden, that is the clip of the clients, and no
    /// rule reads it.
    #[must_use]
    pub fn gathering_of_round(&self, base_version: u32, clip: Option<f64>) -> Gathering {
        self.gathering(base_version).clipped_to(clip.filter(|_| !self.file.hides_updates()))
    }

    /// How staleness changes what updates count for.
    #[must_use]
    pub fn discount(&self) -> Discount {
        Discount::of(&self.file)
    }

    /// The weight, in examples, that staleness takes from an update.
    pub fn weight_lost(&self, examples: u64, staleness: u32) -> f64 {
        let full = Weight::examples(u32::try_from(examples).unwrap_or(u32::MAX));
        full.as_f64() - self.discount().weight(full, staleness).as_f64()
    }

    /// Whether the job's rules read the losses of updates, so that none can do without.
    pub fn reads_losses(&self) -> bool {
        let is_fair = matches!(self.gathering(0), Gathering::Reports(Reports::Fair { .. }));
        is_fair || self.optimizer(0, 1).survey().is_some()
    }

    /// Most optimiser steps behind an update from this version of a client with so many examples, in jobs whose rule
    /// reads them (FedNova): the plan's, or the batches of its passes, at least 1 each. Without a batch size in the
    /// plan an app may choose batches of one example. None where no rule reads steps.
    #[must_use]
    pub fn steps_max(&self, base_version: u32, examples: u64) -> Option<u64> {
        let Algorithm::FedNova { .. } = self.plan.training.algorithm else { return None };
        let training = self.plan.training.at_version(base_version);
        let each = match training.steps {
            Some(steps) => u64::from(steps),
            None => {
                let batches = examples.div_ceil(training.batch_size.unwrap_or(1).max(1).into()).max(1);
                u64::from(training.epochs.unwrap_or(1)).saturating_mul(batches)
            }
        };
        Some(each.saturating_mul(self.plan.cadence.push_every.into()))
    }

    /// How updates weigh in the running sum of a round; none if the job keeps none: its rule needs more than a sum, or
    /// its updates are clipped when the round closes.
    #[must_use]
    pub fn weighing(&self) -> Option<Weighing> {
        self.gathering(0).weighing().filter(|_| self.noised_here().is_none())
    }

    /// The terms of a job whose sums the coordinator noises itself.
    #[must_use]
    pub fn noised_here(&self) -> Option<&Terms> {
        self.privacy.as_ref().filter(|terms| !terms.mechanism.is_of_clients())
    }

    /// What the clients of a round do that has this goal and clips updates to this norm, where the job names one.
    #[must_use]
    pub fn plan_of_round(&self, goal: u32, clip: Option<f64>) -> Plan {
        let masking = clip.and_then(|clip| masking_of(&self.file, self.privacy.as_ref(), (goal, clip)));
        Plan { masking: masking.or(self.plan.masking), ..self.plan.clone() }
    }

    /// The parameters that a private round from this model version releases; none for all. Those of an analysis are the
    /// answers that the round asks for.
    #[must_use]
    pub fn released(&self, base_version: u32) -> Option<Vec<Range<usize>>> {
        self.file.analysis.as_ref().map(|analysis| analysis.answered_in(base_version + 1))
    }

    /// The optimiser of a round that starts from this model version and combines this many updates.
    #[must_use]
    pub fn optimizer(&self, base_version: u32, updates: u32) -> Box<dyn Optimizer> {
        match self.file.training.algorithm {
            // Answers are sums, and not means; noise of the coordinator is added to the sum itself.
            _ if self.file.analysis.is_some() && self.noised_here().is_none() => Box::new(Elastic { updates }),
            Algorithm::FedDyn { alpha, clients } => Box::new(Dynamic { alpha, share: share(updates, clients) }),
            Algorithm::Easgd { .. } => Box::new(Elastic { updates }),
            _ => {
                let training = self.file.training.at_version(base_version);
                optimizer_of(&self.file.aggregation, training.optimizer.learning_rate(), base_version)
            }
        }
    }

    /// How the control variate moves on in a round of this many updates; none if the job has none.
    #[must_use]
    pub fn control_step(&self, updates: u32) -> Option<ControlStep> {
        let clients = self.file.training.algorithm.clients().filter(|_| self.plan.training.algorithm.sends_control());
        clients.map(|clients| ControlStep { share: share(updates, clients), first: self.shared().total() })
    }

    /// Names and shapes of the file of a companion with this many values per shared parameter.
    ///
    /// # Errors
    /// [`ParameterListError`] for more values than a file may have.
    pub fn companion(&self, width: usize) -> Result<Arc<ParameterList>, ParameterListError> {
        match width {
            1 => Ok(Arc::clone(self.shared())),
            _ => {
                let vectors = ParameterSpec::new("vectors", [self.shared().total(), width]);
                ParameterList::new(vec![vectors]).map(Arc::new)
            }
        }
    }

    /// The companions of a model version: those of the optimiser, then the rule's centre or the control variate, if it
    /// has one.
    #[must_use]
    pub fn companions(&self) -> Vec<Companion> {
        let control = self.plan.training.algorithm.sends_control().then_some(Companion::Control);
        let optimizer = self.optimizer(0, 0);
        optimizer.companions().iter().copied().chain(self.gathering(0).centre()).chain(control).collect()
    }
}

/// The shards of a job; none where it has fewer than two.
fn shards_of(file: &JobFile) -> Vec<Shard> {
    let shards = || {
        let (wanted, parts) = (file.aggregation.shards()?, file.model.parts().ok()?);
        let shared = parts.shared();
        let update = file.training.algorithm.update_parameters(shared).ok().filter(|_| shared.total() > 0)?;
        Some(Shard::all(&update, update.total() / shared.total(), file.update.codec, wanted))
    };
    shards().filter(|shards| shards.len() > 1).unwrap_or_default()
}

fn code_of(coded: &Coded) -> Result<Arc<Rows>, SpecError> {
    let (parts, Coded { stragglers, code, .. }) = (coded.clients() as usize, coded);
    let rows = Rows::of(*code, parts, (*stragglers).into());
    rows.map(Arc::new).ok_or(SpecError::Code { parts, stragglers: *stragglers })
}

/// Largest body of a masked update, over all sizes of groups: with noise that of the largest group need not be the
/// largest. 0 where updates are not masked.
fn masked_bytes_max(file: &JobFile, values: usize) -> u64 {
    let of = || {
        let secure = file.secure_aggregation.as_ref()?;
        let quantiser = Quantiser::new(values, secure.clip.start(), secure.levels, secure.keep).ok()?;
        let (masking, goal) = (first_masking(file)?, file.round.goal());
        let most = secure.sizes(goal).filter_map(|members| masking.value_bits(&quantiser, members)).max()?;
        Some(body_bytes(most, quantiser.coordinates(), SLOTS))
    };
    of().unwrap_or(0)
}

/// The minutes in which a job's training rounds may open; none if they may open at any time. Fails when the file's cron
/// expression or time zone is invalid.
pub fn calendar_of(file: &JobFile) -> Result<Option<Calendar>, CalendarError> {
    file.schedule.as_ref().map(|schedule| Calendar::parse(&schedule.rounds, &schedule.time_zone)).transpose()
}

/// How the clients of the first round mask their updates; none where they do not.
pub(crate) fn first_masking(file: &JobFile) -> Option<Masking> {
    masking_of(file, Terms::of(file).as_ref(), (file.round.goal(), file.clip()?.start()))
}

/// How the clients of a round with this goal and this clip mask their updates; none where they do not.
fn masking_of(file: &JobFile, terms: Option<&Terms>, (goal, clip): (u32, f64)) -> Option<Masking> {
    let secure = file.secure_aggregation.as_ref()?;
    let (noise, any_version) = (terms.and_then(Terms::group_noise), file.round.mode != Mode::Synchronous);
    Some(Masking { noise, any_version, ..secure.masking(goal, clip) })
}

#[must_use]
pub fn plan_of(file: &JobFile) -> Plan {
    Plan {
        model: file.model.clone(),
        training: file.training.clone(),
        analysis: file.analysis.clone(),
        // Masked integers have no codec; the sum of a group is stored as it was opened.
        codec: if file.secure_aggregation.is_some() { Codec::F32 } else { file.update.codec },
        weight_max: file.update.weight_max,
        download: file.download,
        norm_max: file.update.norm_max.and_then(|bound| bound.fixed()),
        cadence: file.round.mode.cadence(),
        masking: first_masking(file),
        ring: file.group.is_some(),
        exchange: file.group.as_ref().and_then(|group| group.topology.exchange()),
        coded: file.coded.is_some(),
        shards: shards_of(file).last().map(|shard| shard.count),
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::job_file::Schedule;

    use super::*;
    use crate::privacy::resolve;

    /// A job as it is stored: with the noise of its budget.
    fn spec(file: &str) -> Arc<JobSpec> {
        let id = format!("job_{}", "0".repeat(32)).parse().unwrap();
        let mut file = JobFile::parse(file).unwrap();
        resolve(&mut file).unwrap();
        Arc::new(JobSpec::new(id, file).unwrap())
    }

    /// A job that trains two parameters.
    fn training(rest: &str) -> Arc<JobSpec> {
        spec(&format!(
            "name = 'a'\npopulation = 'b'\nseed = 7\nmodel.parameters = [{{ name = 'w', shape = [2] }}]\n\
             training.steps = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n{rest}"
        ))
    }

    /// Goal: combinations that would lose more than two digits in their decoding are refused when the job is created.
    #[test]
    fn a_cyclic_code_whose_weights_are_too_large_is_refused() {
        let coded = |parts: usize, stragglers: u16| {
            let names: Vec<String> = (0..parts).map(|part| format!("'p{part}'")).collect();
            let file = JobFile::parse(&format!(
                "name = 'a'\npopulation = 'b'\nmodel.parameters = [{{ name = 'w', shape = [2] }}]\nupdate.codec = 'f32'\n\
                 training.steps = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n\
                 coded = {{ parts = [{}], stragglers = {stragglers}, code = 'cyclic' }}",
                names.join(", ")
            ));
            JobSpec::new(format!("job_{}", "0".repeat(32)).parse().unwrap(), file.unwrap())
        };
        assert!(coded(5, 2).is_ok());
        let refused = coded(11, 4).err().unwrap().to_string();
        assert!(refused.contains("a multiple of 5, and \"fractional\""), "{refused}");
    }

    /// A job that asks two questions, the second of them in two rounds.
    fn analysis(mechanism: &str) -> Arc<JobSpec> {
        spec(&format!(
            "name = 'a'\npopulation = 'b'\nround.updates_goal = 50\n\
             privacy = {{ epsilon = 1.0, delta = 1e-6{mechanism} }}\n\
             [[analysis.queries]]\nname = 'rows'\nkind = 'count'\ncolumn = 'word'\nvalues = ['a']\n\
             [[analysis.queries]]\nname = 'words'\nkind = 'heavy_hitters'\ncolumn = 'word'\n\
             length_max = 2\nalphabet = 'ab'\nbeginnings_max = 4\n"
        ))
    }

    /// The step that the job's optimiser makes of a mean of 1 and -2.
    fn step(spec: &JobSpec, updates: u32) -> Vec<f64> {
        let (optimizer, mut block) = (spec.optimizer(0, updates), vec![1.0, -2.0]);
        optimizer.step(&mut block, &mut vec![vec![0.0; 2]; optimizer.companions().len()]);
        block
    }

    #[test]
    fn a_round_of_another_size_has_caps_of_its_size_and_the_rest_of_its_job() {
        let spec = training("");
        let cohort = spec.file.round.cohort_size();
        assert!(Arc::ptr_eq(&spec.with_cohort(cohort), &spec));
        let smaller = spec.with_cohort(cohort - 1);
        assert_eq!(smaller.caps, SumCaps { updates_max: cohort - 1, ..spec.caps });
        assert_eq!((smaller.plan_hash, &smaller.file), (spec.plan_hash, &spec.file));
        let of_sums = spec.of_sums(cohort - 1);
        assert_eq!((of_sums.caps, of_sums.update_bytes_max), (smaller.caps, body_bytes_max(2)));
    }

    #[test]
    fn updates_name_their_job_and_version_and_have_the_limits_of_the_file() {
        let spec = training("update = { codec = 'f16', magnitude_max = 4.0 }");
        let header = UpdateHeader { codec: Codec::F16, job: spec.id.to_string(), base_version: 3 };
        assert_eq!(spec.update_header(3), header);
        let limits = UpdateLimits { norm_values: 2, ..UpdateLimits::of_magnitude(4.0) };
        assert_eq!((spec.update_limits(), spec.seed()), (limits, Seed(7)));
    }

    #[test]
    fn a_round_of_an_analysis_releases_the_answers_that_it_asks_for() {
        let spec = analysis("");
        // One number, then 4 beginnings with a letter or an end.
        let released = [0, 1, 2].map(|base| spec.released(base).unwrap());
        assert_eq!(released.each_ref().map(Vec::as_slice), [&[0..1, 1..13][..], std::slice::from_ref(&(13..25)), &[]]);
        assert_eq!(training("").released(0), None, "all parameters");
    }

    /// Noise of the coordinator is added to the sum of the answers, and noise of clients is in it.
    #[test]
    fn answers_of_an_analysis_are_sums() {
        let (here, of_clients) = (analysis(""), analysis(", mechanism = 'local'"));
        assert_eq!((here.noised_here().is_some(), of_clients.noised_here().is_some()), (true, false));
        assert_eq!((here.weighing(), of_clients.weighing()), (None, Some(Weighing::Uniform)));
        assert_eq!((step(&here, 3), step(&of_clients, 3)), (vec![1.0, -2.0], vec![3.0, -6.0]));
    }

    #[test]
    fn each_algorithm_has_its_optimizer_its_control_step_and_its_companions() {
        let plain = training("");
        assert_eq!((step(&plain, 3), plain.control_step(3), plain.companions()), (vec![1.0, -2.0], None, vec![]));
        let elastic =
            training("training.algorithm = { kind = 'easgd', alpha = 0.0625 }\naggregation.combine = 'uniform_mean'");
        assert_eq!((step(&elastic, 3), elastic.control_step(3)), (vec![3.0, -6.0], None));
        let of_twelve = |algorithm: &str| {
            training(&format!(
                "training.algorithm = {{ {algorithm}, clients = 12 }}\n\
                 round = {{ updates_goal = 4, updates_min = 2 }}\naggregation.combine = 'uniform_mean'"
            ))
        };
        // h = -alpha |S| / m D, and the step is D - h / alpha.
        let dynamic = of_twelve("kind = 'fed_dyn', alpha = 0.5");
        assert_eq!((step(&dynamic, 3), dynamic.companions()), (vec![1.25, -2.5], vec![Companion::Linear]));
        let scaffold = of_twelve("kind = 'scaffold'");
        assert_eq!(scaffold.control_step(3), Some(ControlStep { share: 0.25, first: 2 }));
        assert_eq!((step(&scaffold, 3), scaffold.companions()), (vec![1.0, -2.0], vec![Companion::Control]));
    }

    #[test]
    fn a_companion_has_the_shapes_of_the_model_or_a_vector_for_each_value() {
        let spec = training("");
        assert_eq!(*spec.companion(1).unwrap(), **spec.shared());
        let vectors = ParameterList::new(vec![ParameterSpec::new("vectors", [2, 3])]).unwrap();
        assert_eq!(*spec.companion(3).unwrap(), vectors);
    }

    #[test]
    fn staleness_takes_weight_from_updates_of_a_buffered_job() {
        let buffered =
            "round.mode = { kind = 'buffered', buffer = 2, concurrency = 4, staleness_weight.kind = 'inverse' }";
        let spec = training(buffered);
        assert_eq!([0, 1, 2, 4].map(|staleness| spec.weight_lost(8, staleness)), [0.0, 0.0, 4.0, 6.0]);
        assert_eq!(training("").weight_lost(8, 4), 0.0);
    }

    #[test]
    fn losses_are_read_by_a_fair_rule_and_by_an_optimizer_that_surveys_the_round() {
        let fair = "aggregation.combine = { kind = 'q_fedavg', q = 1.0 }";
        let lbfgs = "aggregation.optimizer = { kind = 'lbfgs', pairs = 2 }";
        assert_eq!(["", fair, lbfgs].map(|rest| training(rest).reads_losses()), [false, true, true]);
    }

    #[test]
    fn clients_mask_with_the_clip_of_their_round_and_the_noise_of_their_job() {
        let secure = "secure_aggregation = { levels = 16, clip = 1.0 }\naggregation.combine = 'uniform_mean'\n";
        let masking = |spec: &JobSpec| spec.plan_of_round(20, Some(0.5)).masking.unwrap();
        let spec = training(&format!("{secure}round.updates_goal = 20"));
        let of_file = spec.file.secure_aggregation.as_ref().unwrap().masking(20, 0.5);
        assert_eq!(masking(&spec), of_file);
        assert_eq!(spec.plan_of_round(20, None), spec.plan);
        assert_eq!(spec.plan.masking, Some(Masking { clip: 1.0, ..of_file }));
        let mode =
            "round.mode = { kind = 'buffered', buffer = 20, concurrency = 40, staleness_weight.kind = 'constant' }";
        assert_eq!(masking(&training(&format!("{secure}{mode}"))), Masking { any_version: true, ..of_file });
        assert_eq!(training("").plan_of_round(20, Some(0.5)).masking, None);
        // 1,024 values of 13 bits and 5 slots in the largest group.
        assert_eq!([&spec, &training("")].map(|spec| masked_bytes_max(&spec.file, 1_000)), [1_738, 0]);
    }

    #[test]
    fn a_job_with_a_schedule_has_a_calendar_and_one_with_a_wrong_schedule_is_refused() {
        let scheduled = training("schedule.rounds = '* 22-23 * * *'");
        assert!(scheduled.calendar.is_some() && training("").calendar.is_none());
        let never = Schedule { rounds: "never".to_owned(), time_zone: "UTC".to_owned() };
        assert!(calendar_of(&JobFile { schedule: Some(never), ..scheduled.file.clone() }).is_err());
    }

    /// The clip of a masked round is that of its clients; the norm of its rule is another one.
    #[test]
    fn a_rule_over_groups_does_not_read_the_clip_of_the_clients() {
        let norm = |rest: &str, combine: &str| {
            let file = format!(
                "name = 'a'\npopulation = 'b'\nmodel.parameters = [{{ name = 'w', shape = [2] }}]\n\
                 training.steps = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n\
                 aggregation.combine = {{ kind = 'norm_clipping', norm = 3.0{combine} }}\n{rest}"
            );
            match spec(&file).gathering_of_round(0, Some(0.5)) {
                Gathering::Reports(Reports::Clipped { norm }) => norm,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((norm("secure_aggregation = {}", ""), norm("", ", adaptive = {}")), (3.0, 0.5));
    }

    #[test]
    fn steps_have_a_bound_where_a_rule_reads_them() {
        let of = |training: &str| {
            let file = format!(
                "name = 'a'\npopulation = 'b'\nmodel.input = [2]\n\
                 model.layers = [{{ kind = 'linear', out_features = 2 }}]\n\
                 training.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n{training}"
            );
            spec(&file)
        };
        assert_eq!(of("training.epochs = 3").steps_max(0, 10), None);
        let nova = "training.algorithm = { kind = 'fed_nova' }\n";
        assert_eq!(of(&format!("{nova}training.epochs = 3")).steps_max(0, 10), Some(30));
        let batches = of(&format!("{nova}training.epochs = 3\ntraining.batch_size = 4"));
        assert_eq!([0, 1, 4, 5, 10].map(|examples| batches.steps_max(0, examples)), [3, 3, 3, 6, 9].map(Some));
        let growing = "training.steps = 5\ntraining.work_schedule = [{ version = 2, steps = 16 }]";
        let growing = of(&format!("{nova}{growing}"));
        assert_eq!((growing.steps_max(1, 10), growing.steps_max(2, 10)), (Some(5), Some(16)));
    }
}
