//! Admission: whether a checked-in client may take part in a round.

use std::collections::BTreeMap;

use tributary_protocol::abilities::Abilities;
use tributary_protocol::device::Plan;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::job_file::{Coded, Eligibility, EvaluationPlace, EvaluationPolicy, JobFile, Mode};
use tributary_protocol::plan::GroupTrust;
use tributary_protocol::state::Task;
use tributary_protocol::update::CodecName;

use super::candidate::Candidate;
use super::coded::held;
use super::sums::suits;
use crate::privacy::Participation;

/// A job's requirements on the clients of one round.
#[derive(Clone, Debug, PartialEq)]
pub struct EligibilityRules<'a> {
    task: Task,
    round: u32,
    /// The example set that the job uses; none for the examples without a name.
    data: Option<&'a Name>,
    codec: CodecName,
    /// The form of downloaded models; none where every client can read it.
    form: Option<CodecName>,
    /// What the SDK of a client must be able to do.
    needs: Abilities,
    schema: Option<Sha256Hash>,
    /// Whether clients answer, and do not train.
    asks: bool,
    /// Whether updates are masked, and have no codec.
    masks: bool,
    /// Whether the members of groups sign.
    signs: bool,
    eligibility: &'a Eligibility,
    evaluators: Option<&'a BTreeMap<String, String>>,
    /// Whether the coordinator evaluates.
    on_coordinator: bool,
    /// Why relays can take no part; `Ok` if they can.
    relays: Result<(), &'static str>,
    /// The parts of which a client must hold one.
    coded: Option<&'a Coded>,
}

/// What the SDKs of a job's clients must be able to do, by task. It is found once for a job, as a network may have a
/// thousand layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    train: Abilities,
    evaluate: Abilities,
    describe: Abilities,
}

impl Needs {
    /// What no client lacks: where only attributes are asked about.
    pub const NONE: Self = Self { train: Abilities::NONE, evaluate: Abilities::NONE, describe: Abilities::NONE };

    /// What this plan needs.
    pub fn of_plan(plan: &Plan) -> Self {
        let [train, evaluate, describe] =
            [Task::Train, Task::Evaluate, Task::Describe].map(|task| Abilities::needed(plan, task));
        Self { train, evaluate, describe }
    }

    /// What this task needs.
    #[must_use]
    pub fn of(&self, task: Task) -> Abilities {
        match task {
            Task::Train => self.train,
            Task::Evaluate => self.evaluate,
            Task::Describe => self.describe,
        }
    }
}

/// Why a client may not take part: the first rule that it breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ineligible {
    #[error("the attribute {0:?} differs from the one that the job requires")]
    Attribute(String),
    #[error("{held} examples, where the job requires {wanted}")]
    Examples {
        /// Number of examples of the client.
        held: u64,
        /// Number of examples that the job requires.
        wanted: u64,
    },
    #[error("the job leaves it out")]
    LeftOut,
    #[error("it has no example set {0}")]
    NoSet(Name),
    #[error("it holds no part of the job's data")]
    NoPart,
    #[error("it took part in round {0}, too recently")]
    Separation(u32),
    /// The most updates of one client in a buffer.
    #[error("it has {0} in the open buffer, as many as count of one client")]
    InBuffer(u32),
    #[error("it has contributed the {0} updates that the job's privacy allows")]
    Spent(u32),
    #[error("its last update made version {0}, too recently for the job's privacy")]
    Unseparated(u32),
    #[error("its token granted it no {0:?}, by which the job's privacy tells persons apart")]
    NoUnit(String),
    #[error("another client of the same person takes part")]
    SameUnit,
    #[error("its app refused the job for its privacy less than an hour ago")]
    Refuses,
    #[error("its table has other columns or classes than the job")]
    Schema,
    #[error("it answers no analyses")]
    NoAnswers,
    #[error("it cannot mask updates")]
    NoMasks,
    #[error("it has no certificate to sign with in its group")]
    NoSignature,
    /// The abilities that are missing.
    #[error("its SDK cannot follow the plan: it lacks {0}")]
    Abilities(Abilities),
    #[error("it cannot write the codec {0}")]
    Codec(CodecName),
    /// A client that can write a codec can read it as well.
    #[error("it cannot read models in {0}")]
    Form(CodecName),
    /// Evaluators do not train.
    #[error("it is an evaluator")]
    Evaluator,
    #[error("the coordinator evaluates")]
    Coordinator,
    #[error("it is a relay, and {0}")]
    Relay(&'static str),
}

impl<'a> EligibilityRules<'a> {
    /// The rules of round `round` of a job. [`JobSpec`](crate::job::JobSpec) has its schema and its needs. Without a
    /// schema, only clients without one are admitted.
    #[must_use]
    pub fn of(job: &'a JobFile, schema: Option<Sha256Hash>, needs: &Needs, task: Task, round: u32) -> Self {
        Self {
            task,
            round,
            data: job.data.as_ref(),
            codec: job.update.codec.name(),
            form: Some(job.download.codec.codec().name()).filter(|form| *form != CodecName::F32),
            needs: needs.of(task),
            schema,
            asks: job.analysis.is_some(),
            masks: job.secure_aggregation.is_some(),
            signs: job.secure_aggregation.as_ref().is_some_and(|secure| secure.trust() == GroupTrust::Signed),
            eligibility: &job.eligibility,
            evaluators: job.evaluation.as_ref().map(|EvaluationPolicy { attributes, .. }| attributes),
            on_coordinator: job.evaluation.as_ref().is_some_and(|policy| policy.place == EvaluationPlace::Coordinator),
            relays: suits(job),
            coded: job.coded.as_ref().filter(|_| task == Task::Train),
        }
    }
}

/// Checks whether a client may take part that was drawn for the training round `last_round` of the job last. The error
/// is the first rule that it breaks.
pub fn admit(candidate: &Candidate, last_round: Option<u32>, rules: &EligibilityRules<'_>) -> Result<(), Ineligible> {
    if rules.task == Task::Evaluate && rules.on_coordinator {
        return Err(Ineligible::Coordinator);
    }
    if rules.eligibility.without.contains(&candidate.client) {
        return Err(Ineligible::LeftOut);
    }
    let missing = candidate.abilities.lacks(rules.needs);
    if !missing.is_empty() {
        return Err(Ineligible::Abilities(missing));
    }
    let set = match (candidate.set(rules.data), rules.data) {
        (None, Some(name)) => return Err(Ineligible::NoSet(name.clone())),
        (set, _) => set.unwrap_or_default(),
    };
    // Whether the clients behind a relay may take part is for the relay to say, which has the same rules.
    if candidate.relay.is_some() {
        return rules.relays.map_err(Ineligible::Relay);
    }
    if let Some(form) = rules.form.filter(|form| !candidate.codecs.contains(form)) {
        return Err(Ineligible::Form(form));
    }
    // Columns that answer are read by their names, whatever a job has made of the table.
    if rules.asks && !candidate.answers {
        return Err(Ineligible::NoAnswers);
    }
    if !rules.asks && rules.coded.is_none() && candidate.has_other_table(rules.data, rules.schema) {
        return Err(Ineligible::Schema);
    }
    let evaluators = rules.evaluators.filter(|attributes| !attributes.is_empty());
    match (rules.task, evaluators) {
        (Task::Evaluate, Some(wanted)) => {
            has_attributes(candidate, wanted)?;
            return has_examples(set.examples, 1);
        }
        (Task::Evaluate, None) => {}
        (Task::Describe, evaluators) => trains(candidate, evaluators)?,
        (Task::Train, evaluators) => {
            trains(candidate, evaluators)?;
            if rules.masks && !candidate.masks {
                return Err(Ineligible::NoMasks);
            }
            if rules.signs && !candidate.signs {
                return Err(Ineligible::NoSignature);
            }
            if !rules.masks && !candidate.codecs.contains(&rules.codec) {
                return Err(Ineligible::Codec(rules.codec));
            }
            is_rested(last_round, rules)?;
        }
    }
    has_attributes(candidate, &rules.eligibility.attributes)?;
    if let Some(coded) = rules.coded {
        return holds_a_part(candidate, coded, rules.schema);
    }
    // A client that only answers has a table, and no examples to train on.
    let wanted = rules.eligibility.examples_min;
    if rules.asks && wanted <= 1 { Ok(()) } else { has_examples(set.examples, wanted) }
}

/// What a unit of a private job has contributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contributed {
    /// Updates that counted.
    pub updates: u32,
    /// The version that the last of them was to make.
    pub version: u32,
}

/// Whether a client with so many updates in the open buffer may be drawn into it again. Otherwise the quickest client
/// would make most of each version. A relay stands for as many clients as it has places.
///
/// # Errors
/// [`Ineligible::InBuffer`] if it may not.
pub fn admit_to_buffer(mode: Mode, reported: u32, places: u32) -> Result<(), Ineligible> {
    match mode.per_client() {
        Some(most) if reported >= most.saturating_mul(places.max(1)) => Err(Ineligible::InBuffer(most)),
        _ => Ok(()),
    }
}

/// Checks whether a unit of a private job may contribute to the version after `base_version`.
///
/// # Errors
/// The rule that it would break.
pub fn admit_unit(before: Contributed, base_version: u32, participation: &Participation) -> Result<(), Ineligible> {
    let Contributed { updates, version } = before;
    if updates >= participation.times {
        return Err(Ineligible::Spent(updates));
    }
    let distance = (base_version + 1).saturating_sub(version);
    match updates > 0 && distance < participation.separation {
        true => Err(Ineligible::Unseparated(version)),
        false => Ok(()),
    }
}

fn trains(candidate: &Candidate, evaluators: Option<&BTreeMap<String, String>>) -> Result<(), Ineligible> {
    let evaluates = evaluators.is_some_and(|wanted| candidate.attributes.include(wanted));
    if evaluates { Err(Ineligible::Evaluator) } else { Ok(()) }
}

/// Whether it holds a part, and each that it holds was prepared for the job.
fn holds_a_part(candidate: &Candidate, coded: &Coded, schema: Option<Sha256Hash>) -> Result<(), Ineligible> {
    let parts = held(candidate, coded);
    if parts.is_empty() {
        return Err(Ineligible::NoPart);
    }
    let is_other = |place: usize| candidate.has_other_table(Some(&coded.parts[place]), schema);
    if parts.places().any(is_other) { Err(Ineligible::Schema) } else { Ok(()) }
}

fn has_attributes(candidate: &Candidate, wanted: &BTreeMap<String, String>) -> Result<(), Ineligible> {
    let held = candidate.attributes.as_map();
    match wanted.iter().find(|(name, value)| held.get(*name) != Some(*value)) {
        Some((name, _)) => Err(Ineligible::Attribute(name.clone())),
        None => Ok(()),
    }
}

fn has_examples(held: u64, wanted: u64) -> Result<(), Ineligible> {
    if held >= wanted { Ok(()) } else { Err(Ineligible::Examples { held, wanted }) }
}

fn is_rested(last_round: Option<u32>, rules: &EligibilityRules<'_>) -> Result<(), Ineligible> {
    match last_round {
        Some(last) if rules.round.saturating_sub(last) <= rules.eligibility.separation_rounds => {
            Err(Ineligible::Separation(last))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::abilities::Ability;
    use tributary_protocol::example_sets::{ExampleSet, ExampleSets};
    use tributary_protocol::id::ClientId;

    use super::super::played::job_file;
    use super::*;

    fn candidate(attributes: &[(&str, &str)], examples: u64) -> Candidate {
        let pairs: BTreeMap<_, _> = attributes.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Candidate {
            client: ClientId::from_random([1; 16]),
            number: 1,
            attributes: pairs.try_into().unwrap(),
            examples,
            sets: ExampleSets::default(),
            codecs: vec![CodecName::F32],
            abilities: Abilities::FIRST,
            schema: None,
            answers: false,
            masks: false,
            signs: false,
            relay: None,
            share: None,
        }
    }

    #[test]
    fn a_client_is_drawn_into_a_buffer_until_it_has_what_counts_of_one() {
        let mode = |per_client| {
            let mode =
                serde_json::json!({ "kind": "buffered", "buffer": 9, "concurrency": 4, "per_client": per_client });
            serde_json::from_value::<Mode>(mode).unwrap()
        };
        assert_eq!(admit_to_buffer(mode(1), 0, 1), Ok(()));
        assert_eq!([2, 3].map(|reported| admit_to_buffer(mode(1), reported, 3).is_ok()), [true, false], "a relay");
        assert_eq!(admit_to_buffer(mode(1), 1, 1), Err(Ineligible::InBuffer(1)));
        assert_eq!([1, 2].map(|reported| admit_to_buffer(mode(2), reported, 1).is_ok()), [true, false]);
        assert_eq!(admit_to_buffer(Mode::Synchronous, 9, 1), Ok(()));
    }

    #[test]
    fn each_rule_refuses_by_its_own_reason() {
        let eligibility = Eligibility {
            attributes: BTreeMap::from([("platform".into(), "android".into())]),
            examples_min: 10,
            separation_rounds: 2,
            without: Vec::new(),
        };
        let evaluators = BTreeMap::from([("evaluator".to_owned(), "true".to_owned())]);
        let rules = |task| EligibilityRules {
            task,
            round: 5,
            data: None,
            codec: CodecName::F32,
            form: None,
            needs: Abilities::NONE,
            schema: None,
            asks: false,
            masks: false,
            signs: false,
            eligibility: &eligibility,
            evaluators: Some(&evaluators),
            on_coordinator: false,
            relays: Ok(()),
            coded: None,
        };
        let android = ("platform", "android");
        let evaluator = ("evaluator", "true");
        let train = |candidate| admit(&candidate, None, &rules(Task::Train));
        let rested = |last_round| admit(&candidate(&[android], 10), Some(last_round), &rules(Task::Train));
        assert_eq!(train(candidate(&[android], 10)), Ok(()));
        assert_eq!(train(candidate(&[], 10)), Err(Ineligible::Attribute("platform".into())));
        assert_eq!(train(candidate(&[("platform", "ios")], 10)), Err(Ineligible::Attribute("platform".into())));
        assert_eq!(train(candidate(&[android], 9)), Err(Ineligible::Examples { held: 9, wanted: 10 }));
        assert_eq!((rested(3), rested(2)), (Err(Ineligible::Separation(3)), Ok(())));
        assert_eq!(train(candidate(&[android, evaluator], 10)), Err(Ineligible::Evaluator));
        let blind = Candidate { codecs: vec![], ..candidate(&[android], 10) };
        assert_eq!(train(blind), Err(Ineligible::Codec(CodecName::F32)));
        let evaluate = |candidate| admit(&candidate, Some(5), &rules(Task::Evaluate));
        assert_eq!(evaluate(candidate(&[evaluator], 1)), Ok(()));
        assert_eq!(evaluate(candidate(&[evaluator], 0)), Err(Ineligible::Examples { held: 0, wanted: 1 }));
        assert_eq!(evaluate(candidate(&[android], 10)), Err(Ineligible::Attribute("evaluator".into())));
        for task in [Task::Train, Task::Evaluate] {
            let rules = EligibilityRules { form: Some(CodecName::Int8), ..rules(task) };
            assert_eq!(admit(&candidate(&[android], 10), None, &rules), Err(Ineligible::Form(CodecName::Int8)));
        }
    }

    #[test]
    fn a_client_that_cannot_follow_the_plan_is_told_what_its_sdk_lacks() {
        let job = "name = 'a'\npopulation = 'b'\nupdate.codec = 'f32'\nmodel.input = [4, 3]\ntraining.epochs = 1\n\
            model.layers = [{ kind = 'gru', hidden_size = 2 }, { kind = 'gelu' }]\n\
            training.optimizer = { kind = 'sgd', learning_rate = 0.1 }";
        let job = JobFile::parse(job).unwrap();
        let plan = serde_json::json!({
            "model": &job.model, "training": &job.training, "codec": "f32", "weight_max": 9,
        });
        let needs = Needs::of_plan(&serde_json::from_value(plan).unwrap());
        let admitted = |abilities, task| {
            let candidate = Candidate { abilities, ..candidate(&[], 10) };
            admit(&candidate, None, &EligibilityRules::of(&job, None, &needs, task, 1))
        };
        let older = Abilities::FIRST.without(Ability::Gru).without(Ability::Sgd).without(Ability::Lstm);
        let gru = Abilities::NONE.with(Ability::Gru);
        assert_eq!(admitted(Abilities::FIRST, Task::Train), Ok(()));
        let refused = admitted(older, Task::Train).unwrap_err();
        assert_eq!(refused, Ineligible::Abilities(gru.with(Ability::Sgd)));
        let text = "its SDK cannot follow the plan: it lacks layer:gru, optimizer:sgd";
        assert_eq!(refused.to_string(), text);
        assert_eq!(admitted(older, Task::Evaluate), Err(Ineligible::Abilities(gru)), "an evaluation takes no steps");
        assert_eq!(admitted(older, Task::Describe), Ok(()));
    }

    #[test]
    fn units_rest_and_contribute_no_more_than_they_may() {
        let participation = Participation { versions: 100, separation: 10, times: 3 };
        let admitted =
            |updates, version, base_version| admit_unit(Contributed { updates, version }, base_version, &participation);
        assert_eq!(admitted(0, 0, 0), Ok(()));
        assert_eq!(admitted(1, 5, 13), Err(Ineligible::Unseparated(5)), "version 14 is 9 behind version 5");
        assert_eq!(admitted(1, 5, 14), Ok(()));
        assert_eq!(admitted(3, 5, 90), Err(Ineligible::Spent(3)));
    }

    #[test]
    fn a_table_of_another_schema_is_not_admitted() {
        let (eligibility, [ours, theirs]) =
            (Eligibility::default(), [b"ours", b"them"].map(|text| Sha256Hash::of(text)));
        let rules = |schema| EligibilityRules {
            task: Task::Train,
            round: 1,
            data: None,
            codec: CodecName::F32,
            form: None,
            needs: Abilities::NONE,
            schema,
            asks: false,
            masks: false,
            signs: false,
            eligibility: &eligibility,
            evaluators: None,
            on_coordinator: false,
            relays: Ok(()),
            coded: None,
        };
        let with = |schema| Candidate { schema, ..candidate(&[], 10) };
        for (held, wanted, is_admitted) in [
            (Some(ours), Some(ours), true),
            (Some(ours), Some(theirs), false),
            (Some(ours), None, false),
            (None, Some(ours), true),
        ] {
            let admitted = admit(&with(held), None, &rules(wanted));
            assert_eq!(admitted, if is_admitted { Ok(()) } else { Err(Ineligible::Schema) });
        }
    }

    #[test]
    fn a_client_of_a_coded_job_holds_a_part() {
        let [north, south] = ["north", "south"].map(|name| name.parse::<Name>().unwrap());
        let [ours, theirs] = [b"ours", b"them"].map(|text| Sha256Hash::of(text));
        let job = job_file("update.codec = 'f32'\ncoded = { parts = ['north', 'south'], stragglers = 1 }");
        let rules = EligibilityRules::of(&job, Some(ours), &Needs::NONE, Task::Train, 1);
        let admitted = |sets: &[(&Name, u64, Option<Sha256Hash>)]| {
            let set = |(name, examples, schema): &(&Name, u64, _)| {
                (Name::clone(name), ExampleSet { examples: *examples, schema: *schema })
            };
            let sets = sets.iter().map(set).collect::<BTreeMap<_, _>>().try_into().unwrap();
            admit(&Candidate { sets, ..candidate(&[], 0) }, None, &rules)
        };
        assert_eq!(admitted(&[(&south, 3, Some(ours))]), Ok(()), "without examples that have no name");
        assert_eq!(admitted(&[(&south, 0, Some(ours))]), Err(Ineligible::NoPart));
        assert_eq!(admitted(&[]), Err(Ineligible::NoPart));
        assert_eq!(admitted(&[(&south, 3, Some(ours)), (&north, 3, Some(theirs))]), Err(Ineligible::Schema));
    }

    #[test]
    fn a_client_is_admitted_by_the_example_set_that_the_job_names() {
        let eligibility = Eligibility { examples_min: 10, ..Eligibility::default() };
        let [typing, photos] = ["typing", "photos"].map(|name| name.parse::<Name>().unwrap());
        let [ours, theirs] = [b"ours", b"them"].map(|text| Sha256Hash::of(text));
        let admitted = |candidate: &Candidate, data, schema| {
            let rules = EligibilityRules {
                task: Task::Train,
                round: 1,
                data,
                codec: CodecName::F32,
                form: None,
                needs: Abilities::NONE,
                schema,
                asks: false,
                masks: false,
                signs: false,
                eligibility: &eligibility,
                evaluators: None,
                on_coordinator: false,
                relays: Ok(()),
                coded: None,
            };
            admit(candidate, None, &rules)
        };
        let set = ExampleSet { examples: 10, schema: Some(ours) };
        let sets: ExampleSets = BTreeMap::from([(typing.clone(), set)]).try_into().unwrap();
        let both = Candidate { sets: sets.clone(), ..candidate(&[], 12) };
        assert_eq!(admitted(&both, None, None), Ok(()));
        assert_eq!(admitted(&both, Some(&typing), Some(ours)), Ok(()));
        assert_eq!(admitted(&both, Some(&typing), Some(theirs)), Err(Ineligible::Schema), "the schema is the set's");
        let lacks = admitted(&both, Some(&photos), None).unwrap_err();
        assert_eq!(lacks.to_string(), "it has no example set photos");
        let few = BTreeMap::from([(typing.clone(), ExampleSet::of(9))]).try_into().unwrap();
        let few = Candidate { sets: few, ..candidate(&[], 12) };
        assert_eq!(admitted(&few, Some(&typing), None), Err(Ineligible::Examples { held: 9, wanted: 10 }));
        let named_alone = Candidate { sets, ..candidate(&[], 0) };
        assert_eq!(admitted(&named_alone, None, None), Err(Ineligible::Examples { held: 0, wanted: 10 }));
        let relay = Candidate { relay: Some(7), ..both.clone() };
        assert_eq!(admitted(&relay, Some(&photos), None), Err(Ineligible::NoSet(photos.clone())));
        assert_eq!(admitted(&relay, Some(&typing), Some(theirs)), Ok(()), "which it judges by itself");
    }

    #[test]
    fn those_who_answer_are_asked_whatever_their_schema_is() {
        let job = "name = 'a'\npopulation = 'b'\n\
            analysis.queries = [{ name = 'q', kind = 'mean', column = 'x', range = [0, 1] }]";
        let job = JobFile::parse(job).unwrap();
        let rules = EligibilityRules::of(&job, None, &Needs::NONE, Task::Train, 1);
        let answers = Candidate { answers: true, schema: Some(Sha256Hash::of(b"ours")), ..candidate(&[], 10) };
        assert_eq!(admit(&answers, None, &rules), Ok(()));
        assert_eq!(admit(&candidate(&[], 10), None, &rules), Err(Ineligible::NoAnswers));
        let no_trainer = Candidate { answers: true, ..candidate(&[], 0) };
        assert_eq!(admit(&no_trainer, None, &rules), Ok(()), "its table may have rows");
    }

    #[test]
    fn without_tagged_evaluators_any_client_that_may_train_may_evaluate() {
        let eligibility = Eligibility { separation_rounds: 9, ..Eligibility::default() };
        let rules = EligibilityRules {
            task: Task::Evaluate,
            round: 2,
            data: None,
            codec: CodecName::F32,
            form: None,
            needs: Abilities::NONE,
            schema: None,
            asks: false,
            masks: false,
            signs: false,
            eligibility: &eligibility,
            evaluators: Some(&BTreeMap::new()),
            on_coordinator: false,
            relays: Ok(()),
            coded: None,
        };
        assert_eq!(admit(&candidate(&[], 1), Some(2), &rules), Ok(()));
        assert!(admit(&candidate(&[], 0), None, &rules).is_err());
    }
}
