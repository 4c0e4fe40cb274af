//! Events of one job: a list in pages, a long poll, or a stream of server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::watch;
use tributary_protocol::device::WAIT_MS_MAX;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Event, PageQuery};
use tributary_protocol::problem::ProblemType;

use super::feed::held_feed;
use crate::api::auth::{Operator, StillIn, Views};
use crate::api::extract::{Json, Query, full_page, page};
use crate::api::problem::{Answer, ApiError};
use crate::app::App;
use crate::db::DbError;
use crate::guard::Held;

/// Events of one job.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    job: JobId,
    limit: Option<u32>,
    /// Sequence number of the last event that the caller knows.
    after: Option<String>,
    /// How long to wait for an event when there is none.
    #[serde(default)]
    wait_ms: u32,
}

/// `Accept: text/event-stream` gets a stream that lasts until the caller leaves, and resumes after the id in
/// `Last-Event-ID`. Other requests get a page.
pub(super) async fn list(
    operator: Operator<Views>,
    State(app): State<Arc<App>>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let (limit, after) = page(&PageQuery { limit: query.limit, after: query.after }, 0)?;
    operator.job(&mut app.db.read().await?, query.job).await?;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::ACCEPT.as_str()).is_some_and(|accept| accept.contains("text/event-stream")) {
        let held = held_feed(&app, &operator)?;
        let last = text("last-event-id").and_then(|id| id.parse().ok()).unwrap_or(after);
        let still_in = operator.still_in();
        return Ok(stream_events(app, (still_in, held), query.job, last, limit));
    }
    let until_ms = app.clock.now_ms() + i64::from(query.wait_ms.min(WAIT_MS_MAX));
    let mut follow = Follow::new(Arc::clone(&app), query.job, after, limit);
    let mut still_in = operator.still_in();
    let mut items = follow.ready().await?;
    if items.is_empty() {
        let _held = held_feed(&app, &operator)?;
        items = tokio::select! {
            items = follow.next() => items?,
            ended = still_in.ended(&app) => return Err(ended.map_or_else(ApiError::from, |()| credential_ended())),
            () = app.clock.sleep_until(until_ms) => Vec::new(),
            () = app.stopping.cancelled() => Vec::new(),
        };
    }
    Ok(Json(full_page(items, limit, |event| event.sequence.to_string())).into_response())
}

fn credential_ended() -> ApiError {
    ApiError::new(ProblemType::Unauthorized, "the token or session has ended")
}

struct Follow {
    app: Arc<App>,
    changes: watch::Receiver<u64>,
    job: JobId,
    after: u64,
    limit: u32,
}

impl Follow {
    fn new(app: Arc<App>, job: JobId, after: u64, limit: u32) -> Self {
        let changes = app.signals.watch();
        Self { app, changes, job, after, limit }
    }

    /// The next events that are stored already.
    async fn ready(&mut self) -> Result<Vec<Event>, DbError> {
        // Marked before the read: a change during the read wakes the wait that follows.
        self.changes.mark_unchanged();
        let events = self.app.db.look().await?.events(self.job, self.after, self.limit).await?;
        if let Some(last) = events.last() {
            self.after = last.sequence;
        }
        Ok(events)
    }

    /// The next events; waits until there is one.
    async fn next(&mut self) -> Result<Vec<Event>, DbError> {
        loop {
            let events = self.ready().await?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.changes.changed().await.is_err() {
                return Ok(Vec::new());
            }
        }
    }
}

fn stream_events(
    app: Arc<App>,
    (still_in, held): (StillIn, Held<String>),
    job: JobId,
    after: u64,
    limit: u32,
) -> Response {
    let follow = Follow::new(app, job, after, limit);
    let events = stream::unfold(
        (follow, still_in, VecDeque::new(), held),
        |(mut follow, mut still_in, mut ready, held)| async move {
            while ready.is_empty() {
                match next_events(&mut follow, &mut still_in).await {
                    Ok(events) if events.is_empty() => return None,
                    Ok(events) => ready.extend(events),
                    Err(error) => {
                        // The browser reconnects and resumes after the last id that it received.
                        tracing::error!(%error, "an event stream ends");
                        return None;
                    }
                }
            }
            let event: Event = ready.pop_front()?;
            let sent = Sent::default().id(event.sequence.to_string()).event("transition").json_data(&event);
            Some((Ok::<_, Infallible>(sent.unwrap_or_default()), (follow, still_in, ready, held)))
        },
    );
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// The next events of a stream; none when the coordinator stops or the credential has ended.
async fn next_events(follow: &mut Follow, still_in: &mut StillIn) -> Result<Vec<Event>, DbError> {
    let app = Arc::clone(&follow.app);
    // A stream that never waits looks its credential up as well.
    if !still_in.works(&app).await? {
        return Ok(Vec::new());
    }
    tokio::select! {
        events = follow.next() => events,
        ended = still_in.ended(&app) => ended.map(|()| Vec::new()),
        () = app.stopping.cancelled() => Ok(Vec::new()),
    }
}
