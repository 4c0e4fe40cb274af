//! What a client without work waits for, for the person who started it.

use std::sync::Arc;

use tributary_engine::round::{Candidate, Ineligible};
use tributary_protocol::device::WaitsFor;
use tributary_protocol::id::Name;
use tributary_protocol::state::Task;

use super::Fleet;
use super::seats::Seated;
use super::waiting::{Waiting, together};
use super::wanted::{Wanted, WantedJob};
use crate::db::{DbError, RoundRow, Tx};
use crate::services::Services;

/// Waiting clients up to which each is told what it waits for. Counting takes time in proportion to their number, and
/// in a larger fleet nobody looks at a single client's terminal.
pub const EXPLAINED_CLIENTS_MAX: usize = 200;

/// What a client waits for that has waited without getting work. The first job that would admit it decides.
pub async fn waits_for(
    services: &Services,
    fleet: &Fleet,
    wanted: &Wanted,
    candidate: &Arc<Candidate>,
) -> Result<WaitsFor, DbError> {
    if wanted.jobs.is_empty() {
        return Ok(WaitsFor::Job);
    }
    let mut tx = services.db.look().await?;
    let mut refusal = None;
    for job in &wanted.jobs {
        match of_job(services, fleet, &mut tx, job, candidate).await? {
            refused @ WaitsFor::Admission { .. } => refusal = refusal.or(Some(refused)),
            admitted => return Ok(admitted),
        }
    }
    Ok(refusal.unwrap_or(WaitsFor::Job))
}

async fn of_job(
    services: &Services,
    fleet: &Fleet,
    tx: &mut Tx,
    WantedJob { spec, selecting }: &WantedJob,
    candidate: &Arc<Candidate>,
) -> Result<WaitsFor, DbError> {
    let job = spec.file.name.clone();
    let candidates = match selecting.iter().any(RoundRow::draws) {
        true => present(services, fleet, tx, &spec.file.population).await?,
        false => Vec::new(),
    };
    let waiting = Waiting::of(services, candidates, tx, spec, selecting).await?.including(candidate);
    let mut refusal = None;
    for round in selecting {
        match waiting.admits(candidate, spec, round) {
            Ok(()) => {
                let available = u32::try_from(waiting.eligible(spec, round).len()).unwrap_or(u32::MAX);
                return Ok(clients(services, job, round, available));
            }
            // An evaluator never trains, and may have nothing to evaluate now.
            Err(Ineligible::Evaluator) => {}
            Err(reason) if round.task != Task::Evaluate => refusal = Some(reason.to_string()),
            Err(_) => {}
        }
    }
    Ok(match refusal {
        Some(reason) => WaitsFor::Admission { job, reason },
        None => WaitsFor::NextRound { job },
    })
}

/// The waiting clients. Seats are those of the last change, at most a second ago: where few clients wait, each of them
/// asks.
async fn present(
    services: &Services,
    fleet: &Fleet,
    tx: &mut Tx,
    population: &Name,
) -> Result<Vec<Arc<Candidate>>, DbError> {
    let here = fleet.lobby.candidates(population);
    if fleet.seats.is_none() {
        return Ok(here);
    }
    let (changes, now_ms) = (services.signals.changes(), services.clock.now_ms());
    let seats = match fleet.seated.get(population, now_ms).filter(|seated| seated.changes == changes) {
        Some(Seated { seats, .. }) => seats,
        None => {
            let seats: Arc<[_]> = tx.seated(population, now_ms).await?.into_iter().map(Arc::new).collect();
            fleet.seated.keep(population.clone(), Seated { changes, seats: Arc::clone(&seats) }, now_ms);
            seats
        }
    };
    Ok(together(here, seats.iter().cloned()))
}

fn clients(services: &Services, job: Name, round: &RoundRow, available: u32) -> WaitsFor {
    let policy = round.policy();
    let ends_at_ms = policy.selection_ends_at_ms(round.opened_at_ms);
    WaitsFor::Clients {
        job,
        round: round.number,
        available,
        needed: policy.available_min,
        minimum: policy.minimum,
        ends_in_ms: u64::try_from(ends_at_ms.saturating_sub(services.clock.now_ms())).unwrap_or(0),
    }
}
