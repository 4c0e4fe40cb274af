//! What a client knows of the channels that it follows, in memory: when it may ask, and what it was told at its
//! check-ins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tributary_protocol::id::Name;
use tributary_protocol::release::ChannelAnswer;

use crate::locked::Locked;

/// The channels that a client follows, in memory.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    /// Those that the app named at the start.
    pub(crate) followed: BTreeSet<Name>,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// When the coordinator wants to be asked again, by the client's clock.
    ask_at_ms: BTreeMap<Name, u64>,
    /// Channels to update at the next occasion.
    due: BTreeSet<Name>,
}

impl Channels {
    pub(crate) fn of(followed: BTreeSet<Name>) -> Self {
        Self { followed, told: Mutex::default() }
    }

    /// A check-in told that these channels have something else.
    pub(crate) fn hear(&self, news: &[ChannelAnswer]) {
        let mut told = self.told.locked();
        told.due.extend(news.iter().map(|answer| answer.channel.clone()));
    }

    pub(super) fn is_due(&self, channel: &Name, now_ms: u64) -> bool {
        let told = self.told.locked();
        told.due.contains(channel) || told.ask_at_ms.get(channel).is_none_or(|at_ms| *at_ms <= now_ms)
    }

    pub(super) fn wants(&self, channel: &Name) {
        self.told.locked().due.insert(channel.clone());
    }

    pub(super) fn due(&self) -> Vec<Name> {
        self.told.locked().due.iter().cloned().collect()
    }

    /// When the coordinator wants to be asked about a channel; 0 for at once.
    pub(super) fn ask_at_ms(&self, channel: &Name) -> u64 {
        self.told.locked().ask_at_ms.get(channel).copied().unwrap_or(0)
    }

    pub(super) fn asked(&self, channel: &Name, ask_at_ms: u64) {
        let mut told = self.told.locked();
        told.due.remove(channel);
        told.ask_at_ms.insert(channel.clone(), ask_at_ms);
    }
}
