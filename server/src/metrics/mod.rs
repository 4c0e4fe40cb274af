//! What a coordinator measures of itself, for Prometheus (`/metrics`).
//!
//! [`table`] says what there is. Handles are made once and kept: counting takes no lock but that of a look-up, and no
//! allocation. What happens to rounds and assignments is counted when the transaction that stored it has committed
//! (`Counted`), so that figures and database agree.

mod codecs;
mod connections;
mod http;
mod limits;
mod populations;
mod process;
mod registry;
pub mod table;
mod waits;

use std::sync::Arc;

use ::metrics::{Counter, Gauge, Histogram};
use axum::http::{Method, StatusCode};
use serde::Serialize;
use tributary_protocol::id::JobId;
use tributary_protocol::state::{AssignmentState, HealthKind, Phase, Task};
use tributary_protocol::traffic::Traffic;

pub(crate) use connections::{ConnectionMeters, Dropped, Handshake};
pub(crate) use http::Request;
pub(crate) use limits::{LimitMeters, Limited};
pub use populations::POPULATIONS_MAX;
pub(crate) use populations::{AssignmentOutcome, CheckInAnswer, RoundEnd};

use crate::runtime::clock::Stopwatch;
use codecs::Codecs;
use http::Http;
use populations::Populations;
pub(crate) use process::resident_bytes;
pub(crate) use registry::Registry;
use waits::Waits;

/// Who may read `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricsAccess {
    /// Anybody who reaches the coordinator, as with its health.
    #[default]
    Open,
    /// Operators.
    Token,
    /// Nobody: nothing is measured.
    Off,
}

/// An operation of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DbOperation {
    /// Beginning to read, with the wait for a connection.
    BeginRead,
    /// Beginning to write, with the wait for a connection and on SQLite for the writer.
    BeginWrite,
    /// One statement.
    Query,
    /// Making a transaction durable.
    Commit,
}

/// A call of the object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlobCall {
    /// Storing a body or a part of it.
    Put,
    /// Reading a body or a part of it.
    Read,
    /// Deleting bodies.
    Delete,
    /// Listing bodies.
    List,
}

/// What a transaction does that is counted once it has committed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Counted {
    /// A round was opened.
    Opened {
        /// Of which population.
        population: String,
        /// Training or evaluation.
        task: Task,
    },
    /// A round left a phase.
    Moved {
        /// Of which population.
        population: String,
        /// Training or evaluation.
        task: Task,
        /// The phase that it left.
        left: Phase,
        /// How long it was in it.
        after_ms: i64,
        /// How it ended, if it did.
        ended: Option<RoundEnd>,
    },
    /// Something became of an assignment.
    Assignment {
        /// Of which job.
        job: JobId,
        /// Of which population.
        population: String,
        /// Training or evaluation.
        task: Task,
        /// What.
        outcome: AssignmentOutcome,
    },
    /// Bytes came and went.
    Bytes(Traffic),
}

/// The metrics of one coordinator.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    access: MetricsAccess,
    http: Http,
    populations: Populations,
    codecs: Codecs,
    phases: [[Histogram; OPEN_PHASES.len()]; Task::ALL.len()],
    commit: Histogram,
    driver_failures: Counter,
    bytes_up: Counter,
    bytes_down: Counter,
    raw_bytes_up: Counter,
    raw_bytes_down: Counter,
    fold: Histogram,
    clients_held: Gauge,
    leases_held: Gauge,
    leases_taken: Counter,
    leases_lost: Counter,
    database: [(Histogram, Counter); DbOperation::ALL.len()],
    blob_store: [(Histogram, Counter); BlobCall::ALL.len()],
    /// How long transactions waited to read.
    pub(crate) reads: Waits,
    /// How long transactions waited to write.
    pub(crate) writes: Waits,
}

/// Updates in flight.
#[derive(Debug)]
pub(crate) struct UploadMeters {
    /// Those that wait for memory.
    pub(crate) waiting: Gauge,
    /// Those that have some.
    pub(crate) in_flight: Gauge,
    /// How long they had it.
    pub(crate) seconds: Histogram,
}

impl UploadMeters {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            waiting: registry.gauge(&table::UPDATES_WAITING, &[]),
            in_flight: registry.gauge(&table::UPDATES_IN_FLIGHT, &[]),
            seconds: registry.histogram(&table::UPDATE_PLACE, &[]),
        }
    }
}

/// The phases that a round leaves.
const OPEN_PHASES: [Phase; 3] = [Phase::Selecting, Phase::Training, Phase::Aggregating];

impl DbOperation {
    const ALL: [Self; 4] = [Self::BeginRead, Self::BeginWrite, Self::Query, Self::Commit];

    fn as_str(self) -> &'static str {
        match self {
            Self::BeginRead => "begin_read",
            Self::BeginWrite => "begin_write",
            Self::Query => "query",
            Self::Commit => "commit",
        }
    }
}

impl BlobCall {
    const ALL: [Self; 4] = [Self::Put, Self::Read, Self::Delete, Self::List];

    fn as_str(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Read => "read",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }
}

impl Metrics {
    /// Metrics that this process started to take at `now_ms`; with [`MetricsAccess::Off`] nothing is recorded.
    pub fn new(access: MetricsAccess, now_ms: i64) -> Arc<Self> {
        let registry = Registry::new(access != MetricsAccess::Off);
        registry.gauge(&table::BUILD, &[env!("CARGO_PKG_VERSION")]).set(1);
        registry.gauge(&table::START, &[]).set(now_ms as f64 / 1000.0);
        let phase = |task: usize, phase: usize| {
            registry.histogram(&table::ROUND_PHASE, &[Task::ALL[task].as_str(), OPEN_PHASES[phase].as_str()])
        };
        Arc::new(Self {
            http: Http::new(&registry),
            populations: Populations::default(),
            codecs: Codecs::default(),
            phases: std::array::from_fn(|task| std::array::from_fn(|index| phase(task, index))),
            commit: registry.histogram(&table::COMMIT, &[]),
            driver_failures: registry.counter(&table::DRIVER_FAILURES, &[]),
            bytes_up: registry.counter(&table::BYTES, &["up"]),
            bytes_down: registry.counter(&table::BYTES, &["down"]),
            raw_bytes_up: registry.counter(&table::RAW_BYTES, &["up"]),
            raw_bytes_down: registry.counter(&table::RAW_BYTES, &["down"]),
            fold: registry.histogram(&table::FOLD, &[]),
            clients_held: registry.gauge(&table::CLIENTS_HELD, &[]),
            leases_held: registry.gauge(&table::LEASES_HELD, &[]),
            leases_taken: registry.counter(&table::LEASE_CHANGES, &["taken"]),
            leases_lost: registry.counter(&table::LEASE_CHANGES, &["lost"]),
            database: DbOperation::ALL.map(|operation| {
                let labels = [operation.as_str()];
                (registry.histogram(&table::DATABASE, &labels), registry.counter(&table::DATABASE_FAILURES, &labels))
            }),
            blob_store: BlobCall::ALL.map(|call| {
                let labels = [call.as_str()];
                (
                    registry.histogram(&table::BLOB_STORE, &labels),
                    registry.counter(&table::BLOB_STORE_FAILURES, &labels),
                )
            }),
            reads: Waits::default(),
            writes: Waits::default(),
            access,
            registry,
        })
    }

    /// Metrics that nobody reads.
    pub fn off() -> Arc<Self> {
        Self::new(MetricsAccess::Off, 0)
    }

    /// Who may read them.
    pub fn access(&self) -> MetricsAccess {
        self.access
    }

    /// Whether anything is recorded: what is only needed to count may be left undone otherwise.
    pub(crate) fn is_on(&self) -> bool {
        self.registry.is_on()
    }

    /// Everything in Prometheus's text format; none when nothing is recorded.
    pub fn render(&self, clients_held: usize, leases_held: usize) -> Option<String> {
        // Set when they are read, so that check-ins and leases need not report each change.
        self.clients_held.set(clients_held as f64);
        self.leases_held.set(leases_held as f64);
        // Asked for only where the system tells: a memory of 0 bytes would be a lie.
        if let Some(bytes) = resident_bytes().filter(|_| self.is_on()) {
            self.registry.gauge(&table::MEMORY, &[]).set(bytes as f64);
        }
        self.registry.render()
    }

    /// Running jobs by what their health is about.
    pub(crate) fn jobs(&self, health: &[HealthKind]) {
        for kind in HealthKind::ALL {
            let jobs = health.iter().filter(|of| *of == kind).count();
            self.registry.gauge(&table::JOBS, &[kind.as_str()]).set(jobs as f64);
        }
    }

    /// Sorts recorded times into their buckets; to be called now and then, also when nobody reads them.
    pub fn tidy(&self) {
        self.registry.tidy();
    }

    /// What is told of the memory for updates in flight.
    pub(crate) fn uploads(&self) -> UploadMeters {
        UploadMeters::new(&self.registry)
    }

    /// What is told of connections.
    pub(crate) fn connections(&self) -> ConnectionMeters {
        ConnectionMeters::new(&self.registry)
    }

    /// How often limits of callers were reached.
    pub(crate) fn limits(&self) -> LimitMeters {
        LimitMeters::new(&self.registry)
    }

    /// The TLS certificate in use is valid until then.
    pub(crate) fn certificate_used(&self, expires_at_ms: i64) {
        self.registry.gauge(&table::TLS_CERTIFICATE_EXPIRY, &[]).set(expires_at_ms as f64 / 1000.0);
    }

    /// A job is ready for use: its updates are counted under its codec from now on.
    pub(crate) fn job_learned(&self, job: JobId, codec: &impl Serialize) {
        if self.is_on() {
            self.codecs.learned(&self.registry, job, codec);
        }
    }

    /// A job has ended.
    pub(crate) fn job_forgotten(&self, job: JobId) {
        self.codecs.forgotten(job);
    }

    /// A request came in.
    pub(crate) fn request_begun(&self, route: Option<&str>, method: &Method) -> Request {
        self.http.begun(&self.registry, route, method)
    }

    /// It was answered.
    pub(crate) fn request_answered(&self, request: Request, status: StatusCode) {
        request.answered(&self.registry, status);
    }

    /// A check-in was answered.
    pub(crate) fn checkin(&self, population: &str, answer: CheckInAnswer) {
        if self.is_on() {
            self.populations.of(&self.registry, population).checkin(answer);
        }
    }

    /// A transaction that did this has committed.
    pub(crate) fn count(&self, counted: &Counted) {
        let population = |name: &str| self.populations.of(&self.registry, name);
        match counted {
            Counted::Opened { population: name, task } => population(name).round_opened(*task),
            Counted::Moved { population: name, task, left, after_ms, ended } => {
                if let Some(phase) = OPEN_PHASES.iter().position(|phase| phase == left) {
                    self.phases[*task as usize][phase].record(*after_ms as f64 / 1000.0);
                }
                if let Some(end) = ended {
                    population(name).round_ended(*task, *end);
                }
            }
            Counted::Assignment { job, population: name, task, outcome } => {
                population(name).assignment(*task, *outcome);
                if let (Task::Train, Some(codec)) = (task, self.codecs.of(*job)) {
                    match outcome {
                        AssignmentOutcome::Became(AssignmentState::Reported) => codec.reported.increment(1),
                        AssignmentOutcome::Became(AssignmentState::Rejected) => codec.rejected.increment(1),
                        AssignmentOutcome::Became(_)
                        | AssignmentOutcome::Spare
                        | AssignmentOutcome::Late
                        | AssignmentOutcome::Stopped => {}
                    }
                }
            }
            Counted::Bytes(traffic) => {
                self.bytes_up.increment(traffic.bytes_up);
                self.bytes_down.increment(traffic.bytes_down);
                self.raw_bytes_up.increment(traffic.raw_bytes_up);
                self.raw_bytes_down.increment(traffic.raw_bytes_down);
            }
        }
    }

    /// A call of the object store ended.
    pub(crate) fn blob_call(&self, call: BlobCall, took: Stopwatch, failed: bool) {
        let (seconds, failures) = &self.blob_store[call as usize];
        seconds.record(took.seconds());
        failures.increment(u64::from(failed));
    }

    /// An update was added to its round's sum; decoding, checking and adding took this long.
    pub(crate) fn folded(&self, seconds: f64) {
        self.fold.record(seconds);
    }

    /// A round's model was made and stored.
    pub(crate) fn committed(&self, took: Stopwatch) {
        self.commit.record(took.seconds());
    }

    /// A look of the driver failed.
    pub(crate) fn driver_failed(&self) {
        self.driver_failures.increment(1);
    }

    /// This coordinator took the lease on a job that it did not hold before.
    pub(crate) fn lease_taken(&self) {
        self.leases_taken.increment(1);
    }

    /// Another coordinator has the lease on a job that this one held.
    pub(crate) fn lease_lost(&self) {
        self.leases_lost.increment(1);
    }

    /// A run of scheduled work ended. Rare, so its handle is looked up.
    pub(crate) fn scheduled(&self, work: &str, failed: bool) {
        let outcome = if failed { "failed" } else { "done" };
        self.registry.counter(&table::SCHEDULED_RUNS, &[work, outcome]).increment(1);
    }

    /// An operation of the database ended.
    pub(crate) fn database<T>(&self, operation: DbOperation, took: Stopwatch, result: &Result<T, sqlx::Error>) {
        let (seconds, failures) = &self.database[operation as usize];
        seconds.record(took.seconds());
        let duplicate = |error: &sqlx::Error| {
            error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
        };
        if result.as_ref().is_err_and(|error| !duplicate(error)) {
            failures.increment(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::state::AbandonReason;

    use super::*;

    #[test]
    fn the_handles_stand_in_the_order_of_their_words() {
        assert!(DbOperation::ALL.iter().enumerate().all(|(index, operation)| *operation as usize == index));
        assert!(BlobCall::ALL.iter().enumerate().all(|(index, call)| *call as usize == index));
    }

    #[test]
    fn what_is_off_records_nothing_and_renders_nothing() {
        let metrics = Metrics::off();
        metrics.checkin("phones", CheckInAnswer::Assigned);
        metrics.count(&Counted::Bytes(Traffic { bytes_up: 1, ..Traffic::default() }));
        assert!(metrics.registry.render().is_none());
    }

    #[test]
    fn a_round_that_ends_is_counted_with_its_reason_and_the_time_of_its_last_phase() {
        let metrics = Metrics::new(MetricsAccess::Open, 5_000);
        let moved = |left, after_ms, ended| Counted::Moved {
            population: "phones".into(),
            task: Task::Train,
            left,
            after_ms,
            ended,
        };
        metrics.count(&Counted::Opened { population: "phones".into(), task: Task::Train });
        metrics.count(&moved(Phase::Selecting, 300, None));
        metrics.count(&moved(Phase::Training, 1_500, Some(RoundEnd::Abandoned(AbandonReason::TooFewReports))));
        let text = metrics.registry.render().unwrap();
        for line in [
            "tributary_rounds_opened_total{population=\"phones\",task=\"train\"} 1",
            "tributary_rounds_total{population=\"phones\",task=\"train\",outcome=\"abandoned\",reason=\"too_few_reports\"} 1",
            "tributary_rounds_total{population=\"phones\",task=\"train\",outcome=\"committed\",reason=\"none\"} 0",
            "tributary_round_phase_seconds_sum{task=\"train\",phase=\"selecting\"} 0.3",
            "tributary_round_phase_seconds_bucket{task=\"train\",phase=\"training\",le=\"2.5\"} 1",
            "process_start_time_seconds 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn nothing_is_rendered_that_the_table_does_not_have() {
        let metrics = Metrics::new(MetricsAccess::Open, 0);
        metrics.checkin("phones", CheckInAnswer::NoJob);
        metrics.scheduled("retention", false);
        let text = metrics.registry.render().unwrap();
        let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert!(types.len() > 10);
        for line in types {
            let (name, kind) = line.split_once(' ').unwrap();
            let metric = table::ALL.iter().find(|metric| metric.name == name).expect(name);
            let expected = match metric.kind {
                table::Kind::Counter => "counter",
                table::Kind::Gauge => "gauge",
                table::Kind::Histogram(_) => "histogram",
            };
            assert_eq!(kind, expected, "{name}");
            assert!(text.contains(&format!("# HELP {name} {}", metric.help)), "{name}");
        }
    }
}
