//! The services that every room of the coordinator receives.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tributary_engine::job::JobSpec;
use tributary_protocol::id::{JobId, Name};

use crate::blob::{Blobs, Workbench};
use crate::db::{Db, DbError, Tx};
use crate::evaluator::Evaluator;
use crate::metrics::Metrics;
use crate::relay::Upstream;
use crate::runtime::clock::Clock;
use crate::runtime::offload::Cores;
use crate::runtime::signals::Signals;
use crate::specs::Specs;

/// For whom notifications are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticesTo {
    /// From how many rounds abandoned in a row on one is stored.
    pub abandoned: u32,
    /// Whether there is a webhook for all of them.
    pub everything: bool,
    /// Populations that have a webhook of their own.
    pub populations: Vec<Name>,
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Services {
    pub db: Db,
    /// This process's name among the coordinators.
    pub node: Name,
    /// Where clients reach this process among several; none where any of them does.
    pub node_url: Option<String>,
    /// The place of bodies of models and updates.
    pub blobs: Blobs,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    /// None without a webhook.
    pub notify: Option<Arc<NoticesTo>>,
    /// What computes networks; none where the program brought nothing. Jobs that need it are refused then.
    pub evaluator: Option<Arc<dyn Evaluator>>,
    /// The parent, where this coordinator is a relay.
    pub upstream: Option<Arc<dyn Upstream>>,
    /// The specs of the jobs in use.
    pub specs: Arc<Specs>,
    /// The cores, for decoding updates.
    pub cores: Cores,
    /// Signals for driver tasks and watchers.
    pub signals: Arc<Signals>,
    /// Cancelled when the coordinator stops.
    pub stopping: CancellationToken,
}

impl Services {
    pub fn new(db: Db, node: Name, blobs: Blobs, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            db,
            node,
            node_url: None,
            blobs,
            clock,
            notify: None,
            evaluator: None,
            upstream: None,
            specs: Arc::new(Specs::new(Arc::clone(&metrics))),
            metrics,
            cores: Cores::default(),
            signals: Arc::default(),
            stopping: CancellationToken::new(),
        }
    }

    /// The spec of a job, for the work of a client. The job is read once, or until its inputs are fixed: the spec may
    /// have an older round policy or name, on which no client's work depends.
    ///
    /// # Errors
    /// [`DbError`] when the job cannot be read. None when there is no such job.
    pub async fn spec(&self, tx: &mut Tx, job: JobId) -> Result<Option<Arc<JobSpec>>, DbError> {
        if let Some(spec) = self.specs.known(job).filter(|spec| !spec.file.model.lacks_statistics()) {
            return Ok(Some(spec));
        }
        tx.job(job).await?.map(|row| self.specs.of(&row)).transpose()
    }

    /// A workbench for bodies that are being written.
    pub fn workbench(&self) -> Workbench {
        Workbench::new(self.blobs.clone(), self.db.clone())
    }
}
