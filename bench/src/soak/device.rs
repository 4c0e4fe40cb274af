//! The life of a device: asleep and awake, in long polls, at work, and on a network that fails.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderValue;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tributary_protocol::device::{Assignment, CheckInResponse, FailureReport, ReportAccepted};
use tributary_protocol::problem::Problem;
use tributary_protocol::seed::Stream;
use tributary_protocol::state::FailureReason;

use super::fate::{End, Path, Work, pause};
use super::network::Network;
use super::rhythm::Rhythm;
use super::tally::{Count, Tally};
use crate::device::{Connection, check_in_body, json, update_path};
use crate::fleet;
use tributary::error::CliError;
use tributary::stopwatch::Stopwatch;

/// How long a device asks to be held.
const WAIT_MS: u32 = 60_000;
/// How long a device waits for an answer beyond the time for which it is held.
const ANSWER: Duration = Duration::from_secs(20);
/// Tries to send an update, or to download a model. With their pauses they outlast a coordinator's absence.
const TRIES_MAX: u32 = 8;
/// A device closes its connection before a longer pause.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// What all devices share.
pub(super) struct World {
    pub(super) network: Network,
    pub(super) tally: Arc<Tally>,
    pub(super) day: Duration,
    pub(super) began: Instant,
    pub(super) model_bytes: u64,
    /// True when devices finish what they do, and do nothing else.
    pub(super) ending: watch::Sender<bool>,
}

pub(super) struct Device {
    pub(super) secret: HeaderValue,
    pub(super) rhythm: Rhythm,
    pub(super) stream: Stream,
    /// The coordinator to which it goes.
    pub(super) node: usize,
    pub(super) connection: Option<Connection>,
    /// The version of the model that it has.
    pub(super) has: Option<u32>,
    /// Calls in a row that failed.
    pub(super) failed: u32,
}

/// An answer to a call.
enum Answer {
    Success(Bytes),
    /// The coordinator asks for a later try.
    Later(Duration),
    /// A refusal for good.
    Never(u16),
    /// None came.
    Nothing,
}

impl World {
    /// The time since the first midnight, in days.
    pub(super) fn now_days(&self) -> f64 {
        self.began.elapsed().as_secs_f64() / self.day.as_secs_f64()
    }

    fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Waits, at most until the end of the soak.
    async fn rest(&self, time: Duration) {
        let mut ending = self.ending.subscribe();
        // An error would mean that the sender is gone, which the world has.
        let _ = timeout(time, ending.wait_for(|ending| *ending)).await;
    }
}

impl Device {
    pub(super) async fn live(mut self, world: Arc<World>) {
        while !world.is_ending() {
            match self.rhythm.at(world.now_days()) {
                Err(asleep) => world.rest(world.day.mul_f64(asleep)).await,
                Ok(awake) => {
                    world.tally.add(Count::Awake);
                    self.day(&world, Instant::now() + world.day.mul_f64(awake)).await;
                    world.tally.subtract(Count::Awake);
                    // The app is closed, in a held check-in or not.
                    self.connection = None;
                }
            }
        }
    }

    async fn day(&mut self, world: &Arc<World>, sleeps_at: Instant) {
        // Not all at the moment at which they wake.
        let late = Duration::from_secs_f64(5.0 * self.stream.unit());
        world.rest(late).await;
        while !world.is_ending() && Instant::now() < sleeps_at {
            let left = sleeps_at - Instant::now();
            let mut ending = world.ending.subscribe();
            let answer = tokio::select! {
                answer = self.check_in(world) => answer,
                () = sleep(left) => return,
                _ = ending.wait_for(|ending| *ending) => return,
            };
            let next = match answer {
                Ok(CheckInResponse::Assigned(assignment)) => {
                    world.tally.add(Count::Assigned);
                    match self.work(world, &assignment).await {
                        Some(next) => next,
                        None => return,
                    }
                }
                Ok(CheckInResponse::Retry { retry_after_ms, .. }) => Duration::from_millis(retry_after_ms),
                Err(later) => later,
            };
            if next > IDLE_MAX {
                self.connection = None;
            }
            world.rest(next.min(sleeps_at.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// An answer to a check-in, or the pause before the next one.
    async fn check_in(&mut self, world: &World) -> Result<CheckInResponse, Duration> {
        world.tally.add(Count::CheckIns);
        match self.call(world, Method::POST, "/device/v1/checkins", check_in_body(WAIT_MS)).await {
            Answer::Success(body) => serde_json::from_slice(&body).map_err(|error| {
                world.tally.unexpected(format!("check-in: {error}"));
                IDLE_MAX
            }),
            Answer::Later(pause) => Err(pause),
            Answer::Never(..) | Answer::Nothing => Err(pause(self.failed, &mut self.stream)),
        }
    }

    /// Does the work of a round. Returns the pause before the next check-in; `None`: the device is gone for today.
    async fn work(&mut self, world: &World, assignment: &Assignment) -> Option<Duration> {
        let work = Work::draw(&mut self.stream);
        if self.has != Some(assignment.model_version) && !self.download(world, assignment).await {
            return Some(pause(0, &mut self.stream));
        }
        if !self.train(world, assignment, work.trains).await {
            world.tally.add(Count::Late);
            return Some(Duration::ZERO);
        }
        match work.end {
            End::Reports => Some(self.report(world, assignment).await),
            End::GivesUp => {
                world.tally.add(Count::GaveUp);
                let report = json(&FailureReport { reason: FailureReason::OutOfMemory, detail: String::new() });
                let path = format!("/device/v1/assignments/{}/failure", assignment.id);
                // It is not repeated: the deadline ends what the coordinator does not hear of.
                self.call(world, Method::POST, &path, report).await;
                Some(pause(2, &mut self.stream))
            }
            End::Silent => {
                world.tally.add(Count::Silent);
                None
            }
        }
    }

    /// Whether the device has the model now.
    async fn download(&mut self, world: &World, assignment: &Assignment) -> bool {
        let path = format!("/device/v1/jobs/{}/models/{}", assignment.job, assignment.model_version);
        for tried in 0..TRIES_MAX {
            match self.call(world, Method::GET, &path, Bytes::new()).await {
                Answer::Success(_) => {
                    world.tally.add(Count::Downloads);
                    self.has = Some(assignment.model_version);
                    return true;
                }
                Answer::Later(pause) => sleep(pause).await,
                // 410: the round has ended, and retention has deleted its version.
                Answer::Never(..) => return false,
                Answer::Nothing => sleep(pause(tried, &mut self.stream)).await,
            }
        }
        false
    }

    /// "Trains", and asks in between whether the round is still open, as the SDK does. Returns whether it was to the
    /// end.
    async fn train(&mut self, world: &World, assignment: &Assignment, trains: Duration) -> bool {
        let ends_at = Instant::now() + trains;
        let every = Duration::from_millis(assignment.ask_every_ms.max(1_000));
        let path = format!("/device/v1/assignments/{}", assignment.id);
        loop {
            let left = ends_at.saturating_duration_since(Instant::now());
            sleep(left.min(every)).await;
            if left <= every {
                return true;
            }
            if let Answer::Never(410) = self.call(world, Method::GET, &path, Bytes::new()).await {
                return false;
            }
        }
    }

    /// Sends an update until there is an answer. Returns the pause before the next check-in.
    async fn report(&mut self, world: &World, assignment: &Assignment) -> Duration {
        let Ok(update) = update(assignment) else { return IDLE_MAX };
        let path = update_path(assignment);
        for tried in 0..TRIES_MAX {
            let clock = Stopwatch::start();
            match self.call(world, Method::PUT, &path, update.clone()).await {
                Answer::Success(body) => {
                    world.tally.acknowledged(assignment.id, clock.elapsed().as_secs_f64() * 1000.0);
                    let accepted: Option<ReportAccepted> = serde_json::from_slice(&body).ok();
                    return accepted.map_or(IDLE_MAX, |accepted| Duration::from_millis(accepted.retry_after_ms));
                }
                Answer::Later(pause) => sleep(pause).await,
                Answer::Never(..) => {
                    world.tally.add(Count::Late);
                    return Duration::ZERO;
                }
                Answer::Nothing => sleep(pause(tried, &mut self.stream)).await,
            }
        }
        world.tally.unanswered(assignment.id);
        pause(0, &mut self.stream)
    }

    /// One try of a call, over the connection that is open or a new one.
    async fn call(&mut self, world: &World, method: Method, path: &str, body: Bytes) -> Answer {
        let held = if method == Method::POST { Duration::from_millis(WAIT_MS.into()) } else { Duration::ZERO };
        let tried = timeout(held + ANSWER, self.exchanged(world, method.clone(), path, body)).await;
        let (status, body) = match tried {
            Ok(Some(answer)) => answer,
            broken => {
                world.tally.add(if broken.is_err() { Count::TimedOut } else { Count::Broken });
                self.connection = None;
                self.failed += 1;
                // Where there are several coordinators, a load balancer would send the next call to another one.
                self.node = (self.node + 1) % world.network.cluster.size();
                return Answer::Nothing;
            }
        };
        self.failed = 0;
        match status {
            200 | 206 => Answer::Success(body),
            429 | 503 => {
                world.tally.add(Count::Refused);
                // A coordinator that stops closes its connections after the answer.
                self.connection = None;
                let problem: Option<Problem> = serde_json::from_slice(&body).ok();
                let asked = problem.and_then(|problem| problem.retry_after_ms);
                Answer::Later(asked.map_or(IDLE_MAX, Duration::from_millis))
            }
            410 => Answer::Never(status),
            _ => {
                let body_text = String::from_utf8_lossy(&body);
                world.tally.unexpected(format!("{method} {path}: {status} {body_text}"));
                Answer::Never(status)
            }
        }
    }

    /// `None`: the network failed.
    async fn exchanged(&mut self, world: &World, method: Method, path: &str, body: Bytes) -> Option<(u16, Bytes)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let drawn = Path::draw(&mut self.stream, world.model_bytes);
                let stream = world.network.connect(self.node, drawn).await.ok()?;
                Connection::over(stream).await.ok()?
            }
        };
        let answer = connection.exchange(method, path, &self.secret, body).await.ok()?;
        self.connection = Some(connection);
        Some(answer)
    }
}

/// The same bytes at each try.
fn update(assignment: &Assignment) -> Result<Bytes, CliError> {
    fleet::update(assignment, assignment.seed.0)
}
