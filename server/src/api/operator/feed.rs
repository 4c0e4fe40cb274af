//! The feed: the events of all jobs as one stream of server-sent events, which resumes after an interruption.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::watch;
use tributary_protocol::id::{JobId, Name};
use tributary_protocol::operator::Event;
use tributary_protocol::problem::ProblemType;

use crate::api::auth::{Operator, Power, StillIn, Views};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::{DbError, JobPosition};
use crate::guard::{self, Held};

/// A feed follows the newest jobs that have not ended, up to this number.
const JOBS_MAX: u32 = 200;
const EVENTS_AT_ONCE: u32 = 500;
/// Time in milliseconds that a job is followed after its end. It also covers the difference between the clocks of
/// coordinators.
const SLACK_MS: i64 = 600_000;

/// The stream lasts until the caller leaves. `Last-Event-ID` resumes after that event; without it the feed begins now.
pub(super) async fn stream(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Answer<Response> {
    let held = held_feed(&app, &operator)?;
    let permit = operator.may_within();
    let last = headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default());
    let mut feed = Feed {
        changes: app.signals.watch(),
        still_in: operator.still_in(),
        population: permit.population().cloned(),
        app,
        cursor: Cursor::default(),
        ready: VecDeque::new(),
        _held: held,
    };
    match last {
        Some(last) => {
            feed.cursor = last.parse().map_err(|()| {
                ApiError::new(ProblemType::Malformed, "Last-Event-ID must be the id of an event of this feed")
            })?;
        }
        None => feed.begin_now().await?,
    }
    // An id without data is no event, but the caller stores it and can resume before the first event.
    let beginning = stream::once(std::future::ready(Ok(Sent::default().id(feed.cursor.to_string()))));
    let events = stream::unfold(feed, |mut feed| async move {
        let stopping = feed.app.stopping.clone();
        let sent = tokio::select! {
            next = feed.next() => match next {
                Ok(sent) => sent?,
                Err(error) => {
                    // The caller reconnects and resumes after the last id that it received.
                    tracing::error!(%error, "a feed ends");
                    return None;
                }
            },
            () = stopping.cancelled() => return None,
        };
        Some((Ok::<_, Infallible>(sent), feed))
    });
    let events = futures_util::StreamExt::chain(beginning, events);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

/// The right to one more stream or poll of events.
pub(super) fn held_feed<P: Power>(app: &App, operator: &Operator<P>) -> Answer<Held<String>> {
    app.guard.feed(&operator.who().actor).ok_or_else(|| {
        let most = app.guard.limits().feeds_per_operator;
        let detail = format!("an operator may have {most} streams and polls of events at the same time");
        ApiError::new(ProblemType::TooManyRequests, detail).retry_after_ms(guard::RETRY_MS)
    })
}

struct Feed {
    app: Arc<App>,
    still_in: StillIn,
    /// The only population whose jobs are followed.
    population: Option<Name>,
    changes: watch::Receiver<u64>,
    cursor: Cursor,
    /// Events that were read and not sent yet. `None` marks the end of a look and has the time at which it began.
    ready: VecDeque<Ready>,
    _held: Held<String>,
}

enum Ready {
    Event(Box<Event>),
    Looked { at_ms: i64, followed: Vec<JobPosition> },
}

impl Feed {
    async fn begin_now(&mut self) -> Result<(), DbError> {
        let now_ms = self.app.clock.now_ms();
        let positions =
            self.app.db.look().await?.job_positions(self.population.as_ref(), now_ms - SLACK_MS, JOBS_MAX).await?;
        self.cursor = Cursor { looked_at_ms: now_ms, known: BTreeMap::new() };
        self.cursor.known.extend(positions.iter().map(|position| (position.job, position.last)));
        Ok(())
    }

    /// The next event; waits until there is one. None when the coordinator has stopped or the credential has ended.
    async fn next(&mut self) -> Result<Option<Sent>, DbError> {
        loop {
            // A feed that never waits looks its credential up as well.
            if !self.still_in.works(&self.app).await? {
                return Ok(None);
            }
            match self.ready.pop_front() {
                Some(Ready::Event(event)) => {
                    self.cursor.known.insert(event.job, event.sequence);
                    let sent = Sent::default().id(self.cursor.to_string()).event("transition").json_data(&*event);
                    return Ok(Some(sent.unwrap_or_default()));
                }
                Some(Ready::Looked { at_ms, followed }) => self.cursor.looked(at_ms, &followed),
                None => {
                    if self.look().await? {
                        continue;
                    }
                    tokio::select! {
                        changed = self.changes.changed() => if changed.is_err() { return Ok(None) },
                        ended = self.still_in.ended(&self.app) => return ended.map(|()| None),
                    }
                }
            }
        }
    }

    /// Reads the events since the last look. Returns false when there are none.
    async fn look(&mut self) -> Result<bool, DbError> {
        // Marked before the read: a change during the read wakes the wait that follows.
        self.changes.mark_unchanged();
        let at_ms = self.app.clock.now_ms();
        let mut tx = self.app.db.read().await?;
        let since_ms = self.cursor.looked_at_ms.saturating_sub(SLACK_MS);
        let followed = tx.job_positions(self.population.as_ref(), since_ms, JOBS_MAX).await?;
        let mut events = Vec::new();
        let mut is_whole = true;
        for (job, after) in self.cursor.behind(&followed) {
            let more = tx.events(job, after, EVENTS_AT_ONCE).await?;
            is_whole &= more.len() < EVENTS_AT_ONCE as usize;
            events.extend(more);
        }
        drop(tx);
        let is_news = !events.is_empty();
        events.sort_by_key(|event| (event.at_ms, event.job, event.sequence));
        self.ready.extend(events.into_iter().map(|event| Ready::Event(Box::new(event))));
        // If events were left for the next look, the cursor keeps the time of the last complete one.
        if is_whole {
            self.ready.push_back(Ready::Looked { at_ms, followed });
        }
        Ok(is_news || !is_whole)
    }
}

/// The position of a reader: the last event of each job that it follows. Jobs that are not in it began after the last
/// complete look, or ended well before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cursor {
    looked_at_ms: i64,
    known: BTreeMap<JobId, u64>,
}

impl Cursor {
    /// The jobs with events that this reader has not received, and the last event that it has.
    fn behind(&self, followed: &[JobPosition]) -> Vec<(JobId, u64)> {
        let seen = |position: &JobPosition| match self.known.get(&position.job) {
            Some(sequence) => *sequence,
            None if position.created_at_ms.saturating_add(SLACK_MS) < self.looked_at_ms => position.last,
            None => 0,
        };
        let behind = followed.iter().map(|position| (position, seen(position)));
        behind.filter(|(position, seen)| position.last > *seen).map(|(position, seen)| (position.job, seen)).collect()
    }

    /// Notes that the reader has received all events up to this time.
    fn looked(&mut self, at_ms: i64, followed: &[JobPosition]) {
        self.looked_at_ms = at_ms;
        let mut known = BTreeMap::new();
        for position in followed {
            let seen = self.known.get(&position.job).copied().unwrap_or(0);
            known.insert(position.job, seen.max(position.last));
        }
        self.known = known;
    }
}

const JOB_PREFIX: &str = "job_";

impl fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.looked_at_ms)?;
        for (job, sequence) in &self.known {
            let job = job.to_string();
            write!(formatter, "-{}.{sequence}", job.strip_prefix(JOB_PREFIX).unwrap_or(&job))?;
        }
        Ok(())
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('-');
        let looked_at_ms = parts.next().and_then(|time| time.parse().ok()).ok_or(())?;
        let mut known = BTreeMap::new();
        for part in parts {
            let (job, sequence) = part.split_once('.').ok_or(())?;
            let job = format!("{JOB_PREFIX}{job}").parse().map_err(|_| ())?;
            known.insert(job, sequence.parse().map_err(|_| ())?);
            if known.len() > JOBS_MAX as usize {
                return Err(());
            }
        }
        Ok(Self { looked_at_ms, known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u8) -> JobId {
        JobId::from_random([number; 16])
    }

    fn at(number: u8, last: u64, created_at_ms: i64) -> JobPosition {
        JobPosition { job: job(number), last, created_at_ms }
    }

    #[test]
    fn a_cursor_reads_back_what_it_wrote_and_nothing_else() {
        let cursor = Cursor { looked_at_ms: 17, known: BTreeMap::from([(job(1), 5), (job(2), 0)]) };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert_eq!("0".parse(), Ok(Cursor::default()));
        for wrong in ["", "x", "1-", "1-5", "1-zz.5", "1--5", &format!("1-{}.-1", "0".repeat(32))] {
            assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
        }
        let many = (0..=JOBS_MAX).map(|number| format!("-{number:032x}.1")).collect::<String>();
        assert!(format!("1{many}").parse::<Cursor>().is_err());
    }

    #[test]
    fn a_job_that_began_since_is_read_from_its_first_event_and_an_old_unknown_one_from_now() {
        let cursor = Cursor { looked_at_ms: SLACK_MS * 2, known: BTreeMap::from([(job(1), 5)]) };
        let followed = [at(1, 5, 0), at(2, 7, SLACK_MS * 2 + 1), at(3, 9, 0)];
        assert_eq!(cursor.behind(&followed), [(job(2), 0)]);
        assert_eq!(cursor.behind(&[at(1, 6, 0)]), [(job(1), 5)]);
    }

    #[test]
    fn a_whole_look_forgets_jobs_that_are_over() {
        let mut cursor = Cursor { looked_at_ms: 0, known: BTreeMap::from([(job(1), 5), (job(2), 2)]) };
        cursor.looked(100, &[at(2, 3, 0), at(3, 1, 50)]);
        assert_eq!(cursor, Cursor { looked_at_ms: 100, known: BTreeMap::from([(job(2), 3), (job(3), 1)]) });
    }
}
