//! The relay's own task: it offers places to the parent, and follows the order that is open.
//!
//! It remembers nothing that is not stored: after a restart the stored order goes on, and an order whose taking was
//! interrupted is handed out again by the parent.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tributary_engine::round::{Offer, offer, places};
use tributary_protocol::device::ASK_EVERY_MS_MIN;
use tributary_protocol::id::Name;
use tributary_protocol::relay::RELAY_JOBS_MAX;
use tributary_protocol::state::{AbandonReason, Phase};

use super::order::{TakeError, take};
use super::upstream::{Offered, Upstream, UpstreamError};
use crate::db::{DbError, OrderRow, RoundKey};
use crate::fleet::Fleet;
use crate::lifecycle::{orders, rounds};
use crate::models::offer::CODED_ASK_EVERY_MS;
use crate::services::Services;
use crate::updates::Updates;

/// Longest time for which the parent is asked to hold an offer.
const WAIT: Duration = Duration::from_secs(60);
/// Pause before an offer follows a change of the clients that wait: they come together.
const RESTATE_MS: i64 = 200;
/// How long an offer waits for as many clients as the last round ended with: those that ended it are on their way back.
const GATHER_MS: i64 = 1_000;
/// Time between two questions which jobs have ended at the parent, in milliseconds.
const HEAR_EVERY_MS: i64 = 10_000;
/// Pause after a call that failed, in milliseconds.
const RETRY_MS: i64 = 2_000;

/// What the task works with.
#[derive(Clone, Debug)]
pub(crate) struct Relaying {
    pub(crate) services: Services,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) updates: Arc<Updates>,
    pub(crate) upstream: Arc<dyn Upstream>,
    /// The population of the relay, here and at its parent.
    pub(crate) population: Name,
}

/// What the task remembers from turn to turn.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// Clients that ended the last order.
    together: u32,
    /// When the parent is asked next which jobs have ended.
    hear_at_ms: i64,
}

/// Why a turn failed. The next one may succeed.
#[derive(Debug, thiserror::Error)]
enum TurnError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error(transparent)]
    Take(#[from] TakeError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

impl Relaying {
    /// Takes part in the parent's rounds until the coordinator stops.
    pub(crate) async fn run(self) {
        let Services { clock, stopping, .. } = &self.services;
        let mut memory = Memory::default();
        loop {
            let turn = tokio::select! {
                () = stopping.cancelled() => return,
                turn = self.turn(&mut memory) => turn,
            };
            if let Err(error) = turn {
                tracing::warn!(%error, "the relay goes on in a moment");
                tokio::select! {
                    () = stopping.cancelled() => return,
                    () = clock.sleep_until(clock.now_ms() + RETRY_MS) => {}
                }
            }
        }
    }

    /// Follows the open order, or offers places for another one.
    async fn turn(&self, memory: &mut Memory) -> Result<(), TurnError> {
        let open = self.services.db.read().await?.orders().await?;
        match open.first() {
            Some(order) => memory.together = self.follow(order).await?,
            None => tokio::select! {
                offered = self.offer(memory.together) => offered?,
                never = self.hearing(&mut memory.hear_at_ms) => match never {},
            },
        }
        Ok(())
    }

    /// Asks the parent from time to time which jobs have ended.
    async fn hearing(&self, hear_at_ms: &mut i64) -> Infallible {
        let clock = &self.services.clock;
        loop {
            clock.sleep_until(*hear_at_ms).await;
            *hear_at_ms = clock.now_ms() + HEAR_EVERY_MS;
            if let Err(error) = self.hear().await {
                tracing::debug!(%error, "it is not known which jobs of the parent have ended");
            }
        }
    }

    /// Completes the jobs that have ended at the parent.
    async fn hear(&self) -> Result<(), TurnError> {
        let played = self.services.db.read().await?.relayed_jobs(RELAY_JOBS_MAX).await?;
        if played.is_empty() {
            return Ok(());
        }
        for job in self.upstream.ended(played).await? {
            tracing::info!(%job, "the job has ended at the parent");
            orders::end(&self.services, job).await?;
        }
        Ok(())
    }

    /// Offers the clients that wait, and takes what the parent gives.
    async fn offer(&self, together: u32) -> Result<(), TurnError> {
        let (places, arrivals) = self.gathered(together).await;
        let offered = tokio::select! {
            offered = self.upstream.next(self.offered(), WAIT) => offered?,
            () = self.more_than(places, arrivals) => return Ok(()),
        };
        let assignment = match offered {
            Offered::Part(assignment) => assignment,
            Offered::Nothing(pause) => {
                let clock = &self.services.clock;
                let until_ms = clock.now_ms().saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
                let arrivals = self.services.signals.arrivals();
                tokio::select! {
                    () = clock.sleep_until(until_ms) => {}
                    () = self.more_than(places, arrivals) => {}
                }
                return Ok(());
            }
        };
        match take(&self.services, &*self.upstream, &self.population, &assignment).await {
            Err(TakeError::Unfit(reason)) => {
                tracing::warn!(%reason, job = %assignment.job, "a part in a round cannot be played");
                Ok(self.upstream.give_up(assignment.id, reason).await?)
            }
            taken => Ok(taken?),
        }
    }

    /// The clients that wait here, or behind a relay that waits here.
    fn places(&self) -> u32 {
        places(&self.fleet.lobby.candidates(&self.population))
    }

    /// What they can do for the parent.
    fn offered(&self) -> Offer {
        offer(&self.fleet.lobby.candidates(&self.population))
    }

    /// The clients that wait, once there are some: for a moment, as many as these. With what tells of others.
    async fn gathered(&self, together: u32) -> (u32, watch::Receiver<u64>) {
        let clock = &self.services.clock;
        let until_ms = clock.now_ms() + GATHER_MS;
        loop {
            let mut arrivals = self.services.signals.arrivals();
            let places = self.places();
            if places >= together.max(1) || (places > 0 && clock.now_ms() >= until_ms) {
                return (places, arrivals);
            }
            tokio::select! {
                () = self.arrival(&mut arrivals) => {}
                () = clock.sleep_until(until_ms), if places > 0 => {}
            }
        }
    }

    /// Returns a moment after a client has come.
    async fn arrival(&self, arrivals: &mut watch::Receiver<u64>) {
        // The sender lives as long as the services.
        let _ = arrivals.changed().await;
        let clock = &self.services.clock;
        clock.sleep_until(clock.now_ms() + RESTATE_MS).await;
    }

    /// Returns when more clients wait than were offered.
    async fn more_than(&self, places: u32, mut arrivals: watch::Receiver<u64>) {
        loop {
            self.arrival(&mut arrivals).await;
            if self.places() > places {
                return;
            }
        }
    }

    /// Follows an order until its round has ended, and tells the parent where that brings nothing. Returns how many
    /// clients have reported.
    async fn follow(&self, order: &OrderRow) -> Result<u32, TurnError> {
        let Services { clock, signals, .. } = &self.services;
        let (key, mut changes) = (order.round(), signals.watch());
        let mut asked_at_ms = clock.now_ms();
        loop {
            let Some(round) = self.services.db.look().await?.round(key).await? else { return Ok(0) };
            let is_coded = round.policy().branch.is_some();
            let ask_every_ms = if is_coded { CODED_ASK_EVERY_MS } else { ASK_EVERY_MS_MIN }.cast_signed();
            match round.phase {
                Phase::Selecting | Phase::Training | Phase::Aggregating => {}
                // The commit has deleted the order.
                Phase::Committed => return Ok(round.reported),
                Phase::Abandoned => {
                    // A parent that has closed its round refuses, and needs nothing.
                    self.upstream.give_up(order.assignment, "the relay's round came to no sum".into()).await?;
                    orders::settle(&self.services, key).await?;
                    return Ok(round.reported);
                }
            }
            tokio::select! {
                // The sender lives as long as the services.
                _ = changes.changed() => continue,
                () = clock.sleep_until(asked_at_ms + ask_every_ms) => {}
            }
            asked_at_ms = clock.now_ms();
            // An answer that a cut link keeps back must not keep the relay from the end of its round. A delivery gets
            // its answer by itself.
            let is_open = tokio::select! {
                closed = self.closed(key, changes.clone()) => closed.map(|()| true)?,
                is_open = self.upstream.is_open(order.assignment) => is_open?,
            };
            if !is_open {
                rounds::abandon(&self.services, key, AbandonReason::Upstream).await?;
                self.updates.sums.forget(key);
                self.services.signals.changed(key.job);
            }
        }
    }

    /// Returns when a round takes no more updates.
    async fn closed(&self, key: RoundKey, mut changes: watch::Receiver<u64>) -> Result<(), DbError> {
        loop {
            let round = self.services.db.look().await?.round(key).await?;
            if round.is_none_or(|round| !matches!(round.phase, Phase::Selecting | Phase::Training)) {
                return Ok(());
            }
            // The sender lives as long as the services.
            let _ = changes.changed().await;
        }
    }
}
