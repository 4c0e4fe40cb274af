//! Findings of health that the webhooks are told.

use tributary_engine::story::Finding;
use tributary_protocol::state::HealthKind;

use super::tx::{execute, fetch};
use super::{DbError, Tx};

/// The subject of findings that concern the database. Others are ids of jobs.
pub const OF_DATABASE: &str = "database";

#[derive(sqlx::FromRow)]
struct FindingRow {
    subject: String,
    #[sqlx(try_from = "String")]
    kind: HealthKind,
    since_at_ms: i64,
    is_told: bool,
    gone_at_ms: Option<i64>,
}

impl Tx {
    /// All findings, each with its subject.
    pub async fn findings(&mut self) -> Result<Vec<(String, Finding)>, DbError> {
        let sql = "select subject, kind, since_at_ms, is_told, gone_at_ms from health_findings order by subject, kind";
        let rows = fetch!(self, FindingRow, fetch_all, sql);
        let finding = |row: FindingRow| {
            let FindingRow { subject, kind, since_at_ms, is_told, gone_at_ms } = row;
            (subject, Finding { kind, since_at_ms, is_told, gone_at_ms })
        };
        Ok(rows.into_iter().map(finding).collect())
    }

    /// Stores a finding as it is now.
    pub async fn store_finding(&mut self, subject: &str, finding: Finding) -> Result<(), DbError> {
        let sql = "insert into health_findings (subject, kind, since_at_ms, is_told, gone_at_ms) \
                   values ($1, $2, $3, $4, $5) on conflict (subject, kind) do update \
                   set since_at_ms = excluded.since_at_ms, is_told = excluded.is_told, gone_at_ms = excluded.gone_at_ms";
        let Finding { kind, since_at_ms, is_told, gone_at_ms } = finding;
        execute!(self, sql, subject, kind.as_str(), since_at_ms, is_told, gone_at_ms);
        Ok(())
    }

    /// Forgets a finding. Returns whether it was there.
    pub async fn forget_finding(&mut self, subject: &str, kind: HealthKind) -> Result<bool, DbError> {
        let sql = "delete from health_findings where subject = $1 and kind = $2";
        Ok(execute!(self, sql, subject, kind.as_str()) == 1)
    }

    /// Forgets the findings of jobs that do not run.
    pub async fn forget_findings_at_rest(&mut self) -> Result<(), DbError> {
        let sql = "delete from health_findings \
                   where subject <> $1 and subject not in (select id from jobs where state = 'running')";
        execute!(self, sql, OF_DATABASE);
        Ok(())
    }
}
