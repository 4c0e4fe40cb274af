//! Sends stored notifications, each until the receiver has taken it.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Client;
use tributary_protocol::sealed::Sealed;

use super::webhook::{EVERYTHING, NotifySettings, Webhook, signature};
use crate::db::{DbError, NoticeRow};
use crate::runtime::outgoing;
use crate::services::Services;

/// Longest wait for the receiver's answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two looks for notifications that are due, in milliseconds.
const LOOK_EVERY_MS: i64 = 1_000;
/// Pause after the first failed attempt, in milliseconds. It doubles with each further one.
const PAUSE_MS: i64 = 10_000;
/// Longest pause.
const PAUSE_MS_MAX: i64 = 3_600_000;
/// Attempts after which a notification is given up: with these pauses, after most of a day.
const ATTEMPTS_MAX: u32 = 32;
const NOTICES_AT_ONCE: u32 = 16;
/// How long sent notifications stay in the database, in milliseconds.
const KEPT_MS: i64 = 7 * 24 * 3600 * 1000;

/// Why a notification was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("the receiver answered {0}")]
    Refused(reqwest::StatusCode),
    #[error("the receiver does not answer: {0}")]
    Unreachable(#[from] reqwest::Error),
}

/// Sends to the webhooks.
#[derive(Debug)]
pub struct Sender {
    /// By target: the name of a population, or [`EVERYTHING`].
    receivers: BTreeMap<String, Receiver>,
    secret: Sealed<String>,
}

#[derive(Debug)]
struct Receiver {
    http: Client,
    webhook: Webhook,
}

impl Sender {
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(settings: NotifySettings) -> Result<Self, reqwest::Error> {
        let everything = settings.everything.map(|webhook| (EVERYTHING.to_owned(), webhook));
        let populations = settings.populations.into_iter().map(|(name, webhook)| (name.to_string(), webhook));
        let receivers = everything.into_iter().chain(populations).map(|(target, webhook)| {
            let http = outgoing::client(webhook.url.as_str(), CALL_TIMEOUT).build()?;
            Ok((target, Receiver { http, webhook }))
        });
        Ok(Self { receivers: receivers.collect::<Result<_, _>>()?, secret: settings.secret })
    }

    /// Sends what is due until the coordinator stops.
    pub async fn run(&self, services: &Services) {
        while !services.stopping.is_cancelled() {
            if let Err(error) = self.send_due(services).await {
                tracing::warn!(%error, "the notifications could not be read; trying again");
            }
            let next_at_ms = services.clock.now_ms() + LOOK_EVERY_MS;
            tokio::select! {
                () = services.stopping.cancelled() => return,
                () = services.clock.sleep_until(next_at_ms) => {}
            }
        }
    }

    /// Sends what is due now; returns how many notifications were taken.
    ///
    /// # Errors
    /// [`DbError`]; a receiver that fails is tried again later instead.
    pub async fn send_due(&self, services: &Services) -> Result<usize, DbError> {
        let mut taken = 0;
        let due = services.db.look().await?.due_notices(services.clock.now_ms(), NOTICES_AT_ONCE).await?;
        for notice in due {
            // Claimed by moving its next attempt on: of several coordinators one sends it, and a process that dies
            // here leaves it to the next attempt.
            let receiver = self.receivers.get(&notice.target);
            // Nobody takes it any more once its webhook is no longer configured.
            let next_at_ms = receiver.and_then(|_| next_attempt_ms(notice.attempts + 1, services.clock.now_ms()));
            let mut tx = services.db.begin().await?;
            let is_ours = tx.claim_notice(&notice, next_at_ms).await?;
            tx.commit().await?;
            let Some(receiver) = receiver.filter(|_| is_ours) else { continue };
            let sent = self.send(receiver, &notice, services.clock.now_ms() / 1000).await;
            if let Err(error) = &sent {
                let (id, attempt) = (&notice.id, notice.attempts + 1);
                tracing::warn!(%error, %id, attempt, "a notification was not taken");
            }
            if sent.is_ok() {
                let now_ms = services.clock.now_ms();
                let mut tx = services.db.begin().await?;
                tx.notice_sent(&notice, now_ms, now_ms - KEPT_MS).await?;
                tx.commit().await?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    async fn send(&self, receiver: &Receiver, notice: &NoticeRow, seconds: i64) -> Result<(), SendError> {
        let body = receiver.webhook.format.body(&notice.body);
        let signature = signature(self.secret.expose(), seconds, &body);
        let call = receiver.http.post(receiver.webhook.url.clone());
        let call = call.header("content-type", "application/json").header("tributary-signature", signature);
        let answer = call.body(body).send().await.map_err(reqwest::Error::without_url)?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(SendError::Refused(status)) }
    }
}

/// When attempt number `attempt` (from 1) is followed by the next one if it fails; none after the last.
fn next_attempt_ms(attempt: u32, now_ms: i64) -> Option<i64> {
    let pause_ms = PAUSE_MS.saturating_mul(1 << (attempt - 1).min(20)).min(PAUSE_MS_MAX);
    (attempt < ATTEMPTS_MAX).then(|| now_ms.saturating_add(pause_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end_after_most_of_a_day() {
        let pauses: Vec<_> = (1..).map_while(|attempt| next_attempt_ms(attempt, 0)).collect();
        assert_eq!(pauses[..4], [10_000, 20_000, 40_000, 80_000]);
        assert_eq!((pauses.len(), pauses.last()), (31, Some(&PAUSE_MS_MAX)));
        assert!(pauses.iter().sum::<i64>() > 20 * PAUSE_MS_MAX);
    }
}
