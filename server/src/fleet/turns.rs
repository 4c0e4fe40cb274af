//! Turns of the jobs of a population: clients that a job leaves to another one.

use std::collections::HashSet;
use std::sync::Arc;

use tributary_engine::job::JobSpec;
use tributary_engine::round::{Candidate, Rival, Tempo, Turn, leaves_to, places};
use tributary_protocol::id::{ClientId, JobId};
use tributary_protocol::state::{Phase, Task};

use super::Fleet;
use super::waiting::Waiting;
use crate::db::{DbError, RoundRow, Tx};
use crate::services::Services;

/// Clients that were seen within this time, in milliseconds, are here: one that waits or works is seen once a minute,
/// and a check-in may be held for another one.
const HERE_WITHIN_MS: i64 = 150_000;
/// Other jobs that are looked at.
const RIVALS_MAX: u32 = 10;

/// The eligible clients of a round without those that it leaves to other jobs, and whether it leaves any.
pub async fn own_share(
    services: &Services,
    fleet: &Fleet,
    tx: &mut Tx,
    (spec, round): (&JobSpec, &RoundRow),
    (waiting, mut eligible): (&Waiting, Vec<Arc<Candidate>>),
) -> Result<(Vec<Arc<Candidate>>, bool), DbError> {
    let takes_turns = round.task != Task::Evaluate
        && matches!(round.policy().tempo, Tempo::Cohort | Tempo::Buffer { .. })
        && round.policy().part_of.is_none();
    if !takes_turns || eligible.is_empty() {
        return Ok((eligible, false));
    }
    let rivals = tx.selecting_jobs(&spec.file.population, spec.id, RIVALS_MAX).await?;
    if rivals.is_empty() {
        return Ok((eligible, false));
    }
    let (own, now_ms, before) = (turn(tx, round).await?, services.clock.now_ms(), eligible.len());
    let here = tx.clients_seen(&spec.file.population, now_ms.saturating_sub(HERE_WITHIN_MS)).await?;
    let away = here.saturating_sub(waiting.count() as u64);
    for rival in rivals {
        let left = left_to(services, fleet, tx, rival, |rival| leaves_to(own, rival, away, now_ms)).await?;
        eligible.retain(|candidate| !left.contains(&candidate.client));
    }
    let leaves_any = eligible.len() < before;
    Ok((eligible, leaves_any))
}

/// The clients that the round of another job may draw, if they are left to it.
async fn left_to(
    services: &Services,
    fleet: &Fleet,
    tx: &mut Tx,
    rival: JobId,
    is_left: impl Fn(&Rival) -> bool,
) -> Result<HashSet<ClientId>, DbError> {
    let Some(spec) = services.spec(tx, rival).await? else { return Ok(HashSet::new()) };
    let rows = tx.open_rounds(rival).await?;
    let is_selecting = |round: &&RoundRow| round.phase == Phase::Selecting && round.task != Task::Evaluate;
    let Some(round) = rows.iter().find(is_selecting) else { return Ok(HashSet::new()) };
    let eligible = Waiting::read(services, fleet, tx, &spec, &rows).await?.eligible(&spec, round);
    let turn = turn(tx, round).await?;
    let rival = Rival { turn, needed: round.policy().available_min, available: places(&eligible) };
    Ok(match is_left(&rival) {
        true => eligible.iter().map(|candidate| candidate.client).collect(),
        false => HashSet::new(),
    })
}

async fn turn(tx: &mut Tx, round: &RoundRow) -> Result<Turn, DbError> {
    let drew_at_ms = tx.last_draw_ms(round.job).await?;
    Ok(Turn { drew_at_ms, opened_at_ms: round.opened_at_ms, job: round.job })
}
