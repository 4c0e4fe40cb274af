//! Following channels: asking for a release, getting it, and having it.

use std::collections::BTreeMap;
use std::time::Duration;

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::{Name, Secret};
use tributary_protocol::release::Released;

use super::fetch::install;
use super::model::ReleasedModel;
use crate::error::ClientError;
use crate::host::Host;
use crate::session::{Context, as_known};
use crate::store::StoreError;
use crate::store::state::Identity;

/// Releases that one call installs: the coordinator may publish another one meanwhile.
const INSTALLED_MAX: usize = 3;

/// How new a model must be that an app asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freshness {
    /// The newest one: the call downloads it first. Without a network it is the one that is here.
    #[default]
    Latest,
    /// The one that is here, without a network.
    Local,
    /// The one that is here, at once; the next session or update of the client gets the newest one. Without one here,
    /// as [`Self::Latest`].
    LocalThenUpdate,
}

impl std::str::FromStr for Freshness {
    type Err = ClientError;

    /// `latest`, `local` or `local_then_update`, for the facades of other languages.
    fn from_str(text: &str) -> Result<Self, ClientError> {
        match text {
            "latest" => Ok(Self::Latest),
            "local" => Ok(Self::Local),
            "local_then_update" => Ok(Self::LocalThenUpdate),
            other => Err(ClientError::Setup(format!("{other:?} is none of latest, local and local_then_update"))),
        }
    }
}

impl Context {
    /// What a check-in says of the channels that the app follows.
    pub(crate) fn held_releases(&self) -> Result<BTreeMap<Name, Option<Sha256Hash>>, StoreError> {
        let held = |channel: &Name| {
            let has = self.state.channel(channel)?.has.map(|release| release.sha256);
            Ok((channel.clone(), has))
        };
        self.channels.followed.iter().map(held).collect()
    }

    /// The model of a channel.
    pub(crate) async fn released(
        &self,
        channel: &Name,
        freshness: Freshness,
        host: &dyn Host,
    ) -> Result<Option<ReleasedModel>, ClientError> {
        let here = self.state.released(channel)?;
        match (freshness, here) {
            (Freshness::Local, here) => Ok(here),
            (Freshness::LocalThenUpdate, Some(here)) => {
                self.channels.wants(channel);
                Ok(Some(here))
            }
            (_, here) => match self.update_channel(channel, host).await {
                Ok(_) => Ok(self.state.released(channel)?),
                Err(error) if here.is_some() => {
                    tracing::warn!(%error, channel = channel.as_str(), "the release that is here is used");
                    Ok(here)
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Updates the channels that the app follows. Returns when to do so again.
    pub(crate) async fn update_followed(&self, host: &dyn Host) -> Result<Duration, ClientError> {
        let mut next = Duration::MAX;
        for channel in &self.channels.followed {
            next = next.min(self.update_channel(channel, host).await?);
        }
        Ok(next)
    }

    /// Updates the channels of which a check-in told, or which an app wants updated later. What fails is tried again
    /// another time.
    pub(crate) async fn update_due(&self, host: &dyn Host) {
        for channel in self.channels.due() {
            if !host.may_continue() {
                return;
            }
            if let Err(error) = self.update_channel(&channel, host).await {
                tracing::warn!(%error, channel = channel.as_str(), "a release is not here yet");
            }
        }
    }

    /// Asks for the release of a channel, and gets it, until the client has what it should have. Returns when to ask
    /// again.
    async fn update_channel(&self, channel: &Name, host: &dyn Host) -> Result<Duration, ClientError> {
        let now_ms = self.clock.now_ms();
        if !self.channels.is_due(channel, now_ms) {
            return Ok(Duration::from_millis(self.channels.ask_at_ms(channel).saturating_sub(now_ms)));
        }
        let mut identity = self.identity().await?;
        let mut ask_after_ms = 0;
        for _ in 0..=INSTALLED_MAX {
            let has = self.state.channel(channel)?.has.map(|release| release.sha256);
            let ask =
                |identity: Identity| async move { self.coordinator.release(&identity.secret, channel, has).await };
            let asked = as_known(self, &mut identity, ask).await?;
            ask_after_ms = asked.ask_after_ms;
            match asked.answer {
                None => break,
                Some(None) if has.is_none() => break,
                // It was withdrawn, and there is none before it.
                Some(None) => self.state.remove_release(channel)?,
                Some(Some(released)) => {
                    if self.state.channel(channel)?.unusable == Some(released.sha256) {
                        break;
                    }
                    if !host.may_continue() {
                        return Ok(Duration::ZERO);
                    }
                    self.get(&identity.secret, channel, &released).await?;
                }
            }
        }
        self.channels.asked(channel, self.clock.now_ms().saturating_add(ask_after_ms));
        Ok(Duration::from_millis(ask_after_ms))
    }

    async fn get(&self, secret: &Secret, channel: &Name, released: &Released) -> Result<(), ClientError> {
        match install(self, secret, channel, released).await {
            Err(error @ ClientError::Unusable(_)) => {
                self.state.save_unusable(channel, released.sha256)?;
                tracing::warn!(%error, channel = channel.as_str(), number = released.number, "a release is not used");
                Ok(())
            }
            installed => installed,
        }
    }
}
