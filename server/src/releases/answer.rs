//! What a channel has for a client, and which release the client says it has.

use std::collections::BTreeMap;

use tributary_engine::round::RetryReason;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Name, ReleaseId};
use tributary_protocol::release::{ChannelAnswer, Released};

use super::known::{OutReleases, Releases};
use crate::db::{ClientRow, DbError, ReleaseRow};
use crate::fleet::Fleet;
use crate::services::Services;

/// The answer about a channel to a client that has this file of it; without a release where the client has it already.
pub(crate) struct Told {
    pub(crate) answer: ChannelAnswer,
    /// Whether the client has what it should have.
    pub(crate) is_right: bool,
}

impl Releases {
    /// Answers about one channel.
    pub(crate) async fn tell(
        &self,
        (services, fleet): (&Services, &Fleet),
        client: &ClientRow,
        channel: Name,
        has: Option<Sha256Hash>,
    ) -> Result<Told, DbError> {
        let out = self.read(services, &client.population).await?;
        note(services, client, &channel, has, &out).await?;
        let meant = out.for_client(&channel, client);
        let is_right = meant.map(|release| release.sha256) == has;
        let release = meant.filter(|_| !is_right).map(|release| Box::new(offered(release, &out)));
        let ask_after_ms = fleet.retry_of(services, client, RetryReason::Release).await?;
        Ok(Told { answer: ChannelAnswer { channel, release, ask_after_ms }, is_right })
    }

    /// The channels of a check-in that have something else for a client than what it has.
    pub(crate) async fn news(
        &self,
        whole: (&Services, &Fleet),
        client: &ClientRow,
        channels: BTreeMap<Name, Option<Sha256Hash>>,
    ) -> Result<Vec<ChannelAnswer>, DbError> {
        let mut news = Vec::new();
        for (channel, has) in channels {
            let told = self.tell(whole, client, channel, has).await?;
            if !told.is_right {
                news.push(told.answer);
            }
        }
        Ok(news)
    }
}

fn offered(release: &ReleaseRow, out: &OutReleases) -> Released {
    Released {
        id: release.id,
        number: release.number,
        job: release.job,
        card: release.card.0.clone(),
        sha256: release.sha256,
        bytes: release.bytes,
        differences: out.differences(release),
    }
}

/// Stores which release the client has, if that has changed. It is a figure for operators: if the coordinator dies, the
/// client tells it again.
async fn note(
    services: &Services,
    client: &ClientRow,
    channel: &Name,
    has: Option<Sha256Hash>,
    out: &OutReleases,
) -> Result<(), DbError> {
    let stored = services.db.look().await?.held_release(client.id, channel).await?;
    let held: Option<ReleaseId> = match has {
        None => None,
        Some(sha256) => match out.with_file(channel, sha256) {
            Some(release) => Some(release.id),
            None => services.db.look().await?.release_with_file(&client.population, channel, sha256).await?,
        },
    };
    if stored != held {
        let mut tx = services.db.begin_losable().await?;
        tx.set_held_release(client.id, channel, held, services.clock.now_ms()).await?;
        tx.commit().await?;
    }
    Ok(())
}
