//! A transaction whose times are measured, and which counts what it did once it has committed.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::{Database, Transaction};

use crate::metrics::{Counted, DbOperation, Metrics};
use crate::runtime::clock::Stopwatch;

/// An open transaction of one engine. It stands for its connection wherever a query wants one.
#[derive(Debug)]
pub struct Watched<E: Database> {
    tx: Transaction<'static, E>,
    metrics: Arc<Metrics>,
    counted: Vec<Counted>,
}

impl<E: Database> Watched<E> {
    pub(super) fn begun(
        begun: Result<Transaction<'static, E>, sqlx::Error>,
        operation: DbOperation,
        stopwatch: Stopwatch,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, sqlx::Error> {
        metrics.database(operation, stopwatch, &begun);
        Ok(Self { tx: begun?, metrics: Arc::clone(metrics), counted: Vec::new() })
    }

    /// A query has ended.
    pub(super) fn asked<T>(&self, stopwatch: Stopwatch, result: &Result<T, sqlx::Error>) {
        self.metrics.database(DbOperation::Query, stopwatch, result);
    }

    /// What it does, to be counted if it commits.
    pub(super) fn counts(&mut self, counted: Counted) {
        if self.metrics.is_on() {
            self.counted.push(counted);
        }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(super) async fn commit(self) -> Result<(), sqlx::Error> {
        let Self { tx, metrics, counted } = self;
        let stopwatch = Stopwatch::start();
        let committed = tx.commit().await;
        metrics.database(DbOperation::Commit, stopwatch, &committed);
        committed?;
        for counted in &counted {
            metrics.count(counted);
        }
        Ok(())
    }
}

impl<E: Database> Deref for Watched<E> {
    type Target = E::Connection;

    fn deref(&self) -> &E::Connection {
        &self.tx
    }
}

impl<E: Database> DerefMut for Watched<E> {
    fn deref_mut(&mut self) -> &mut E::Connection {
        &mut self.tx
    }
}
