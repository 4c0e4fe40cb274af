//! What the driver works with.

use std::sync::Arc;

use crate::central::Evaluations;
use crate::cluster::lease::Leases;
use crate::fleet::Fleet;
use crate::services::Services;
use crate::updates::Updates;

/// The driver of a coordinator. Cheap to clone: each job's task has one.
#[derive(Clone, Debug)]
pub struct Driver {
    pub services: Services,
    pub fleet: Arc<Fleet>,
    pub updates: Arc<Updates>,
    pub evaluations: Arc<Evaluations>,
    pub leases: Arc<Leases>,
}
