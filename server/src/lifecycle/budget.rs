//! Budgets that the private jobs of a population share: no round opens that could pass one.
//!
//! A round is charged when it closes. So a round opens only if what is spent leaves enough for it and for all rounds
//! that are open. Two that would open at the same time wait for each other: the population's row is locked.

use tributary_engine::job::JobSpec;
use tributary_engine::privacy::{Terms, Together};
use tributary_engine::round::Budget;
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::job_file::{EvaluationPlace, JobFile};
use tributary_protocol::operator::{BudgetPart, BudgetState, SharedBudget};
use tributary_protocol::state::{Phase, Task};

use crate::db::{DbError, StoredBudget, Tx};
use crate::services::Services;

/// Why a job cannot be one of a population with a budget, or a budget not that of a population.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BudgetRefusal {
    #[error(
        "the jobs of population {population} share a budget, so each needs [privacy]: {job} would tell about its clients \
         what no budget counts"
    )]
    NotPrivate { population: Name, job: Name },
    #[error("the budget of population {population} protects another unit than [privacy] unit of {job}")]
    OtherUnit { population: Name, job: Name },
    #[error("the noise of {job} has a test_key, which hides nothing, and its population {population} shares a budget")]
    TestKey { population: Name, job: Name },
    #[error(
        "the first round of {job} would spend epsilon {needed:.3} together with the other jobs of {population}, whose \
         budget is {epsilon}"
    )]
    Spent { population: Name, job: Name, needed: f64, epsilon: f64 },
    #[error("jobs have spent something of the budget of {0}: it can only become stricter, for the same unit")]
    Larger(Name),
    #[error("{0}")]
    Wrong(&'static str),
    #[error("there is no population {0}")]
    NoPopulation(Name),
    #[error(transparent)]
    Db(#[from] DbError),
}

/// What one job has spent, and may have spent when its open round closes.
struct Share {
    job: JobId,
    name: Name,
    spent: Together,
    claimed: Together,
}

/// The state of the budget of a population; none where it has none.
pub(crate) async fn state(services: &Services, tx: &mut Tx, population: &Name) -> Result<Option<BudgetState>, DbError> {
    let Some(stored) = tx.budget(population).await? else { return Ok(None) };
    let shares = shares(services, tx, population).await?;
    let delta = stored.budget.delta;
    let spent = shares.iter().fold(stored.gone(), |all, share| all.with(share.spent));
    let part = |Share { job, name, spent, .. }| BudgetPart { job, name, epsilon: spent.epsilon(delta) };
    Ok(Some(BudgetState {
        spent: spent.epsilon(delta),
        jobs: shares.into_iter().map(part).collect(),
        budget: stored.budget,
    }))
}

/// Whether a further round of a job may open: what its own budget allows, and that of its population.
pub(crate) async fn standing(services: &Services, tx: &mut Tx, spec: &JobSpec) -> Result<Budget, DbError> {
    let Some(terms) = &spec.privacy else { return Ok(Budget::Free) };
    if !terms.allows(tx.charged(spec.id).await?) {
        return Ok(Budget::Spent);
    }
    let Some(stored) = tx.budget(&spec.file.population).await? else { return Ok(Budget::Free) };
    let Needed { spent, claimed } = needed(services, tx, (spec, terms), &stored).await?;
    let fits = |epsilon: f64| epsilon <= stored.budget.epsilon;
    Ok(match (fits(spent), fits(claimed)) {
        (true, true) => Budget::Free,
        (true, false) => Budget::Claimed,
        (false, _) => Budget::Spent,
    })
}

/// Whether a round may open in this transaction: no other round opens meanwhile.
pub(super) async fn may_open(services: &Services, tx: &mut Tx, spec: &JobSpec) -> Result<bool, DbError> {
    tx.lock_population(&spec.file.population).await?;
    Ok(standing(services, tx, spec).await? == Budget::Free)
}

/// Refuses a new job that cannot be one of its population, or whose first round could not open.
pub(crate) async fn check_new(services: &Services, tx: &mut Tx, spec: &JobSpec) -> Result<(), BudgetRefusal> {
    let population = &spec.file.population;
    let Some(stored) = tx.budget(population).await? else { return Ok(()) };
    check_job(&spec.file, &stored.budget)?;
    let Some(terms) = &spec.privacy else { return Ok(()) };
    let needed = needed(services, tx, (spec, terms), &stored).await?.spent;
    let (population, job, epsilon) = (population.clone(), spec.file.name.clone(), stored.budget.epsilon);
    let fits = needed <= epsilon;
    if fits { Ok(()) } else { Err(BudgetRefusal::Spent { population, job, needed, epsilon }) }
}

/// Gives a population a budget in the caller's transaction, or makes it stricter.
pub(crate) async fn set(
    services: &Services,
    tx: &mut Tx,
    population: &Name,
    budget: SharedBudget,
) -> Result<(), BudgetRefusal> {
    if let Some(wrong) = budget.wrong() {
        return Err(BudgetRefusal::Wrong(wrong));
    }
    tx.population(population).await?.ok_or_else(|| BudgetRefusal::NoPopulation(population.clone()))?;
    let before = tx.budget_locked(population).await?;
    for row in tx.spenders(population).await?.iter().filter(|row| !row.state.is_final()) {
        check_job(&row.file.0, &budget)?;
    }
    let stored = match before {
        None => StoredBudget::new(budget),
        Some(before) => {
            let of = &before.budget;
            let is_stricter = budget.epsilon <= of.epsilon && budget.delta <= of.delta && budget.unit == of.unit;
            let spent = state(services, tx, population).await?.is_some_and(|state| state.spent > 0.0);
            if spent && !is_stricter {
                return Err(BudgetRefusal::Larger(population.clone()));
            }
            before.with(budget)
        }
    };
    Ok(tx.set_budget(population, &stored).await?)
}

/// Keeps what a job has spent, before it is deleted with its ledger.
pub(super) async fn keep(services: &Services, tx: &mut Tx, job: JobId) -> Result<(), DbError> {
    let Some(spec) = services.spec(tx, job).await? else { return Ok(()) };
    let (population, Some(terms)) = (&spec.file.population, &spec.privacy) else { return Ok(()) };
    let Some(stored) = tx.budget_locked(population).await? else { return Ok(()) };
    let spent = terms.spends(tx.charged(job).await?);
    tx.set_budget(population, &stored.with_gone(spent)).await
}

/// Refuses a job that a budget cannot count.
fn check_job(file: &JobFile, budget: &SharedBudget) -> Result<(), BudgetRefusal> {
    let (population, job) = (file.population.clone(), file.name.clone());
    // The coordinator measures models on a test set of its own, and asks no client.
    let on_coordinator = |place| place == EvaluationPlace::Coordinator;
    let asks_nobody =
        file.only_evaluates() && file.evaluation.as_ref().is_some_and(|evaluation| on_coordinator(evaluation.place));
    match &file.privacy {
        None if asks_nobody => Ok(()),
        None => Err(BudgetRefusal::NotPrivate { population, job }),
        Some(privacy) if privacy.unit != budget.unit => Err(BudgetRefusal::OtherUnit { population, job }),
        Some(privacy) if privacy.test_key.is_some() => Err(BudgetRefusal::TestKey { population, job }),
        Some(_) => Ok(()),
    }
}

/// The epsilon of all jobs when the next release of one is charged: with what the others have spent, and with what
/// their open rounds may spend.
struct Needed {
    spent: f64,
    claimed: f64,
}

async fn needed(
    services: &Services,
    tx: &mut Tx,
    (spec, terms): (&JobSpec, &Terms),
    stored: &StoredBudget,
) -> Result<Needed, DbError> {
    let own = terms.spends(tx.charged(spec.id).await?.after_one());
    let shares = shares(services, tx, &spec.file.population).await?;
    let with = |of: fn(&Share) -> Together| {
        let others = shares.iter().filter(|share| share.job != spec.id).map(of);
        others.fold(stored.gone().with(own), Together::with).epsilon(stored.budget.delta)
    };
    Ok(Needed { spent: with(|share| share.spent), claimed: with(|share| share.claimed) })
}

/// What the jobs of a population have spent and claimed.
async fn shares(services: &Services, tx: &mut Tx, population: &Name) -> Result<Vec<Share>, DbError> {
    let mut shares = Vec::new();
    for row in tx.spenders(population).await? {
        let spec = services.specs.of(&row)?;
        let Some(terms) = &spec.privacy else { continue };
        let charged = tx.charged(row.id).await?;
        let is_open = |phase| matches!(phase, Phase::Selecting | Phase::Training);
        let rounds = tx.open_rounds(row.id).await?;
        let is_claimed = rounds.iter().any(|round| round.task == Task::Train && is_open(round.phase));
        let spent = terms.spends(charged);
        let claimed = if is_claimed { terms.spends(charged.after_one()) } else { spent };
        shares.push(Share { job: row.id, name: spec.file.name.clone(), spent, claimed });
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use tributary_protocol::job_file::Unit;

    use super::*;

    /// Whether a population with a budget takes a job with these settings.
    fn takes(settings: &str) -> bool {
        let file = format!(
            "name = 'a'\npopulation = 'b'\nmodel.input = [1]\nmodel.layers = [{{ kind = 'linear', out_features = 2 }}]\n\
             training.epochs = 1\ntraining.optimizer = {{ kind = 'sgd', learning_rate = 0.1 }}\n{settings}"
        );
        let budget = SharedBudget { epsilon: 2.0, delta: 1e-6, unit: Unit::Client };
        check_job(&JobFile::parse(&file).unwrap(), &budget).is_ok()
    }

    #[test]
    fn a_population_with_a_budget_takes_private_jobs_and_those_that_ask_no_client() {
        let models = "initial_model = 'upload'";
        assert!(!takes(""));
        assert!(!takes("evaluation.where = 'coordinator'"), "its clients train");
        assert!(takes(&format!("{models}\nevaluation.only = true\nevaluation.where = 'coordinator'")));
        assert!(!takes(&format!("{models}\nevaluation.only = true")), "its clients evaluate");
    }
}
