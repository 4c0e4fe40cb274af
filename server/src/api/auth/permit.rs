//! Permits: the only way to an operator's power, and to the audit log.

use std::fmt::Display;
use std::marker::PhantomData;

use tributary_protocol::id::Name;
use tributary_protocol::operator::SignedIn;
use tributary_protocol::state::{AuditAction, Role};

use crate::db::{DbError, NewAudit, Tx};

/// What a role may do, as a type.
pub(in crate::api) trait Power {
    /// The lowest role that has it.
    const ROLE: Role;
}

/// Seeing.
#[derive(Clone, Debug)]
pub(in crate::api) struct Views;

/// Creating and steering jobs.
#[derive(Clone, Debug)]
pub(in crate::api) struct Steers;

/// Managing populations, tokens and accounts.
#[derive(Clone, Debug)]
pub(in crate::api) struct Administers;

impl Power for Views {
    const ROLE: Role = Role::Viewer;
}

impl Power for Steers {
    const ROLE: Role = Role::Operator;
}

impl Power for Administers {
    const ROLE: Role = Role::Admin;
}

/// An operator's power over a population, or over the deployment. Only [`super::Operator`] gives it.
#[derive(Debug)]
pub(in crate::api) struct Permit<P> {
    actor: String,
    label: String,
    population: Option<Name>,
    power: PhantomData<P>,
}

impl<P: Power> Permit<P> {
    pub(super) fn new(who: &SignedIn) -> Self {
        Self {
            actor: who.actor.clone(),
            label: who.name.clone(),
            population: who.population.clone(),
            power: PhantomData,
        }
    }

    /// The same power, for an action that concerns this population.
    pub(in crate::api) fn about(self, population: Option<Name>) -> Self {
        Self { population, ..self }
    }

    /// The population that it covers; none for the deployment.
    pub(in crate::api) fn population(&self) -> Option<&Name> {
        self.population.as_ref()
    }

    /// Writes an action of this operator to the audit log, as the last statement of the transaction that performs it.
    pub(in crate::api) async fn audits(
        self,
        tx: &mut Tx,
        action: AuditAction,
        subject: &(dyn Display + Sync),
        detail: Option<String>,
        now_ms: i64,
    ) -> Result<(), DbError> {
        let Self { actor, label, population, .. } = self;
        let new = NewAudit { actor, label, action, subject: subject.to_string(), population, detail };
        tracing::info!(action = %new.action, subject = %new.subject, actor = %new.actor, "an operator acts");
        tx.append_audit(new, now_ms).await
    }
}
