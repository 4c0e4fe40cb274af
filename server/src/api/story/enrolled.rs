//! Whom a round wants, among the enrolled clients.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tributary_engine::round::{EligibilityRules, Needs};
use tributary_engine::story::Wanted;
use tributary_protocol::id::Name;
use tributary_protocol::job_file::JobFile;
use tributary_protocol::state::Task;

use crate::db::{DbError, Tx};
use crate::fleet::waiting::holdings_fit;

/// Values of an attribute that a sentence has room for.
const VALUES_SHOWN: usize = 6;

/// The enrolled clients that a round may draw by their attributes and example sets, and those that there are. Examples,
/// codecs and rest are left out: they change.
#[derive(Clone, Debug)]
pub(in crate::api) struct Enrolled {
    attributes: String,
    matching: u64,
    all: u64,
    /// What there is instead of the wanted attributes and the wanted example set.
    present: String,
}

impl Enrolled {
    /// Reads every client of the population.
    pub(in crate::api) async fn read(tx: &mut Tx, file: &JobFile, task: Task, number: u32) -> Result<Self, DbError> {
        let wanted = wanted_attributes(file, task);
        let rules = EligibilityRules::of(file, None, &Needs::NONE, task, number);
        let (mut matching, mut all) = (0, 0);
        let mut present: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new(); wanted.len()];
        let mut sets_present = BTreeMap::new();
        for (attributes, sets, clients) in tx.client_holdings(&file.population).await? {
            for ((name, _), values) in wanted.iter().zip(&mut present) {
                let value = attributes.as_map().get(name).map_or("none", String::as_str);
                *values.entry(value.to_owned()).or_default() += clients;
            }
            if file.data.is_some() {
                *sets_present.entry(set_words(&sets)).or_default() += clients;
            }
            all += clients;
            matching += if holdings_fit(attributes, &sets, &rules) { clients } else { 0 };
        }
        let mut names: Vec<&str> = wanted.keys().map(String::as_str).collect();
        let mut pairs: Vec<String> = wanted.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if let Some(data) = &file.data {
            names.push("example sets");
            pairs.push(format!("the example set {data}"));
            present.push(sets_present);
        }
        Ok(Self { attributes: pairs.join(", "), matching, all, present: present_words(&names, &present) })
    }

    pub(in crate::api) fn wanted(&self) -> Wanted<'_> {
        let Self { attributes, matching, all, present } = self;
        Wanted { attributes, matching: *matching, enrolled: *all, present }
    }
}

/// The named example sets of a client, as `photos and typing`.
fn set_words(sets: &[Name]) -> String {
    let names: Vec<&str> = sets.iter().map(Name::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" and ") }
}

/// How many enrolled clients have not the example set that a job names, for a job that is not created yet; none if all
/// have it, or it names none.
pub(in crate::api) async fn without_set(tx: &mut Tx, file: &JobFile) -> Result<Option<String>, DbError> {
    let Some(data) = &file.data else { return Ok(None) };
    let (mut without, mut all) = (0, 0);
    for (_, sets, clients) in tx.client_holdings(&file.population).await? {
        all += clients;
        without += if sets.contains(data) { 0 } else { clients };
    }
    let text = format!("{without} of {all} enrolled clients have not the example set {data}, and no round draws them");
    Ok((without > 0).then_some(text))
}

/// The attributes that a client must have to take part.
fn wanted_attributes(file: &JobFile, task: Task) -> &BTreeMap<String, String> {
    match (task, file.evaluation.as_ref().map(|evaluation| &evaluation.attributes)) {
        (Task::Evaluate, Some(evaluators)) if !evaluators.is_empty() => evaluators,
        _ => &file.eligibility.attributes,
    }
}

/// As `android 8, ios 4`; of several attributes, each with its name.
fn present_words(names: &[&str], present: &[BTreeMap<String, u64>]) -> String {
    let lists = names.iter().zip(present).map(|(name, values)| {
        let mut values: Vec<(&String, &u64)> = values.iter().collect();
        values.sort_by_key(|(value, clients)| (Reverse(**clients), *value));
        let words = values.iter().take(VALUES_SHOWN).map(|(value, clients)| format!("{value} {clients}"));
        let mut list = words.collect::<Vec<_>>().join(", ");
        if values.len() > VALUES_SHOWN {
            list.push_str(&format!(" and {} other values", values.len() - VALUES_SHOWN));
        }
        if names.len() > 1 { format!("{name}: {list}") } else { list }
    });
    lists.collect::<Vec<_>>().join("; ")
}
