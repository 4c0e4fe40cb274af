//! Candidates: the waiting clients, and which of them a round may draw.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_engine::round::{Candidate, EligibilityRules, Ineligible, admit, admit_to_buffer, admit_unit};
use tributary_protocol::abilities::Abilities;
use tributary_protocol::device::Attributes;
use tributary_protocol::example_sets::ExampleSet;
use tributary_protocol::id::{ClientId, Name};
use tributary_protocol::state::{Phase, Task};
use tributary_protocol::update::CodecName;

use super::Fleet;
use crate::db::{DbError, RoundRow, Tx};
use crate::services::Services;

/// How long a client that refused a job for its privacy is not drawn for it: an operator may change the job, and a
/// device its app.
const REFUSES_MS: i64 = 3_600_000;

/// The waiting clients, with what the eligibility rules need of them.
#[derive(Debug, Default)]
pub struct Waiting {
    candidates: Vec<Arc<Candidate>>,
    /// The last training round of each client that trained recently.
    last_rounds: HashMap<ClientId, u32>,
    /// Clients that the training round may not draw, and why.
    barred: HashMap<ClientId, Ineligible>,
    /// In a buffered job: the updates of each client in the open buffer.
    reported: HashMap<ClientId, u32>,
}

impl Waiting {
    /// Reads the clients that wait at any coordinator. Reads nothing unless one of the rounds draws clients.
    pub async fn read(
        services: &Services,
        fleet: &Fleet,
        tx: &mut Tx,
        spec: &JobSpec,
        rounds: &[RoundRow],
    ) -> Result<Self, DbError> {
        if !rounds.iter().any(RoundRow::draws) {
            return Ok(Self::default());
        }
        let candidates = present(services, fleet, tx, &spec.file.population).await?;
        Self::of(services, candidates, tx, spec, rounds).await
    }

    /// Reads what the rules need of these clients.
    pub(super) async fn of(
        services: &Services,
        candidates: Vec<Arc<Candidate>>,
        tx: &mut Tx,
        spec: &JobSpec,
        rounds: &[RoundRow],
    ) -> Result<Self, DbError> {
        let mut barred = barred(tx, spec, rounds, &candidates).await?;
        let reported = if candidates.is_empty() { HashMap::new() } else { reported(tx, rounds).await? };
        barred.extend(refusing(tx, spec, rounds, services.clock.now_ms()).await?);
        Ok(Self { candidates, last_rounds: last_rounds(tx, spec, rounds).await?, barred, reported })
    }

    /// Number of waiting clients.
    pub fn count(&self) -> usize {
        self.candidates.len()
    }

    /// The same with a client that has just left.
    #[must_use]
    pub fn including(mut self, candidate: &Arc<Candidate>) -> Self {
        if self.candidates.iter().all(|other| other.client != candidate.client) {
            self.candidates.push(Arc::clone(candidate));
        }
        self
    }

    /// Whether a round may draw this client.
    pub fn admits(&self, candidate: &Candidate, spec: &JobSpec, round: &RoundRow) -> Result<(), Ineligible> {
        let rules = EligibilityRules::of(&spec.file, spec.schema, &spec.needs, round.task, round.number);
        self.check(candidate, (spec, round), &rules)
    }

    fn check(
        &self,
        candidate: &Candidate,
        (spec, round): (&JobSpec, &RoundRow),
        rules: &EligibilityRules<'_>,
    ) -> Result<(), Ineligible> {
        admit(candidate, self.last_rounds.get(&candidate.client).copied(), rules)?;
        if round.task != Task::Train {
            return Ok(());
        }
        let reported = self.reported.get(&candidate.client).copied().unwrap_or_default();
        admit_to_buffer(spec.file.round.mode, reported, candidate.places_most())?;
        self.barred.get(&candidate.client).map_or(Ok(()), |why| Err(why.clone()))
    }

    /// The waiting clients that a round may draw.
    pub fn eligible(&self, spec: &JobSpec, round: &RoundRow) -> Vec<Arc<Candidate>> {
        let rules = EligibilityRules::of(&spec.file, spec.schema, &spec.needs, round.task, round.number);
        let is_eligible = |candidate: &&Arc<Candidate>| self.check(candidate, (spec, round), &rules).is_ok();
        let eligible = self.candidates.iter().filter(is_eligible);
        eligible.filter_map(|candidate| candidate.with_data(spec.file.data.as_ref())).collect()
    }
}

/// The clients of a population that wait at any coordinator.
pub async fn present(
    services: &Services,
    fleet: &Fleet,
    tx: &mut Tx,
    population: &Name,
) -> Result<Vec<Arc<Candidate>>, DbError> {
    let here = fleet.lobby.candidates(population);
    Ok(match fleet.seats {
        Some(_) => together(here, tx.seated(population, services.clock.now_ms()).await?.into_iter().map(Arc::new)),
        None => here,
    })
}

/// The waiting clients of this coordinator and those with a seat at any, each once.
pub(super) fn together(
    mut here: Vec<Arc<Candidate>>,
    seated: impl IntoIterator<Item = Arc<Candidate>>,
) -> Vec<Arc<Candidate>> {
    here.extend(seated);
    here.sort_by_key(|candidate| candidate.client);
    here.dedup_by_key(|candidate| candidate.client);
    here
}

/// The last training round of clients that trained recently; read only when the job's rules ask for it.
async fn last_rounds(tx: &mut Tx, spec: &JobSpec, rounds: &[RoundRow]) -> Result<HashMap<ClientId, u32>, DbError> {
    let separation = spec.file.eligibility.separation_rounds;
    let selecting = rounds.iter().find(|round| round.phase == Phase::Selecting && round.task == Task::Train);
    match selecting {
        Some(round) if separation > 0 => {
            let since = round.number.saturating_sub(separation);
            Ok(tx.last_rounds(spec.id, since).await?.into_iter().collect())
        }
        _ => Ok(HashMap::new()),
    }
}

/// The updates of each client in the open buffer.
async fn reported(tx: &mut Tx, rounds: &[RoundRow]) -> Result<HashMap<ClientId, u32>, DbError> {
    match drawing(rounds).filter(|round| round.is_buffer() && round.reported > 0) {
        Some(round) => Ok(tx.reports_by_client(round.key()).await?.into_iter().collect()),
        None => Ok(HashMap::new()),
    }
}

/// Clients whose apps demand more privacy than a masked or private job gives: drawn again, they would only cost their
/// slots.
async fn refusing(
    tx: &mut Tx,
    spec: &JobSpec,
    rounds: &[RoundRow],
    now_ms: i64,
) -> Result<Vec<(ClientId, Ineligible)>, DbError> {
    if drawing(rounds).is_none() || !spec.file.hides_updates() {
        return Ok(Vec::new());
    }
    let clients = tx.refused_for_privacy(spec.id, now_ms.saturating_sub(REFUSES_MS)).await?;
    Ok(clients.into_iter().map(|client| (client, Ineligible::Refuses)).collect())
}

/// The training round that draws clients.
fn drawing(rounds: &[RoundRow]) -> Option<&RoundRow> {
    rounds.iter().find(|round| round.task == Task::Train && round.draws())
}

/// The waiting clients whose units may not contribute to the next version of a private job, and why. Of several clients
/// of one unit, the one that enrolled first stands for it. A unit that works for a buffer, or has reported into it, is
/// in it already.
async fn barred(
    tx: &mut Tx,
    spec: &JobSpec,
    rounds: &[RoundRow],
    candidates: &[Arc<Candidate>],
) -> Result<HashMap<ClientId, Ineligible>, DbError> {
    let (Some(terms), Some(round)) = (&spec.privacy, drawing(rounds)) else { return Ok(HashMap::new()) };
    let clients: Vec<ClientId> = candidates.iter().map(|candidate| candidate.client).collect();
    let units = tx.units(&spec.file, &clients).await?;
    let taken: HashSet<String> = match round.is_buffer() {
        true => {
            let clients = tx.in_buffer(round.key()).await?;
            tx.units(&spec.file, &clients).await?.into_values().collect()
        }
        false => HashSet::new(),
    };
    let distinct: BTreeSet<String> = units.values().cloned().collect();
    let contributed = tx.contributed(spec.id, &distinct.into_iter().collect::<Vec<_>>()).await?;
    let mut in_order: Vec<&Arc<Candidate>> = candidates.iter().collect();
    in_order.sort_by_key(|candidate| candidate.number);
    let mut represented = HashSet::new();
    let barred = in_order.into_iter().filter_map(|candidate| {
        let admitted = match units.get(&candidate.client) {
            None => Err(Ineligible::NoUnit(spec.file.unit_attribute().unwrap_or_default().to_owned())),
            Some(unit) if taken.contains(unit) || !represented.insert(unit) => Err(Ineligible::SameUnit),
            Some(unit) => {
                let before = contributed.get(unit).copied().unwrap_or_default();
                admit_unit(before, round.base_version, &terms.participation)
            }
        };
        admitted.err().map(|why| (candidate.client, why))
    });
    Ok(barred.collect())
}

/// The waiting clients that a selecting round may draw.
pub async fn eligible(
    services: &Services,
    fleet: &Fleet,
    tx: &mut Tx,
    spec: &JobSpec,
    round: &RoundRow,
) -> Result<Vec<Arc<Candidate>>, DbError> {
    let waiting = Waiting::read(services, fleet, tx, spec, std::slice::from_ref(round)).await?;
    Ok(waiting.eligible(spec, round))
}

/// Whether a round may draw clients with these attributes and example sets. Examples, codecs and rest are left out:
/// they change.
pub fn holdings_fit(attributes: Attributes, sets: &[Name], rules: &EligibilityRules<'_>) -> bool {
    let full = |name: &Name| (name.clone(), ExampleSet::of(u64::MAX));
    // One that is stored was within the limit when it was told.
    let sets = sets.iter().map(full).collect::<BTreeMap<_, _>>().try_into().unwrap_or_default();
    let candidate = Candidate {
        client: ClientId::from_random([0; 16]),
        number: 0,
        attributes,
        examples: u64::MAX,
        sets,
        codecs: CodecName::ALL.to_vec(),
        abilities: Abilities::ALL,
        schema: None,
        answers: true,
        masks: true,
        signs: true,
        relay: None,
        share: None,
    };
    admit(&candidate, None, rules).is_ok()
}
