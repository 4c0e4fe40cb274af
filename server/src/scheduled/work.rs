//! The kinds of scheduled work.

use super::retention;
use crate::blob::BlobError;
use crate::db::DbError;
use crate::services::Services;

/// How long an expired token that no client enrolled with stays in the list: 30 days in milliseconds.
const EXPIRED_TOKENS_KEPT_MS: i64 = 30 * 24 * 3600 * 1000;
const TOKENS_AT_ONCE: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Deletes what the jobs' `[retention]` does not keep, and bodies that were never finished.
    Retention,
    /// Deletes expired tokens and sessions, and tidies the database file.
    Upkeep,
}

impl Work {
    pub const ALL: &[Self] = &[Self::Retention, Self::Upkeep];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Upkeep => "upkeep",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|work| work.as_str() == name)
    }

    /// The schedule of a new database: hourly or nightly (UTC), at a minute that `draw` chooses, so that not all
    /// deployments are busy at the same time.
    pub fn default_cron(self, draw: u64) -> String {
        let (minute, hour) = (draw % 60, 2 + draw / 60 % 3);
        match self {
            Self::Retention => format!("{minute} * * * *"),
            Self::Upkeep => format!("{minute} {hour} * * *"),
        }
    }

    /// Does the work. Returns a summary for operators.
    pub(super) async fn run(self, services: &Services) -> Result<String, DbError> {
        match self {
            Self::Retention => {
                let deleted = retention::run(services).await?;
                let unfinished = delete_unfinished(services).await?;
                delete_nobodies(services).await?;
                Ok(format!("{deleted}, {unfinished} unused bodies"))
            }
            Self::Upkeep => {
                let tokens = delete_spent_tokens(services).await?;
                delete_expired_sessions(services).await?;
                let bytes = services.db.tidy().await?;
                Ok(format!("deleted {tokens} expired tokens, gave {bytes} bytes back"))
            }
        }
    }
}

/// Deletes the bodies that interrupted uploads and commits left, and what the end of a round left.
async fn delete_unfinished(services: &Services) -> Result<u64, DbError> {
    let mut tx = services.db.begin().await?;
    tx.expire_staged(services.clock.now_ms()).await?;
    tx.commit().await?;
    match services.blobs.clear(&services.db).await {
        Err(BlobError::Db(error)) => Err(error),
        Err(error) => {
            tracing::warn!(%error, "unfinished bodies are left for the next run");
            Ok(0)
        }
        Ok(cleared) => Ok(cleared),
    }
}

/// Deletes what a round that was open kept of clients that were erased.
async fn delete_nobodies(services: &Services) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    tx.delete_nobodies().await?;
    tx.commit().await
}

async fn delete_expired_sessions(services: &Services) -> Result<(), DbError> {
    let mut tx = services.db.begin().await?;
    tx.delete_expired_sessions(services.clock.now_ms()).await?;
    tx.commit().await
}

async fn delete_spent_tokens(services: &Services) -> Result<usize, DbError> {
    let before_ms = services.clock.now_ms().saturating_sub(EXPIRED_TOKENS_KEPT_MS);
    let mut deleted = 0;
    loop {
        let mut tx = services.db.begin().await?;
        let tokens = tx.spent_tokens(before_ms, TOKENS_AT_ONCE).await?;
        for token in &tokens {
            tx.delete_token(*token).await?;
        }
        tx.commit().await?;
        deleted += tokens.len();
        if tokens.len() < TOKENS_AT_ONCE as usize || services.stopping.is_cancelled() {
            return Ok(deleted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_engine::round::Calendar;

    #[test]
    fn whatever_is_drawn_is_a_minute_of_the_hour_or_of_the_night() {
        assert_eq!(Work::Retention.default_cron(59), "59 * * * *");
        assert_eq!(Work::Upkeep.default_cron(180), "0 2 * * *");
        assert_eq!(Work::Upkeep.default_cron(179), "59 4 * * *");
        for draw in (0..400).chain([u64::MAX]) {
            for work in Work::ALL {
                Calendar::parse(&work.default_cron(draw), "UTC").unwrap();
                assert_eq!(Work::named(work.as_str()), Some(*work));
            }
        }
    }
}
