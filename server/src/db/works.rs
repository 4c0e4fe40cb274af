//! The times of recent rounds: what a deadline that follows them is derived from.

use tributary_engine::round::{History, LastRound, Lookback, PastWork, WorkEnd};
use tributary_protocol::device::Attributes;
use tributary_protocol::id::JobId;
use tributary_protocol::state::{AssignmentState, Phase};

use super::tx::fetch;
use super::{DbError, RoundKey, Tx};

#[derive(sqlx::FromRow)]
struct WorkRow {
    attributes: String,
    #[sqlx(try_from = "String")]
    state: AssignmentState,
    assigned_at_ms: i64,
    ended_at_ms: Option<i64>,
    late_at_ms: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct SpanRow {
    opened_at_ms: i64,
    selected_at_ms: Option<i64>,
    closed_at_ms: Option<i64>,
    ended_at_ms: Option<i64>,
}

/// Most norms that an opening reads: the newest.
const NORMS_MAX: u32 = 10_000;
/// Most pieces of work that an opening reads: the newest.
const WORKS_MAX: u32 = 2_000;

impl Tx {
    /// What the opening of a round reads of those before.
    pub async fn history(&mut self, key: RoundKey, lookback: &Lookback<'_>) -> Result<History, DbError> {
        let mut history = History::default();
        let Lookback { norms_since, last, works_since, class, diverse_rounds, trained } = *lookback;
        if let Some(since) = norms_since {
            history.norms = self.recent_norms(key.job, since, NORMS_MAX).await?;
            history.abandoned_in_a_row = self.job(key.job).await?.map_or(0, |job| job.abandoned_in_a_row);
        }
        if last {
            history.last = self.last_round(RoundKey { number: key.number.saturating_sub(1), ..key }).await?;
        }
        if let Some(since) = works_since {
            history.works = self.past_works(key.job, since, class, WORKS_MAX).await?;
            history.overhead_ms = self.round_overhead_ms(key.job, since).await?;
        }
        if diverse_rounds > 0 {
            history.diverse = self.diverse_rounds(key.job, diverse_rounds).await?;
        }
        if trained {
            history.trained = self.trained(key).await?;
        }
        Ok(history)
    }

    async fn last_round(&mut self, key: RoundKey) -> Result<Option<LastRound>, DbError> {
        let Some(round) = self.round(key).await? else { return Ok(None) };
        Ok(Some(LastRound {
            policy: *round.policy(),
            training_loss: round.training_loss.filter(|_| round.phase == Phase::Committed),
            norms: self.recent_norms(key.job, key.number, NORMS_MAX).await?,
            clip_share: self.clip_share(key).await?,
        }))
    }

    /// The ended work of a job's training rounds from number `since` on, newest rounds first, at most `limit`. Late
    /// reports have their own times. `class` is an attribute of the clients.
    pub async fn past_works(
        &mut self,
        job: JobId,
        since: u32,
        class: Option<&str>,
        limit: u32,
    ) -> Result<Vec<PastWork>, DbError> {
        let sql = "select c.attributes, a.state, a.assigned_at_ms, a.ended_at_ms, a.late_at_ms \
                   from assignments a join clients c on c.id = a.client where a.job = $1 and a.task = 'train' \
                   and a.round >= $2 and a.state <> 'assigned' order by a.round desc, a.id limit $3";
        let rows = fetch!(self, WorkRow, fetch_all, sql, job.to_string(), i64::from(since), i64::from(limit));
        rows.into_iter().map(|row| past_work(row, class)).collect()
    }

    /// The median time that the committed training rounds from number `since` on took beside their clients' work.
    pub async fn round_overhead_ms(&mut self, job: JobId, since: u32) -> Result<u64, DbError> {
        let sql = "select opened_at_ms, selected_at_ms, closed_at_ms, ended_at_ms from rounds \
                   where job = $1 and task = 'train' and phase = 'committed' and number >= $2";
        let rows = fetch!(self, SpanRow, fetch_all, sql, job.to_string(), i64::from(since));
        let overhead = |row: SpanRow| {
            let work_ms = row.closed_at_ms? - row.selected_at_ms?;
            u64::try_from(row.ended_at_ms? - row.opened_at_ms - work_ms).ok()
        };
        let mut overheads: Vec<u64> = rows.into_iter().filter_map(overhead).collect();
        overheads.sort_unstable();
        Ok(overheads.get(overheads.len() / 2).copied().unwrap_or(0))
    }
}

fn past_work(row: WorkRow, class: Option<&str>) -> Result<PastWork, DbError> {
    let class = match class {
        Some(class) => {
            let attributes: Attributes =
                serde_json::from_str(&row.attributes).map_err(|error| DbError::corrupt("clients.attributes", error))?;
            attributes.as_map().get(class).cloned().unwrap_or_default()
        }
        None => String::new(),
    };
    let (seen_at_ms, end) = match (row.state, row.late_at_ms) {
        (AssignmentState::Reported, _) => (row.ended_at_ms, WorkEnd::Reported),
        (AssignmentState::Expired, Some(late_at_ms)) => (Some(late_at_ms), WorkEnd::Reported),
        (AssignmentState::Expired | AssignmentState::Assigned, _) => (row.ended_at_ms, WorkEnd::Open),
        (AssignmentState::Rejected | AssignmentState::Failed, _) => (row.ended_at_ms, WorkEnd::Lost),
    };
    let after_ms = seen_at_ms.map_or(0, |at_ms| at_ms - row.assigned_at_ms);
    Ok(PastWork { after_ms: u64::try_from(after_ms).unwrap_or(0), end, class })
}
