//! What a session is doing, for people who watch it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a session begins to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A model, or what changed of it, arrives.
    Downloading {
        /// Its length, if the coordinator says it.
        bytes: Option<u64>,
    },
    /// The trainer works for a round of its job.
    Training {
        /// The round's number, from 1.
        round: u32,
    },
    /// The trainer measures a model.
    Evaluating {
        /// Number of the evaluation round, from 1.
        round: u32,
    },
    /// The trainer adds up its examples for a round of its job.
    Describing {
        /// The round's number, from 1.
        round: u32,
    },
    /// An update is sent, or the rest of one.
    Uploading {
        /// Its length.
        bytes: u64,
    },
    /// A request failed and is repeated.
    Retrying {
        /// After this pause.
        pause: Duration,
        /// Why it failed.
        error: String,
    },
}

/// What an app does when it hears of something.
type Hears = dyn Fn(&Progress) + Send + Sync;

/// Hears of what sessions do.
#[derive(Clone, Default)]
pub(crate) struct Listener(pub(crate) Option<Arc<Hears>>);

impl Listener {
    pub(crate) fn hear(&self, progress: &Progress) {
        if let Some(listener) = &self.0 {
            listener(progress);
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "Listener" } else { "no listener" })
    }
}
