//! The releases that are out, by population. Each answer about a channel depends on them, and they seldom change.

use std::sync::Arc;

use tributary_engine::release::Reach;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::Name;
use tributary_protocol::release::{DIFFERENCES_MAX, Difference, Share};

use crate::db::{ClientRow, DbError, ReleaseRow};
use crate::runtime::kept::Kept;
use crate::services::Services;

/// How long what was read is used again, in milliseconds. Another coordinator may have changed it.
const FRESH_MS: i64 = 1_000;

/// The releases that are out.
#[derive(Debug)]
pub(crate) struct Releases(Kept<Name, Arc<OutReleases>>);

/// Those of one population, the newest of each channel first.
#[derive(Debug)]
pub(crate) struct OutReleases(Vec<(ReleaseRow, Share)>);

impl Default for Releases {
    fn default() -> Self {
        Self(Kept::new(FRESH_MS))
    }
}

impl Releases {
    pub(crate) async fn read(&self, services: &Services, population: &Name) -> Result<Arc<OutReleases>, DbError> {
        let read = async || {
            let rows = services.db.read().await?.releases_out(population).await?;
            let rows: Result<_, _> = rows.into_iter().map(|row| row.share().map(|share| (row, share))).collect();
            Ok::<_, DbError>(Arc::new(OutReleases(rows?)))
        };
        self.0.get_or_make(population.clone(), &services.clock, read).await
    }

    /// A release of this population has changed here.
    pub(crate) fn forget(&self, population: &Name) {
        self.0.forget(population);
    }
}

impl OutReleases {
    /// The release of a channel for a client.
    pub(crate) fn for_client(&self, channel: &Name, client: &ClientRow) -> Option<&ReleaseRow> {
        let covers = |row: &ReleaseRow, share: Share| {
            let reach = Reach { id: row.id, state: row.state, share, attributes: &row.attributes.0 };
            reach.covers(client.id, &client.attributes.0)
        };
        self.0.iter().find(|(row, share)| row.channel == *channel && covers(row, *share)).map(|(row, _)| row)
    }

    /// The release of a channel with this file.
    pub(crate) fn with_file(&self, channel: &Name, sha256: Sha256Hash) -> Option<&ReleaseRow> {
        self.0.iter().map(|(row, _)| row).find(|row| row.channel == *channel && row.sha256 == sha256)
    }

    /// The differences that lead to a release, in ascending order.
    pub(crate) fn differences(&self, release: &ReleaseRow) -> Vec<Difference> {
        let step = |difference: &Difference| self.with_file(&release.channel, difference.base_sha256)?.difference();
        let mut differences: Vec<_> = std::iter::successors(release.difference(), step).take(DIFFERENCES_MAX).collect();
        differences.reverse();
        differences
    }
}
