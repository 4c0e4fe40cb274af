//! The coordinator's state, as the HTTP APIs see it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tributary_engine::round::Pace;
use tributary_engine::story::{Listeners, OtherTables, ShutOut, Unable};
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::JobId;
use tributary_protocol::operator::{Answer, Engine, EpsilonPair, Health, LoadSample};
use tributary_protocol::state::HealthKind;

use crate::central::Evaluations;
use crate::cluster::lease::Leases;
use crate::devices::Devices;
use crate::driver::Driver;
use crate::fleet::Fleet;
use crate::guard::{Guard, Limits};
use crate::models::Models;
use crate::people::People;
use crate::releases::known::Releases;
use crate::ring::links::Meetings;
use crate::runtime::history::History;
use crate::runtime::kept::Kept;
use crate::services::Services;
use crate::updates::Updates;

/// How long the answer about classes that are shut out is used again, in milliseconds.
const SHUT_OUT_KEPT_MS: i64 = 15_000;
/// How long the health of an ended job is used again, in milliseconds: an hour. Clients that enrol later may change
/// what it says of them.
const ENDED_HEALTH_KEPT_MS: i64 = 3_600_000;
/// How long what a ledger comes to is used again, in milliseconds: a day. It never changes.
const SPENT_KEPT_MS: i64 = 86_400_000;
/// How long the answers of a version are used again, in milliseconds: an hour. They never change.
const ANSWERS_KEPT_MS: i64 = 3_600_000;
/// An hour of samples, two a minute.
const LOAD_SAMPLES_MAX: usize = 120;

/// How long the answer of the database to `/readyz` is used again, in milliseconds.
pub(crate) const READY_KEPT_MS: i64 = 1_000;
/// How long the health of all jobs in `/metrics` is used again: less than the interval of a scraper, in milliseconds.
const HEALTH_KEPT_MS: i64 = 5_000;

/// The state that all requests share. Everything in it but the database can be lost at any moment without losing work.
///
/// Handlers read the services as fields of it. Lower rooms receive only what they need.
#[derive(Debug)]
pub struct App {
    pub services: Services,
    pub fleet: Arc<Fleet>,
    pub updates: Arc<Updates>,
    pub models: Models,
    /// Evaluations that this coordinator computes.
    pub evaluations: Arc<Evaluations>,
    pub leases: Arc<Leases>,
    pub people: People,
    pub devices: Devices,
    /// The releases that are out.
    pub(crate) releases: Releases,
    /// The device class that each job shuts out, if any. The answer reads thousands of sessions.
    pub(crate) shut_out: Kept<JobId, Option<ShutOut>>,
    /// For each running job, the clients that cannot follow its plan, and those that listen where it needs such. It
    /// visits every client of the population.
    pub(crate) unable: Kept<JobId, (Option<Unable>, Option<Listeners>)>,
    /// For each job whose round collects clients, those with other tables. It visits all that wait.
    pub(crate) other_tables: Kept<JobId, OtherTables>,
    /// How each ended job is: no more of it changes.
    pub(crate) ended_health: Kept<JobId, Vec<Health>>,
    /// What the ledger with this newest entry comes to. The accountants take up to a second.
    pub(crate) spent: Kept<(JobId, Sha256Hash), EpsilonPair>,
    /// What the version of an analysis says.
    pub(crate) answers: Kept<(JobId, u32), Vec<Answer>>,
    /// Whether the database answers.
    pub(crate) ready: Kept<(), bool>,
    /// What the health of each running job is about.
    pub(crate) health: Kept<(), Vec<HealthKind>>,
    /// The load of the last hour.
    pub load: History<LoadSample>,
    pub guard: Guard,
    /// Where members of groups meet that cannot reach each other.
    pub(crate) links: Arc<Meetings>,
    /// Fingerprint of the private CA that enrolment tokens name.
    pub ca: Option<Sha256Hash>,
    /// The address at which clients reach the coordinator, where it has one of its own.
    pub clients_url: Option<String>,
}

/// Settings of the state that requests share.
#[derive(Clone, Debug)]
pub struct AppSettings {
    /// How long a dead coordinator's jobs wait before another takes them over.
    pub lease: Duration,
    /// Limit for all updates in flight, in bytes.
    pub upload_memory: usize,
    pub limits: Limits,
    /// Fingerprint of the private CA that enrolment tokens name.
    pub ca: Option<Sha256Hash>,
    /// The address at which clients reach the coordinator, where it has one of its own.
    pub clients_url: Option<String>,
}

impl App {
    pub fn new(services: Services, people: People, devices: Devices, settings: AppSettings) -> Arc<Self> {
        let AppSettings { lease, upload_memory, limits, ca, clients_url } = settings;
        let is_shared = services.db.engine() == Engine::Postgres;
        Arc::new(Self {
            fleet: Arc::new(Fleet::new(is_shared, Pace::below(limits.checkins_per_second))),
            updates: Arc::new(Updates::new(upload_memory, &services.metrics)),
            models: Models::default(),
            evaluations: Arc::default(),
            leases: Arc::new(Leases::new(lease, services.clock.now_ms())),
            people,
            devices,
            releases: Releases::default(),
            shut_out: Kept::new(SHUT_OUT_KEPT_MS),
            unable: Kept::new(SHUT_OUT_KEPT_MS),
            other_tables: Kept::new(SHUT_OUT_KEPT_MS),
            ended_health: Kept::new(ENDED_HEALTH_KEPT_MS),
            spent: Kept::new(SPENT_KEPT_MS),
            answers: Kept::new(ANSWERS_KEPT_MS),
            ready: Kept::new(READY_KEPT_MS),
            health: Kept::new(HEALTH_KEPT_MS),
            load: History::new(LOAD_SAMPLES_MAX),
            guard: Guard::new(limits, &services.metrics),
            links: Arc::default(),
            ca,
            clients_url,
            services,
        })
    }

    pub fn driver(&self) -> Driver {
        Driver {
            services: self.services.clone(),
            fleet: Arc::clone(&self.fleet),
            updates: Arc::clone(&self.updates),
            evaluations: Arc::clone(&self.evaluations),
            leases: Arc::clone(&self.leases),
        }
    }
}

impl Deref for App {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.services
    }
}
